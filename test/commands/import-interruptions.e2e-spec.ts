import { describe, expect, it, onTestFinished, vi } from 'vitest';
import { atTestEnd } from '../support/test-end.ts';
import { setTimeout as pause } from 'node:timers/promises';
import { Client } from 'pg';
import { CSV_HEADER } from '../support/stock.ts';
import { EXTREMES, file, importCsv, importFile, store, useImportStore } from './import-store.ts';
import { failed, IMPORT_CSV, outcomeOf, sessionsOf, startInventory, untilSessionOf } from './inventory-command.ts';

useImportStore(EXTREMES, 'empty');

describe('inventory import', () => {
  it('changes nothing after Ctrl-C, and prints so', async () => {
    const child = startInventory(store.url, IMPORT_CSV);
    child.stdin.write(`${CSV_HEADER}8,1,sold\n`);
    await untilSessionOf('import', store.database, `query LIKE 'COPY incoming%'`);
    child.kill('SIGINT');
    expect(await outcomeOf(child)).toEqual({ code: 130, stdout: '', stderr: 'interrupted: nothing was changed\n' });
    expect(await store.changes()).toEqual([]);
  });

  it('changes nothing, or all, after Ctrl-C during its commit, and prints that it does not know which', async () => {
    await store.sql(`
      CREATE FUNCTION wait() RETURNS TRIGGER LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_sleep(20); RETURN NULL; END $$;
      CREATE CONSTRAINT TRIGGER wait AFTER INSERT ON inventory_item INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION wait()`);
    const child = startInventory(store.url, [...IMPORT_CSV, '--new', 'add']);
    child.stdin.end(`${CSV_HEADER}8,1,sold\n`);
    await untilSessionOf('import', store.database, `wait_event = 'PgSleep'`);
    child.kill('SIGTERM');
    const message = 'interrupted during the commit: "inventory history" tells whether it happened\n';
    expect(await outcomeOf(child)).toEqual({ code: 143, stdout: '', stderr: message });
    await store.sql('DROP FUNCTION wait CASCADE');
  });

  it('prints after its commit that it is done, when Ctrl-C ends it then', async () => {
    const printed = vi.spyOn(console, 'error').mockReturnValue();
    const end = vi.spyOn(Client.prototype, 'end').mockImplementationOnce(function (this: Client) {
      process.listeners('exit').at(-1)?.(130);
      void this.end();
    });
    onTestFinished(() => {
      printed.mockRestore();
      end.mockRestore();
    });
    await importFile(await file('done.csv', `${CSV_HEADER}8,1,sold\n`));
    expect(printed.mock.calls).toEqual([['interrupted after the commit: the import is done']]);
  });

  it('prints one line when it is cancelled while it waits for another import, and waits no more once it is killed', async () => {
    await store.database.session(`SELECT pg_advisory_xact_lock(hashtextextended('inventory import', 0))`);
    const killed = startInventory(store.url, IMPORT_CSV);
    killed.stdin.end(`${CSV_HEADER}8,1,sold\n`);
    await untilSessionOf('import', store.database, `wait_event = 'advisory'`);
    killed.kill('SIGKILL');
    await expect.poll(() => sessionsOf('import', store.database)).toEqual([]); // by itself it would wait for a minute
    const outcome = importCsv('8,1,sold', '--quiet');
    const waits = `application_name = 'inventory import' AND wait_event = 'advisory'`;
    const cancel = `SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND ${waits}`;
    await pause(5_200); // for other locks it waits 5 s
    await expect.poll(() => store.sql(cancel)).toHaveLength(1);
    const reason = 'the database cut the statement off: it took too long, or somebody cancelled it';
    expect(await outcome).toEqual(failed(reason));
  });

  it('prints one line when PostgreSQL refuses the commit', async () => {
    await store.sql(`
      CREATE FUNCTION refuse() RETURNS TRIGGER LANGUAGE plpgsql AS $$ BEGIN RAISE 'not today'; END $$;
      CREATE CONSTRAINT TRIGGER refuse AFTER INSERT ON inventory_item INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION refuse()`);
    await atTestEnd(() => store.sql('DROP FUNCTION refuse CASCADE'));
    const outcome = await importCsv('8,1,sold');
    expect(outcome).toEqual(failed('not today (P0001)'));
    expect(await store.stock()).toBe(EXTREMES);
  });
});

import { execFileSync } from 'node:child_process';
import { renameSync, rmSync } from 'node:fs';
import { describe, expect, inject, it, vi } from 'vitest';
import { Database, createDatabase } from '../support/database.ts';
import { startFaultyPostgres } from '../support/postgres-server.ts';
import { listText } from '../support/stock.ts';
import { expectLists, presentSnapshot, startEveryService, untilQuiet } from './services.ts';

describe('a list of another database at the same address', () => {
  it.each(['a copy', 'another store'])('is not that of the database before, which was replaced by %s', async (what) => {
    const database = await createDatabase();
    const services = await startEveryService({ databaseUrl: database.url });
    const name = new URL(database.url).pathname.slice(1);
    /** Of the server, once the services have no session in the way. */
    const sql = (statement: string) =>
      vi.waitFor(async () => {
        await database.cutSessions().catch(() => undefined);
        await new Database(inject('postgresUrl')).sql(statement);
      }, 10_000);
    await database.stock([1, 7]);
    await expectLists(services, listText([1, 7]));
    await sql(`CREATE DATABASE ${name}_new TEMPLATE ${what === 'a copy' ? name : inject('templateDatabase')}`);
    const copy = new Database(database.url.replace(name, `${name}_new`));
    if (what !== 'a copy') await copy.addKey(services[0]?.key ?? '');
    // This change is older than a kept list, which therefore would not ask for it.
    await copy.stock([1, 8]);
    await database.sql(`UPDATE inventory_item SET quantity = 9`);
    await expectLists(services, listText([1, 9]));
    await sql(`ALTER DATABASE ${name} RENAME TO ${name}_old`);
    await sql(`ALTER DATABASE ${name}_new RENAME TO ${name}`);
    await expectLists(services, listText([1, 8]));
    await new Database(inject('postgresUrl')).sql(`DROP DATABASE ${name}_old WITH (FORCE)`);
  });

  it('is not that of the server before, although the snapshot reads the same', async () => {
    const postgres = await startFaultyPostgres();
    const { database, dataFolder } = postgres;
    await database.setSystem('SET autovacuum = off');
    const services = await startEveryService({ databaseUrl: postgres.url });
    await database.stock([1, 7]);
    await untilQuiet(database, services, listText([1, 7]));
    await postgres.stop();
    execFileSync('cp', ['-a', dataFolder, `${dataFolder}-of-another`]);
    await postgres.restart();
    await database.sql('UPDATE inventory_item SET quantity = 9');
    await expectLists(services, listText([1, 9])); // after a restart in good order, too
    const before = await presentSnapshot(database);

    await postgres.stop();
    rmSync(dataFolder, { recursive: true });
    renameSync(`${dataFolder}-of-another`, dataFolder);
    await postgres.restart();
    await database.sql('UPDATE inventory_item SET quantity = 8');
    expect(await presentSnapshot(database)).toBe(before); // the trap is set
    await expectLists(services, listText([1, 8]));
  });
});

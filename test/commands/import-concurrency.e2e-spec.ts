import { Readable } from 'node:stream';
import { describe, expect, it } from 'vitest';
import { awaitTurn, loadRows, planMerge } from '../../src/commands/import/plan.ts';
import { StockFile } from '../../src/commands/import/rows.ts';
import { writePlanned } from '../../src/commands/import/writing.ts';
import { MEMBERS } from '../../src/inventory/item.ts';
import { CSV_HEADER } from '../support/stock.ts';
import { EXTREMES, file, importFile, store, untilLockWait, useImportStore } from './import-store.ts';
import { END_MARK } from './inventory-command.ts';

const RULES = { new: 'add', stale: 'refuse', missing: 'keep' } as const;

useImportStore(EXTREMES, 'empty');

describe('inventory import', () => {
  it('locks pets in the order of their ids', async () => {
    const first = 'SELECT FROM inventory_item WHERE pet_id = -9223372036854775808 FOR UPDATE';
    await store.database.session(first);
    const pets = EXTREMES.replaceAll(/,\d+,/g, ',1,').trimEnd().split('\n').toReversed();
    const finished = Promise.allSettled([importFile(await file('locked.csv', `${CSV_HEADER}${pets.join('\n')}\n`))]);
    await untilLockWait();
    expect(await store.sql('SELECT FROM inventory_item FOR UPDATE SKIP LOCKED')).toHaveLength(3);
    await store.sql(`SELECT pg_cancel_backend(pid) FROM pg_stat_activity
      WHERE datname = current_database() AND application_name = 'inventory import'`);
    expect(await finished).toMatchObject([{ status: 'rejected' }]);
  });

  it('records as the old state of a pet what a writer that it waited for has committed', async () => {
    const change = (quantity: number, petId: string) =>
      `UPDATE inventory_item SET quantity = ${quantity} WHERE pet_id = ${petId}`;
    const writer = await store.database.session(
      ...[change(5, '7'), change(4, '9007199254740993'), change(6, '-9223372036854775808')],
    );
    const pets = '7,13,available\n9007199254740993,4,pending\n9223372036854775807,2147483647,available\n';
    const counts = importFile(await file('late.csv', CSV_HEADER + pets + END_MARK), { missing: 'remove', by: 'me' });
    await untilLockWait();
    await writer.query('COMMIT');
    expect(await counts).toEqual({ added: 0, changed: 1, unchanged: 2, removed: 1 });
    expect((await store.changes()).filter((line) => line.endsWith(' command:import me'))).toEqual([
      '-9223372036854775808 6 sold > command:import me',
      '7 5 available > 13 available command:import me',
    ]);
  });

  it('changes nothing when another writer adds one of its new pets meanwhile', async () => {
    const writer = await store.database.session(`INSERT INTO inventory_item VALUES (8, 2, 'pending')`);
    const pets = `${EXTREMES.replaceAll(/,\d+,/g, ',1,')}8,1,sold\n`;
    const failure = expect(importFile(await file('late.csv', CSV_HEADER + pets))).rejects.toMatchObject({
      code: '23505',
    });
    await untilLockWait();
    await writer.query('COMMIT');
    await failure;
    expect(await store.stock()).toBe(EXTREMES.replace('7,12,available\n', '7,12,available\n8,2,pending\n'));
  });

  it('keeps nothing in its session after its transaction, for a pooler may give the session to another import', async () => {
    const client = await store.database.session();
    await client.query(`SET default_transaction_isolation = serializable`);
    const shown = `SELECT name, setting FROM pg_settings WHERE name ~ 'timeout$|^work_mem|check_interval$'
      UNION ALL SELECT 'recorded in', coalesce(current_setting('inventory.recorded_in', true), '')
      UNION ALL SELECT 'locks', count(*)::text FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid()
      ORDER BY name`;
    const { rows: before } = await client.query<object>(shown);
    const settings = ['transaction_isolation', 'client_connection_check_interval', 'temp_buffers', 'work_mem'];
    const within = `SELECT concat_ws(', ', ${settings.map((name) => `current_setting('${name}')`).join()}) AS settings,
      reltuples AS analyzed FROM pg_class WHERE oid = 'incoming'::regclass`;
    for (let turn = 1; turn <= 2; turn++) {
      // Empty: other members, and the exported tag.
      await loadRows(client, Readable.from([`1,1,2,sold${','.repeat(MEMBERS.length - 2)}\n`]));
      expect((await client.query<object>(within)).rows).toEqual([
        { settings: 'read committed, 1s, 64MB, 64MB', analyzed: 1 },
      ]);
      await awaitTurn(client);
      const counts = await planMerge(client, RULES, new StockFile(), true);
      await writePlanned(client, counts, 'command:import');
      await client.query('COMMIT');
      expect((await client.query<object>(shown)).rows).toEqual(before);
    }
  });
});

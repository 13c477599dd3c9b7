import { setTimeout as pause } from 'node:timers/promises';
import type { Client } from 'pg';
import { beforeEach, describe, expect, it, vi } from 'vitest';
import { LOCK_WITHIN_MS, repairHistory } from '../../src/migrations/history-repair.ts';
import { applyMigrations } from '../../src/migrations/migrations.ts';
import { createDatabase, type Database } from '../support/database.ts';
import { folderWithLater, later } from './later-migration.ts';

/** A transaction id of another server. */
const AHEAD = '4611686018427387904';

let database: Database;
let client: Client;

beforeEach(async () => {
  database = await createDatabase();
  client = await database.session();
});

const rows = async (sql: string): Promise<unknown[]> => (await client.query<object>(sql)).rows;

async function addPets(): Promise<void> {
  await client.query(`INSERT INTO inventory_item SELECT n, 0, 'available' FROM generate_series(1, 3) n`);
}

describe('migrations', () => {
  it.each([
    [
      'leave the highest of several rows',
      `INSERT INTO stock_change_pruned VALUES (7, '2020-01-01Z'), (5, '2021-01-01Z')`,
      7,
    ],
    ['add a row where all changes may follow pruned ones', `DELETE FROM stock_change_pruned`, 3],
  ])('of a restore without the schema %s of what was pruned', async (_, restored, last) => {
    await addPets();
    await client.query(restored);
    expect(await applyMigrations(database.url)).toEqual(['repaired: stock_change_pruned has one row']);
    const left = await rows(
      `SELECT last_id::int, last_changed_at > '2020-06-01Z' AS is_later FROM stock_change_pruned`,
    );
    expect(left).toEqual([{ last_id: last, is_later: true }]);
  });

  describe('of a history that logical replication copied without its id sequence', () => {
    const SEQUENCE = `pg_get_serial_sequence('stock_change', 'id')`;
    const next = async () =>
      Number((await client.query<{ id: string }>(`SELECT nextval(${SEQUENCE}) AS id`)).rows[0]?.id);

    it('set a sequence that was never used, while another session reads the history', async () => {
      await client.query(`INSERT INTO stock_change (pet_id, id, changed_by) VALUES (1, 1, 'there')`);
      await client.query('BEGIN; SELECT FROM stock_change');
      expect(await applyMigrations(database.url)).toEqual(['repaired: ids of new changes follow the newest one']);
      expect(await next()).toBe(2);
    });

    it('leave no mark that names the next transaction, and no setting in their session', async () => {
      await client.query('ALTER TABLE inventory_item ENABLE TRIGGER inventory_item_replicated');
      expect(await repairHistory(client)).toEqual(['changes by replication leave a mark']);
      const mark = 'INSERT INTO unrecorded_change VALUES ((pg_current_xact_id()::text::bigint + 1)::text::xid8)';
      const left = async () => {
        await client.query(mark);
        await repairHistory(client);
        return await rows('DELETE FROM unrecorded_change RETURNING changed_in');
      };
      await expect.poll(left, { interval: 1 }).toEqual([]); // another test may begin that transaction first
      const kept = `SELECT current_setting('inventory.history') AS history, current_setting('lock_timeout') AS lock`;
      expect(await rows(kept)).toEqual([{ history: '', lock: '0' }]);
    });

    it('wait for who prunes the history before they move those of its rows that lie ahead', async () => {
      await client.query(
        `INSERT INTO stock_change (pet_id, changed_by, changed_in) VALUES (1, 'there', '${AHEAD}'), (2, 'here', '3');
         INSERT INTO unrecorded_change VALUES ('${AHEAD}'), ('3');
         SELECT setval(pg_get_serial_sequence('stock_change', 'id'), 1, false)`,
      );
      // As in every release: the lock of one that prunes while another migrates.
      const prune = await database.session(`SELECT pg_advisory_xact_lock(hashtextextended('inventory history', 0))`);
      const applied = applyMigrations(database.url, folderWithLater());
      // Longer than the migration itself may wait.
      expect(await Promise.race([applied, pause(LOCK_WITHIN_MS + 300, 'waits')])).toBe('waits');
      await prune.end();
      expect(await applied).toEqual([
        `applied ${later}`,
        'repaired: ids of new changes follow the newest one',
        'repaired: no change has a transaction id of another server',
      ]);
      expect(await rows(`SELECT pet_id FROM stock_change WHERE changed_in = '3'`)).toEqual([{ pet_id: '2' }]);
      expect(await rows('SELECT changed_in FROM unrecorded_change')).toEqual([{ changed_in: '3' }]);
      expect(await next()).toBe(3); // the sequence lagged, too
    });

    it('stop waiting after a short time, and when run again continue after the highest id', async () => {
      await addPets();
      await client.query(`INSERT INTO stock_change (pet_id, id, changed_by) VALUES (1, 5000, 'there')`);
      await client.query(`BEGIN; INSERT INTO stock_change (pet_id, changed_by) VALUES (2, 'an import')`);
      await expect(applyMigrations(database.url)).rejects.toMatchObject({ code: '55P03' });
      await client.query('COMMIT');
      await applyMigrations(database.url);
      expect(await next()).toBe(5_001);
    });

    it('never set it back below ids that were taken while they waited', async () => {
      await addPets();
      const writer = await database.session('LOCK TABLE stock_change IN ROW EXCLUSIVE MODE');
      await client.query(`INSERT INTO stock_change (pet_id, id, changed_by) VALUES (1, 5000, 'there')`);
      const applied = vi.waitFor(() => applyMigrations(database.url), { timeout: 20_000 }); // each attempt waits 400 ms for the lock
      await expect.poll(() => database.waitingForLocks(), { interval: 10 }).toBe(1);
      await client.query(`SELECT setval(${SEQUENCE}, 6000)`);
      await writer.query('COMMIT');
      await applied;
      expect(await next()).toBe(6_001);
    });
  });
});

import { beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { NotApplied } from '../../src/lib/postgres/index.ts';
import { createDatabase } from '../support/database.ts';
import type { TestService } from '../support/service.ts';
import { listText } from '../support/stock.ts';
import { atTestEnd } from '../support/test-end.ts';
import { eachService } from './services.ts';

eachService(({ isPooled, start }) => {
  let service: TestService;

  beforeAll(async () => {
    const database = await createDatabase();
    if (isPooled) await database.set('lock_timeout', '1800'); // as docs/deployment.md says
    service = await start({ databaseUrl: database.url });
  });
  beforeEach(async () => {
    await service.sql('DELETE FROM inventory_item');
    await service.stock([1, 5, 'sold']);
  });

  /** Runs the statements in a transaction, asks for the list meanwhile, and commits. */
  async function listDuring(...statements: string[]): Promise<string> {
    const session = await service.database.session(...statements);
    const list = service.list();
    await expect.poll(() => service.database.waitingForLocks(), { interval: 5 }).toBe(1);
    await session.query('COMMIT');
    return (await list).text;
  }

  describe('a list that waits for a transaction which replaces the table', () => {
    it.each([
      [
        'the new table from another schema',
        'CREATE SCHEMA staging; CREATE TABLE staging.inventory_item (LIKE inventory_item INCLUDING ALL)',
        [
          `INSERT INTO staging.inventory_item VALUES (1, 50, 'sold')`,
          'CREATE SCHEMA old; ALTER TABLE inventory_item SET SCHEMA old',
          'ALTER TABLE staging.inventory_item SET SCHEMA public',
        ],
        `DROP TABLE inventory_item; ALTER TABLE old.inventory_item SET SCHEMA public; DROP SCHEMA old, staging`,
      ],
      [
        'the table that was emptied and filled',
        'SELECT',
        ['TRUNCATE inventory_item', `INSERT INTO inventory_item VALUES (1, 50, 'sold')`],
        'SELECT',
      ],
    ])('has the pets of %s', async (_, prepare, statements, undo) => {
      await service.sql(prepare);
      await atTestEnd(() => service.sql(`BEGIN; ${undo}; COMMIT`));
      expect(await listDuring(...statements)).toBe(listText([1, 50, 'sold']));
    });

    it('is read again when its session is cut', async () => {
      const holder = await service.database.session('LOCK TABLE inventory_item');
      const list = service.list();
      const cut = `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`;
      await expect.poll(() => service.sql(cut), { interval: 5 }).toHaveLength(1);
      await holder.query('COMMIT');
      expect((await list).text).toBe(listText([1, 5, 'sold']));
    });

    it('fails at its deadline', async () => {
      await service.database.session('LOCK TABLE stock_change; LOCK TABLE inventory_item');
      const { life = '' } = (await service.sql<{ life: string }>('SELECT present_server_life() AS life'))[0] ?? {};
      const from = performance.now();
      const list = service.inventory.list({ snapshot: { life, transactions: '' }, deadline: from + 800 });
      await expect(list).rejects.toBeInstanceOf(NotApplied);
      expect(performance.now() - from).toBeLessThan(5_000); // it would wait for 25 s
    });
  });

  it.each(['stock_change', 'unrecorded_change'])(
    'a list is complete while another session locks %s, and the stock for writing',
    async (table) => {
      const holder = await service.database.session('UPDATE inventory_item SET quantity = 6');
      await holder.query(`COMMIT; BEGIN; LOCK TABLE ${table}; LOCK TABLE inventory_item IN EXCLUSIVE MODE`);
      expect((await service.list()).text).toBe(listText([1, 6, 'sold']));
    },
  );
});

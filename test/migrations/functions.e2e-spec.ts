import type { Client } from 'pg';
import { beforeEach, describe, expect, it } from 'vitest';
import { CHECK_KEYS_AND_SNAPSHOT } from '../../src/keys/key-check.ts';
import { createDatabase } from '../support/database.ts';

describe('the functions of the schema', () => {
  let session: Client;

  beforeEach(async () => {
    session = await (await createDatabase()).session();
  });

  async function answer(statement: string): Promise<unknown> {
    const { rows } = await session.query<{ answer: unknown }>(`SELECT (${statement}) AS answer`);
    return rows[0]?.answer;
  }

  /** The witness after these statements, which are then rolled back. */
  async function witnessAfter(statements: string): Promise<string | null> {
    await session.query(`BEGIN; ${statements}`);
    const witness = (await answer('stock_witness(present_server_life())')) as string | null;
    await session.query('ROLLBACK');
    return witness;
  }

  it('name the life of the server, also for a role that may not read its token', async () => {
    const { database: name } = session;
    await session.query('BEGIN; CREATE ROLE service_only; SET LOCAL ROLE service_only');
    const life = await answer('present_server_life()');
    expect(await answer('stock_witness(present_server_life()) IS NOT NULL')).toBe(true);
    await session.query('ROLLBACK');
    const oid = String(await answer(`SELECT oid FROM pg_database WHERE datname = '${name}'`)); // a copy of the database has its token
    const reset = String(await answer('SELECT extract(epoch FROM stats_reset) FROM pg_stat_wal'));
    expect(String(life)).toMatch(new RegExp(`^[-0-9a-f]{36} [0-9]+\\.[0-9]+ ${oid} ${reset}$`));
  });

  it('are asked once in a session for the life of the server, but again until there is one', async () => {
    const readSnapshot = async () =>
      (await session.query<{ life: string | null }>(CHECK_KEYS_AND_SNAPSHOT, ['{}'])).rows;
    await session.query('BEGIN READ ONLY');
    expect(await readSnapshot()).toMatchObject([{ life: null }]);
    await session.query('COMMIT');
    const [first] = await readSnapshot();
    expect(first?.life).toBe(await answer('present_server_life()'));
    await session.query('DELETE FROM server_life_token');
    expect(await readSnapshot()).toMatchObject([{ life: first?.life }]);
  });

  it('have a witness only of the present life of the server', async () => {
    expect(await answer('stock_witness(NULL)')).toBeNull();
    const life = String(await answer('present_server_life()'));
    expect(await answer(`stock_witness('${life}')`)).not.toBeNull();
    for (const another of [`0${life}`, life.replace(/ \d+ /, ' 9$&'), life.replace(/ \d+ \S+$/, '0$&')])
      expect(await answer(`stock_witness('${another}')`)).toBeNull();
    // One life has another name after a reset of the statistics.
    expect(await answer(`stock_witness('${life}0')`)).toBe(await answer(`stock_witness('${life}')`));
  });

  it('have no witness while a change of stock may be missing from the history', async () => {
    await session.query('SELECT present_server_life()');
    const changes = [
      ...['inventory_item', 'stock_change'].flatMap((table) => [
        `ALTER TABLE ${table} ENABLE ROW LEVEL SECURITY`,
        `CREATE TABLE child () INHERITS (${table})`,
        `CREATE RULE also AS ON INSERT TO ${table} DO ALSO NOTHING`,
        `CREATE ACCESS METHOD heap2 TYPE TABLE HANDLER heap_tableam_handler; ALTER TABLE ${table} SET ACCESS METHOD heap2`,
      ]),
      'ALTER TABLE inventory_item DISABLE TRIGGER inventory_item_history',
      'ALTER TABLE inventory_item ENABLE REPLICA TRIGGER inventory_item_history',
      'ALTER TABLE inventory_item ENABLE TRIGGER inventory_item_replicated',
      'ALTER TABLE inventory_item ENABLE ALWAYS TRIGGER inventory_item_replicated',
      'ALTER TABLE inventory_item DISABLE TRIGGER inventory_item_replicated',
      'CREATE TRIGGER first BEFORE INSERT ON stock_change FOR EACH ROW EXECUTE FUNCTION suppress_redundant_updates_trigger()',
      `ALTER TABLE stock_change ALTER changed_in SET DEFAULT '3'`,
      'ALTER TABLE stock_change ALTER changed_in DROP DEFAULT',
    ];
    const unseen: string[] = [];
    for (const change of changes) if ((await witnessAfter(change)) !== null) unseen.push(change);
    expect(unseen).toEqual([]);
    expect(await witnessAfter('')).not.toBeNull();
    expect(await answer(`SELECT oid FROM pg_am WHERE amname = 'heap'`)).toBe(2); // as stock_witness says
  });

  it('have another witness after a change that was undone, or that keeps no history out', async () => {
    await session.query('SELECT present_server_life()');
    const before = await witnessAfter('');
    const unseen: string[] = [];
    for (const change of [
      'ALTER TABLE inventory_item RENAME TO other; ALTER TABLE other RENAME TO inventory_item',
      'ALTER TABLE stock_change RENAME TO other; ALTER TABLE other RENAME TO stock_change',
      'ALTER TABLE inventory_item DISABLE TRIGGER USER, ENABLE TRIGGER USER, ENABLE REPLICA TRIGGER inventory_item_replicated',
      'ALTER TABLE inventory_item ENABLE ALWAYS TRIGGER inventory_item_history',
      'ALTER TABLE stock_change DISABLE TRIGGER stock_change_pruning, ENABLE TRIGGER stock_change_pruning',
      `CREATE TRIGGER first BEFORE INSERT ON stock_change FOR EACH ROW EXECUTE FUNCTION suppress_redundant_updates_trigger();
       ALTER TABLE stock_change DISABLE TRIGGER first`,
      'ALTER TABLE inventory_item ALTER quantity SET STATISTICS 100',
      'ALTER TABLE stock_change ALTER changed_in SET DEFAULT pg_current_xact_id()',
      `ALTER TYPE pet_status RENAME VALUE 'sold' TO 'gone'; ALTER TYPE pet_status RENAME VALUE 'gone' TO 'sold'`,
    ])
      if ([null, before].includes(await witnessAfter(change))) unseen.push(change);
    expect(unseen).toEqual([]);
    await session.query(`INSERT INTO inventory_item VALUES (1, 5, 'sold')`);
    expect(await witnessAfter('')).toBe(before);
  });

  it('find the tables from every search path', async () => {
    await session.query(
      `SET search_path = pg_catalog; INSERT INTO public.inventory_item VALUES (1, 5, 'sold'), (2, 5, 'sold')`,
    );
    expect(await answer('public.present_server_life() IS NOT NULL')).toBe(true);
    await session.query(`BEGIN; SET LOCAL session_replication_role = replica; UPDATE public.inventory_item SET quantity = 6; COMMIT;
      BEGIN; SET LOCAL inventory.history = 'prune'; DELETE FROM public.stock_change WHERE pet_id = 1; COMMIT;
      TRUNCATE public.inventory_item`);
    expect(await answer('SELECT count(*)::int FROM public.unrecorded_change')).toBe(1); // of two pets
    expect(await answer('SELECT last_id::int FROM public.stock_change_pruned')).toBe(1);
    expect(await answer('SELECT array_agg(quantity_before ORDER BY id) FROM public.stock_change')).toEqual([
      null,
      6,
      6,
    ]);
  });
});

import { randomBytes } from 'node:crypto';
import { describe, expect, it } from 'vitest';
import { applyMigrations } from '../src/migrations/migrations.ts';
import { failed, IMPORT_CSV, inventory } from './commands/inventory-command.ts';
import { createDatabase, type Database } from './support/database.ts';
import { ask } from './support/http-client.ts';
import { ServiceProcess } from './support/service-process.ts';
import { listText, type Pet } from './support/stock.ts';

/** Needs quotes. */
const SHOP = '"Pet shop, 2"';
const urlOf = (database: Database, schema: string) =>
  `${database.url}?schema=${encodeURIComponent(schema.replaceAll('"', ''))}`;

/** A store in one schema: its services, its commands, and its tables by SQL. */
async function openSchema(database: Database, schema: string, key: string) {
  const url = urlOf(database, schema);
  const started = ['on', 'off'].map((FAST) => ServiceProcess.onFreePort({ DATABASE_URL: url, FAST }));
  const services = await Promise.all(started);
  for (const service of services) service.start();
  for (const service of services) await service.line(({ msg }) => /^(not )?ready/.test(String(msg)));
  const session = await database.session();
  await session.query(`SET search_path = ${schema}`);
  const sql = async (statement: string) => (await session.query<Record<string, unknown>>(statement)).rows;
  const list = async ({ port }: ServiceProcess) =>
    (await ask(port, { target: '/v1/inventory', headers: [['Authorization', `Bearer ${key}`]] })).text;

  async function expectListsAfter(statement: string, ...pets: readonly Pet[]): Promise<void> {
    await sql(statement);
    for (const service of services) expect(await list(service)).toBe(listText(...pets));
  }

  return {
    services,
    sql,
    /** The services get ready by themselves afterwards. */
    async migrate(): Promise<void> {
      await applyMigrations(url);
      for (const service of services) await service.becomesReady();
    },
    /** Lists after changes by SQL and by an import; the history, its feed and its pruning. */
    async expectRight(): Promise<void> {
      await expectListsAfter('', [1, 1], [2, 2], [3, 3]); // kept from now on
      await expectListsAfter('UPDATE inventory_item SET quantity = 9 WHERE pet_id = 2', [1, 1], [2, 9], [3, 3]);
      const unrecorded = (quantity: number) => `SET session_replication_role = replica;
        UPDATE inventory_item SET quantity = ${quantity} WHERE pet_id = 3; RESET session_replication_role`;
      await expectListsAfter(unrecorded(8), [1, 1], [2, 9], [3, 8]);
      await expectListsAfter(unrecorded(3), [1, 1], [2, 9], [3, 3]);
      await expectListsAfter('UPDATE inventory_item SET quantity = 2 WHERE pet_id = 2', [1, 1], [2, 2], [3, 3]);
      const [{ ids } = {}] = await sql('SELECT array_agg(id::int ORDER BY id) AS ids FROM stock_change');
      const [before = 0, last = 0] = (ids as number[]).slice(-2);
      const feed = await inventory(url, ['history', '--json', '--after', String(before - 1)]);
      expect(feed.stdout.match(/"id":\d+|"quantityAfter":\d+/g)).toEqual(
        [before, last].flatMap((id, at) => [`"id":${id}`, `"quantityAfter":${[9, 2][at]}`]),
      );
      const imported = await inventory(url, [...IMPORT_CSV, '--json'], 'petId,quantity,status\n1,7,available\n');
      expect([imported.code, JSON.parse(imported.stdout)]).toMatchObject([0, { changed: 1 }]);
      await expectListsAfter('', [1, 7], [2, 2], [3, 3]);
      await inventory(url, ['history', 'prune', '--before', '0s']);
      expect(await sql(`SELECT last_id::int AS pruned FROM stock_change_pruned`)).toEqual([{ pruned: before }]);
      await expectListsAfter('UPDATE inventory_item SET quantity = 1 WHERE pet_id = 1', [1, 1], [2, 2], [3, 3]);
    },
  };
}

/** The functions of a schema by name, with their settings. */
async function functionsOf(database: Database, schema: string): Promise<Map<string, string>> {
  const rows = await database.sql<{ name: string; settings: string }>(
    `SELECT proname AS name, coalesce(array_to_string(proconfig, ' '), '') AS settings FROM pg_proc
      WHERE pronamespace = $1::regnamespace ORDER BY proname`,
    [schema],
  );
  return new Map(rows.map(({ name, settings }) => [name, settings]));
}

async function createStore() {
  const database = await createDatabase();
  const key = randomBytes(32).toString('hex');
  await database.addKey(key);
  await database.stock([1, 1], [2, 2], [3, 3]);
  const functions = await functionsOf(database, 'public');
  const names = [...functions.keys()];
  const withPath = names.filter((name) => functions.get(name)?.includes('search_path'));
  async function expectMended(): Promise<void> {
    const there = await functionsOf(database, SHOP);
    const renamed = names.map((name) => [name, functions.get(name)?.replace('=public,', `=${SHOP},`)] as const);
    expect([...there]).toEqual(renamed);
  }
  return { database, key, names: names.join(', '), withPath: withPath.join(', '), expectMended };
}

const notReady = (functions: string) =>
  `not ready: the schema was renamed or copied, or its tables moved: ${functions} belong to another schema; run "inventory migrate"`;

describe('a store', { timeout: 120_000 }, () => {
  it('whose schema was renamed is right before and after "migrate"', async () => {
    const { database, key, withPath, expectMended } = await createStore();
    await database.sql(`ALTER SCHEMA public RENAME TO ${SHOP}`);
    const shop = await openSchema(database, SHOP, key);
    for (const { log } of shop.services) expect(log).toContain(JSON.stringify(notReady(withPath)));
    await shop.expectRight();
    await shop.migrate();
    await expectMended();
    await shop.expectRight();
  });

  // Dump, rename and restore: in one database, or in two.
  it('whose schema was copied or restored under another name is right before and after "migrate", and so is the other', async () => {
    const { database, key, withPath, expectMended } = await createStore();
    await database.sql(`ALTER SCHEMA public RENAME TO ${SHOP}; CREATE SCHEMA public`);
    await applyMigrations(database.url);
    await database.addKey(key);
    await database.sql(`INSERT INTO inventory_item VALUES (4, 4, 'sold'); DELETE FROM inventory_item`); // other ids from now on
    await database.stock([1, 1], [2, 2], [3, 3]);
    const shop = await openSchema(database, SHOP, key);
    const other = await openSchema(database, 'public', key);
    for (const { log } of shop.services) expect(log).toContain(JSON.stringify(notReady(withPath)));
    for (const store of [shop, other]) await store.expectRight();
    for (const store of [shop, other]) await store.migrate();
    await expectMended();
    for (const store of [shop, other]) await store.expectRight();
    await database.sql('DROP SCHEMA public CASCADE');
    await shop.expectRight();
  });

  it('whose tables moved to another schema records changes, and is right after "migrate"', async () => {
    const { database, key, names, expectMended } = await createStore();
    await database.sql(`CREATE SCHEMA ${SHOP}; DO $$ DECLARE moved text; BEGIN
      FOR moved IN SELECT relname FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relkind = 'r'
      LOOP EXECUTE format('ALTER TABLE public.%I SET SCHEMA ${SHOP}', moved); END LOOP; END $$`);
    const shop = await openSchema(database, SHOP, key);
    for (const { log } of shop.services) expect(log).toContain(JSON.stringify(notReady(names)));
    for (const quantity of [5, 1]) await shop.sql(`UPDATE inventory_item SET quantity = ${quantity} WHERE pet_id = 1`);
    const quantities = await shop.sql('SELECT quantity_after FROM stock_change WHERE pet_id = 1 ORDER BY id');
    expect(quantities.map(({ quantity_after }) => quantity_after)).toEqual([1, 5, 1]);
    await shop.migrate();
    await expectMended();
    await shop.expectRight();
    // Nothing is left that would be in the way of a new store.
    await applyMigrations(database.url);
    await database.addKey(key);
    await database.stock([1, 1], [2, 2], [3, 3]);
    const left = await openSchema(database, 'public', key);
    for (const store of [left, shop]) await store.expectRight();
  });

  it('whose tables were copied without their functions is not called up to date', async () => {
    const { database, names } = await createStore();
    const tables = `SELECT relname FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relkind = 'r'`;
    await database.sql(`CREATE SCHEMA ${SHOP}; DO $$ DECLARE one text; BEGIN FOR one IN ${tables} LOOP
      EXECUTE format('CREATE TABLE ${SHOP}.%1$I (LIKE public.%1$I INCLUDING ALL); INSERT INTO ${SHOP}.%1$I TABLE public.%1$I', one);
      END LOOP; END $$`);
    const why = `the schema was copied without its functions ${names}; copy it with pg_dump and ALTER SCHEMA … RENAME instead`;
    expect(await inventory(urlOf(database, SHOP), ['migrate'])).toEqual(failed(why));
  });
});

it('a transaction that changes two stocks past their histories leaves one mark in each of their schemas', async () => {
  const { database } = await createStore();
  await database.sql(`CREATE SCHEMA ${SHOP}`);
  await applyMigrations(urlOf(database, SHOP));
  await database.sql(`INSERT INTO ${SHOP}.inventory_item SELECT n, n, 'sold' FROM generate_series(1, 3) n`);
  const stocks = ['public', SHOP].map((schema) => `UPDATE ${schema}.inventory_item SET quantity = quantity + 1`);
  await database.sql(
    `BEGIN; SET LOCAL session_replication_role = replica; ${[...stocks, ...stocks].join(';')}; COMMIT`,
  );
  const marks = ['public', SHOP].map((schema) => `(SELECT count(*)::int FROM ${schema}.unrecorded_change)`);
  expect(await database.sql(`SELECT ARRAY[${marks.join()}] AS marks`)).toEqual([{ marks: [1, 1] }]);
});

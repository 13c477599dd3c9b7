import { randomBytes } from 'node:crypto';
import { describe, expect, it } from 'vitest';
import { applyMigrations } from '../src/migrations/migrations.ts';
import { failed, IMPORT_CSV, inventory } from './commands/inventory-command.ts';
import { createDatabase, type Database } from './support/database.ts';
import { ServiceProcess } from './support/service-process.ts';
import { startService } from './support/service.ts';
import { CSV_HEADER, listText, type Pet } from './support/stock.ts';

/** Needs quotes. */
const SHOP = '"Pet shop, 2"';
const urlOf = (database: Database, schema: string) =>
  `${database.url}?schema=${encodeURIComponent(schema.replaceAll('"', ''))}`;
const TABLES = `SELECT relname FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relkind = 'r'`;
const IMPORTED = `${CSV_HEADER}1,7,available\n`;

/** Runs SQL for each table of the schema `public`; `%1$I` is its name. */
const forEachTable = (sql: string) =>
  `DO $do$ DECLARE one text; BEGIN FOR one IN ${TABLES} LOOP EXECUTE format($sql$ ${sql} $sql$, one); END LOOP; END $do$`;

/** A store in one schema: its services, its commands, and its tables by SQL. */
async function openSchema(database: Database, schema: string, key: string) {
  const url = urlOf(database, schema);
  const services = await Promise.all(
    ['on', 'off'].map((FAST) => startService({ databaseUrl: url, key, settings: { FAST }, awaitsReady: false })),
  );
  const session = await database.session();
  await session.query(`SET search_path = ${schema}`);
  const sql = async (statement: string) => (await session.query<Record<string, unknown>>(statement)).rows;

  async function expectListsAfter(statement: string, ...pets: readonly Pet[]): Promise<void> {
    await sql(statement);
    for (const service of services) expect((await service.list()).text).toBe(listText(...pets));
  }
  const idsOfChanges = async () => (await sql('SELECT id::int FROM stock_change ORDER BY id')).map(({ id }) => id);
  /** The feed has the changes of the pet 2 to 9 and back, which are the last. @returns the id of the first */
  async function expectFeed(): Promise<unknown> {
    const [before, last] = (await idsOfChanges()).slice(-2);
    const feed = await inventory(url, ['history', '--json', '--after', String(Number(before) - 1)]);
    expect(feed.stdout.match(/"id":\d+|"quantityAfter":\d+/g)).toEqual(
      [before, last].flatMap((id, at) => [`"id":${String(id)}`, `"quantityAfter":${[9, 2][at]}`]),
    );
    return before;
  }
  async function expectPruned(upTo: unknown): Promise<void> {
    await inventory(url, ['history', 'prune', '--before', '0s']);
    expect(await sql(`SELECT last_id::int AS pruned FROM stock_change_pruned`)).toEqual([{ pruned: upTo }]);
  }

  return {
    url,
    sql,
    expectFeed,
    expectPruned,
    async expectUnavailable(): Promise<void> {
      for (const service of services) expect((await service.list()).status).toBe(503);
    },
    /** The services get ready by themselves afterwards. */
    async migrate(): Promise<string[]> {
      const done = await applyMigrations(url);
      for (const service of services)
        await expect.poll(async () => (await fetch(`${service.url}/health/ready`)).status).toBe(200);
      return done;
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
      const before = await expectFeed();
      const imported = await inventory(url, [...IMPORT_CSV, '--json'], IMPORTED);
      expect([imported.code, JSON.parse(imported.stdout)]).toMatchObject([0, { changed: 1 }]);
      await expectListsAfter('', [1, 7], [2, 2], [3, 3]);
      await expectPruned(before);
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

  /** The functions are those of `public`, with their own search path. */
  async function expectRepaired(): Promise<void> {
    const there = await functionsOf(database, SHOP);
    const renamed = names.map((name) => [name, functions.get(name)?.replace('=public,', `=${SHOP},`)] as const);
    expect([...there]).toEqual(renamed);
  }
  /** A second store, whose history has other ids. */
  async function createAnother(): Promise<void> {
    await applyMigrations(database.url);
    await database.addKey(key);
    await database.sql(`INSERT INTO inventory_item VALUES (4, 4, 'sold'); DELETE FROM inventory_item`);
    await database.stock([1, 1], [2, 2], [3, 3]);
  }
  return { database, key, names, withPath, expectRepaired, createAnother };
}

async function expectNotReady(databaseUrl: string, functions: readonly string[]): Promise<void> {
  const service = await ServiceProcess.onFreePort({ DATABASE_URL: databaseUrl });
  service.start();
  const message = `not ready: functions are missing, changed or of another schema: ${functions.join(', ')}; run "inventory migrate" as the owner of the tables (in DATABASE_URL)`;
  await service.line(({ msg }) => msg === message);
  await service.kill();
}

describe('a store', () => {
  it('whose schema was renamed is right before and after "migrate"', async () => {
    const { database, key, withPath, expectRepaired } = await createStore();
    await database.sql(`ALTER SCHEMA public RENAME TO ${SHOP}`);
    const shop = await openSchema(database, SHOP, key);
    await expectNotReady(shop.url, withPath);
    await shop.expectRight();
    expect(await shop.migrate()).toEqual(['repaired: the functions find the tables of their schema']);
    await expectRepaired();
    await shop.expectRight();
    expect(await shop.migrate()).toEqual([]);
  });

  it('whose schema was copied is right before and after "migrate", and so is the other', async () => {
    const { database, key, withPath, expectRepaired, createAnother } = await createStore();
    await database.sql(`ALTER SCHEMA public RENAME TO ${SHOP}; CREATE SCHEMA public`); // dump, rename and restore
    await createAnother();
    const shop = await openSchema(database, SHOP, key);
    const other = await openSchema(database, 'public', key);
    await expectNotReady(shop.url, withPath);
    for (const store of [shop, other]) await store.expectRight();
    for (const store of [shop, other]) await store.migrate();
    await expectRepaired();
    for (const store of [shop, other]) await store.expectRight();
    await database.sql('DROP SCHEMA public CASCADE');
    await shop.expectRight();
  });

  it('whose tables were copied without their functions is not called up to date', async () => {
    const { database, names } = await createStore();
    await database.sql(
      `CREATE SCHEMA ${SHOP}; ${forEachTable(
        `CREATE TABLE ${SHOP}.%1$I (LIKE public.%1$I INCLUDING ALL); INSERT INTO ${SHOP}.%1$I TABLE public.%1$I`,
      )}`,
    );
    const why = `the schema lacks its functions ${names.join(', ')}; move it whole (ALTER SCHEMA … RENAME), or copy it with pg_dump; if a later version migrated it, run "inventory migrate" of that version`;
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

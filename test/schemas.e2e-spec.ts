import { randomBytes } from 'node:crypto';
import { expect, it } from 'vitest';
import { applyMigrations } from '../src/migrations/migrations.ts';
import { IMPORT_CSV, inventory } from './commands/inventory-command.ts';
import { createDatabase, type Database } from './support/database.ts';
import { startService } from './support/service.ts';
import { CSV_HEADER, listText, type Pet } from './support/stock.ts';

/** Needs quotes. */
const SHOP = '"Pet shop, 2"';
const urlOf = (database: Database, schema: string) =>
  `${database.url}?schema=${encodeURIComponent(schema.replaceAll('"', ''))}`;
const IMPORTED = `${CSV_HEADER}1,7,available\n`;

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

async function createStore() {
  const database = await createDatabase();
  const key = randomBytes(32).toString('hex');
  await database.addKey(key);
  await database.stock([1, 1], [2, 2], [3, 3]);
  return { database, key };
}

it('a store whose schema was renamed is right, and "check" says so; whose schema was copied is right, and so is the other', async () => {
  const { database, key } = await createStore();
  await database.sql(`ALTER SCHEMA public RENAME TO ${SHOP}`);
  const shop = await openSchema(database, SHOP, key);
  await shop.expectRight();
  expect((await inventory(shop.url, ['check'])).stdout).toMatch(
    /^fault trial [^]*the functions do not find the tables\n +give the schema its old name \(ALTER SCHEMA … RENAME\)$/m,
  );
  expect(await shop.migrate()).toEqual([]);

  // A second store, whose history has other ids, as after dump, rename and restore.
  await database.sql('CREATE SCHEMA public');
  await applyMigrations(database.url);
  await database.addKey(key);
  await database.sql(`INSERT INTO inventory_item VALUES (4, 4, 'sold'); DELETE FROM inventory_item`);
  await database.stock([1, 1], [2, 2], [3, 3]);
  const other = await openSchema(database, 'public', key);
  for (const store of [shop, other]) await store.expectRight();
  for (const store of [shop, other]) expect(await store.migrate()).toEqual([]);
  await database.sql('DROP SCHEMA public CASCADE');
  await shop.expectRight();
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

import type { Client } from 'pg';
import { afterEach, beforeAll, beforeEach, describe, expect, it, onTestFinished } from 'vitest';
import { applyMigrations } from '../../src/migrations/migrations.ts';
import { Database } from '../support/database.ts';
import { expectExact, refill } from '../support/exact-lists.ts';
import { type FaultyPostgres, startFaultyPostgres } from '../support/postgres-server.ts';
import { type NamedService, startEveryService } from './services.ts';
import { CHANGES } from './stock-changes.ts';

let postgres: FaultyPostgres;
let services: NamedService[];
let fastOnes: NamedService[];
/** Past the services, as the table's owner. */
let owner: Client;

beforeAll(async () => {
  postgres = await startFaultyPostgres();
  const { database } = postgres;
  await database.setSystem('SET max_prepared_transactions = 5', 'SET wal_level = logical', 'SET autovacuum = off');
  await database.sql('CREATE DATABASE elsewhere');
  await postgres.stop();
  await postgres.restart();
  services = await startEveryService({ databaseUrl: postgres.url });
  fastOnes = services.filter(({ name }) => name.includes('fast'));
});

/** The server's other database. */
const urlElsewhere = () => postgres.url.replace(/\/postgres(\?|$)/, '/elsewhere$1');

async function connectElsewhere(): Promise<Client> {
  const elsewhere = await new Database(urlElsewhere()).session();
  await elsewhere.query('DROP SCHEMA public CASCADE; CREATE SCHEMA public');
  return elsewhere;
}

const sql = (statement: string) => owner.query(statement);
/** The plain service keeps nothing of a list, so one list after each test is enough. */
const expectAllExact = () => expectExact(owner, fastOnes);

let updates = 0;
/** By one service after the other. */
function update(petId: number, quantity: number) {
  const service = services[updates++ % services.length];
  return service?.update(petId, quantity);
}

describe('the lists of several processes equal the stock', () => {
  beforeEach(async () => {
    owner = await postgres.database.session();
    await sql('ALTER TABLE inventory_item ENABLE REPLICA TRIGGER inventory_item_replicated');
    for (const table of ['stock_change', 'ANALYZE inventory_item']) await sql(`VACUUM ${table}`); // forgets the rules and children that are gone
    await refill(owner);
    await Promise.all(fastOnes.map(({ list }) => list()));
    // Otherwise the tests below would compare whole readings.
    const patches = () => fastOnes.map(({ counts }) => counts.patches);
    const before = patches();
    await sql('UPDATE inventory_item SET quantity = 1000000 WHERE pet_id = 1');
    await expectAllExact();
    expect(patches()).toEqual(before.map((count) => count + 1));
  });
  afterEach(() => expectExact(owner, services));

  it.each(Object.entries(CHANGES))('after %s', async (_, statements) => {
    const left = [statements].flat();
    onTestFinished(async () => {
      for (const statement of left) await sql(statement); // the later ones undo what the earlier ones did
    });
    for (let statement = left.shift(); statement !== undefined; statement = left.shift()) {
      await sql(statement);
      await expectAllExact();
      await update(1, 1_000 + Math.floor(Math.random() * 1e6));
      await expectAllExact();
    }
  });

  it('while a database rule drops history rows, and afterwards', async () => {
    const session = await postgres.database.session(); // one that wrote under the rule keeps its plan, so it writes no history afterwards
    await session.query('CREATE RULE no_history AS ON INSERT TO stock_change DO INSTEAD NOTHING');
    for (let quantity = 3; quantity <= 5; quantity++) {
      await session.query(`UPDATE inventory_item SET quantity = ${quantity} WHERE pet_id = 1`);
      await expectAllExact();
    }
    await session.query('DROP RULE no_history ON stock_change');
    await session.end();
    await sql('UPDATE inventory_item SET quantity = 6 WHERE pet_id = 1');
    await expectAllExact();
  });

  it('when overlapping transactions commit in another order than they began', async () => {
    const one = await postgres.database.session('UPDATE inventory_item SET quantity = 1001 WHERE pet_id = 1');
    const another = await postgres.database.session('UPDATE inventory_item SET quantity = 1002 WHERE pet_id = 2');
    for (const session of [another, one]) {
      await update(3, 1_003);
      await expectAllExact();
      await session.query('COMMIT');
    }
    await expectAllExact();
  });

  it.each([
    ['but not the history', 'inventory_item'],
    ['and the history', 'inventory_item, stock_change'],
  ])('while logical replication writes the table, %s', async (_, tables) => {
    const elsewhere = await connectElsewhere();
    await applyMigrations(urlElsewhere());
    await elsewhere.query(`CREATE PUBLICATION stock FOR TABLE ${tables}`);
    await elsewhere.query(`SELECT pg_create_logical_replication_slot('stock', 'pgoutput')`);
    await sql('TRUNCATE inventory_item');
    await sql(`CREATE SUBSCRIPTION stock CONNECTION '${urlElsewhere()}'
      PUBLICATION stock WITH (create_slot = false, slot_name = 'stock')`);
    try {
      for (const [statement, expected] of [
        [`INSERT INTO inventory_item VALUES (1, 1, 'sold'), (2, 2, 'sold')`, '1 2'],
        ['UPDATE inventory_item SET quantity = 5 WHERE pet_id = 1', '5 2'],
        ['UPDATE inventory_item SET quantity = 6 WHERE pet_id = 1', '6 2'],
        ['DELETE FROM inventory_item WHERE pet_id = 2', '6'],
      ] as const) {
        await elsewhere.query(statement);
        const quantities = () =>
          postgres.database.sql(`SELECT string_agg(quantity::text, ' ' ORDER BY pet_id) AS all FROM inventory_item`);
        await expect.poll(quantities).toEqual([{ all: expected }]);
        await expectAllExact();
      }
    } finally {
      await sql('DROP SUBSCRIPTION stock');
      await elsewhere.query('DROP PUBLICATION stock');
    }
  });

  it('after changes of a foreign table or a view over one', async () => {
    const { port, password } = new URL(postgres.url);
    const elsewhere = await connectElsewhere();
    await elsewhere.query(
      `CREATE TABLE far (pet_id bigint, quantity integer, status text); INSERT INTO far VALUES (1, 1, 'sold')`,
    );
    await sql(`CREATE EXTENSION postgres_fdw; CREATE SERVER far FOREIGN DATA WRAPPER postgres_fdw OPTIONS (host '127.0.0.1', port '${port}', dbname 'elsewhere');
      CREATE USER MAPPING FOR CURRENT_USER SERVER far OPTIONS (user 'postgres', password '${password}');
      ALTER TABLE inventory_item RENAME TO kept_aside;
      CREATE FOREIGN TABLE far (pet_id bigint, quantity integer, status pet_status) SERVER far OPTIONS (table_name 'far')`);
    try {
      for (const [begin, end] of [
        ['ALTER FOREIGN TABLE far RENAME TO inventory_item', 'ALTER FOREIGN TABLE inventory_item RENAME TO far'],
        ['CREATE VIEW inventory_item AS SELECT * FROM far', 'DROP VIEW inventory_item'],
      ] as const) {
        await sql(begin);
        await expectAllExact();
        for (let n = 1; n <= 3; n++) {
          await elsewhere.query('UPDATE far SET quantity = quantity + 1');
          await expectAllExact();
        }
        await sql(end);
      }
    } finally {
      await sql('ALTER TABLE kept_aside RENAME TO inventory_item; DROP EXTENSION postgres_fdw CASCADE');
    }
  });

  it('after a crash of PostgreSQL, and after the commit of a transaction prepared before it', async () => {
    await sql(`BEGIN; SET LOCAL session_replication_role = replica;
      UPDATE inventory_item SET quantity = 7 WHERE pet_id = 5; PREPARE TRANSACTION 'past the history'`);
    await postgres.crash();
    await postgres.restart();
    owner = await postgres.database.session();
    await sql('UPDATE inventory_item SET quantity = 8 WHERE pet_id = 1');
    for (const service of services) await expect.poll(async () => (await service.list()).status).toBe(200);
    await expectAllExact();
    await sql(`COMMIT PREPARED 'past the history'`);
    await expectAllExact();
  });
});

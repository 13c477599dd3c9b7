import { gunzipSync } from 'node:zlib';
import fc from 'fast-check';
import type { Client } from 'pg';
import { beforeAll, beforeEach, describe, expect, it, onTestFinished, vi } from 'vitest';
import { applyMigrations } from '../src/migrations/migrations.ts';
import { PrismaService } from '../src/database/prisma.service.ts';
import { InventoryService } from '../src/inventory/inventory.service.ts';
import { PETS_PER_PIECE, Piece, StockList } from '../src/inventory/stock-list.ts';
import { Database } from './support/database.ts';
import { hasPooler, startPooler } from './support/pooler.ts';
import { type FaultyPostgres, startFaultyPostgres } from './support/postgres-server.ts';
import { type TestService, startService } from './support/service.ts';

const PETS = 2_500;
const FUTURE = '4611686018427387904';

let postgres: FaultyPostgres;
let first: TestService;
let second: TestService;
/** Past the services, as the table's owner. */
let owner: Client;

beforeAll(async () => {
  postgres = await startFaultyPostgres();
  const { database } = postgres;
  await database.setSystem('SET max_prepared_transactions = 5', 'SET wal_level = logical', 'SET autovacuum = off');
  await database.sql('CREATE DATABASE elsewhere');
  await postgres.stop();
  await postgres.restart();
  first = await startService({ databaseUrl: postgres.url });
  second = await startService({ databaseUrl: postgres.url, key: first.key });
}, 120_000);

/** The server's other database. */
const urlElsewhere = () => postgres.url.replace(/\/postgres(\?|$)/, '/elsewhere$1');

async function connectElsewhere(): Promise<Client> {
  const elsewhere = await new Database(urlElsewhere()).session();
  await elsewhere.query('DROP SCHEMA public CASCADE; CREATE SCHEMA public');
  return elsewhere;
}

const sql = (statement: string) => owner.query(statement);

/** The list of each process is the table's own JSON, and its tag that of a list that is written at once. */
async function expectExact(): Promise<void> {
  const { rows } = await sql(
    `SELECT '[' || coalesce(string_agg(format('{"petId":%s,"quantity":%s,"status":"%s"}', pet_id, quantity, status), ','
                                       ORDER BY pet_id), '') || ']' AS text FROM inventory_item`,
  );
  const { text } = rows[0] as { text: string };
  const written = new StockList(text === '[]' ? [] : Piece.cut(`,${text.slice(1, -1)}`));
  for (const coding of ['gzip', 'identity'] as const) {
    const service = coding === 'gzip' ? first : second;
    const { bytes, headers } = await service.list([['Accept-Encoding', coding]]);
    const seen = (coding === 'gzip' ? gunzipSync(bytes) : bytes).toString();
    expect(seen === text, `the list of ${seen.length} bytes equals the table's of ${text.length}`).toBe(true);
    expect(headers['etag']).toBe(`"${written.tag(coding)}"`);
  }
}

async function refill(pets: number): Promise<void> {
  await sql(`DELETE FROM inventory_item WHERE pet_id NOT BETWEEN 1 AND ${pets};
    INSERT INTO inventory_item AS i SELECT n, n, 'available' FROM generate_series(1, ${pets}) n ORDER BY random()
    ON CONFLICT (pet_id) DO UPDATE SET quantity = excluded.quantity, status = excluded.status
      WHERE (i.quantity, i.status) <> (excluded.quantity, excluded.status)`);
}

async function update(petId: number, quantity: number, service = first): Promise<void> {
  expect((await service.update(petId, quantity)).status).toBe(200);
}

const cache = () => first.app.get(InventoryService).counts;

const SWAP_WORDS = `ALTER TYPE pet_status RENAME VALUE 'available' TO 'other';
  ALTER TYPE pet_status RENAME VALUE 'sold' TO 'available'; ALTER TYPE pet_status RENAME VALUE 'other' TO 'sold'`;

/** Each statement in a transaction of its own unless it says BEGIN; after each of them the lists are compared. */
const CHANGES = {
  'an update in several pieces':
    'UPDATE inventory_item SET quantity = 5 WHERE pet_id IN (1, 1024, 1025, 2048, 2049, 2500)',
  'an update of ids that begin with the digits of others':
    'UPDATE inventory_item SET quantity = quantity + 9 WHERE pet_id IN (1, 10, 100, 1000)',
  'an update of every row to what it is': 'UPDATE inventory_item SET quantity = quantity',
  'an update of every row': 'UPDATE inventory_item SET quantity = quantity + 1',
  'new pets': [
    `INSERT INTO inventory_item VALUES (0, 1, 'sold')`,
    `INSERT INTO inventory_item VALUES (9999, 1, 'sold')`,
  ],
  'pets at both ends': [
    `INSERT INTO inventory_item VALUES (-9223372036854775808, 1, 'sold'), (9223372036854775807, 1, 'sold')`,
    'UPDATE inventory_item SET quantity = 2 WHERE abs(pet_id::numeric) > 9000000000000000000',
  ],
  'pets that go': ['DELETE FROM inventory_item WHERE pet_id = 7', 'DELETE FROM inventory_item WHERE pet_id = 2500'],
  'a pet that comes and goes': `BEGIN; INSERT INTO inventory_item VALUES (-1, 1, 'sold'); DELETE FROM inventory_item WHERE pet_id = -1; COMMIT`,
  'a pet that gets another id': [
    'UPDATE inventory_item SET pet_id = -5 WHERE pet_id = 5',
    'UPDATE inventory_item SET pet_id = 5 WHERE pet_id = -5',
  ],
  MERGE: `MERGE INTO inventory_item i USING (VALUES (3, 30), (70000, 7)) AS s (id, n) ON i.pet_id = s.id
    WHEN MATCHED THEN UPDATE SET quantity = n WHEN NOT MATCHED THEN INSERT VALUES (id, n, 'pending')`,
  COPY: `COPY inventory_item FROM PROGRAM 'printf "80000\\t1\\tsold\\n"'`,
  TRUNCATE: ['TRUNCATE inventory_item', `INSERT INTO inventory_item VALUES (1, 1, 'available')`],
  'TRUNCATE and the same pets anew': `BEGIN; TRUNCATE inventory_item;
    INSERT INTO inventory_item SELECT n, n + 1, 'available' FROM generate_series(1, ${PETS}) n; COMMIT`,
  'the same pets deleted and inserted': `BEGIN; DELETE FROM inventory_item WHERE pet_id < 9;
    INSERT INTO inventory_item SELECT n, 77, 'sold' FROM generate_series(1, 8) n; COMMIT`,
  'savepoints kept and rolled back': `BEGIN; UPDATE inventory_item SET quantity = 1 WHERE pet_id = 1; SAVEPOINT a;
    UPDATE inventory_item SET quantity = 2 WHERE pet_id = 2; RELEASE a; SAVEPOINT b;
    UPDATE inventory_item SET quantity = 3 WHERE pet_id IN (1, 3); ROLLBACK TO b; COMMIT`,
  'an asynchronous commit': `BEGIN; SET LOCAL synchronous_commit = off; UPDATE inventory_item SET quantity = 4; COMMIT`,
  'a transaction prepared, then committed': [
    `BEGIN; UPDATE inventory_item SET quantity = 1001 WHERE pet_id = 2; PREPARE TRANSACTION 'later'`,
    `COMMIT PREPARED 'later'`,
  ],
  'triggers off and on in one transaction': [
    `BEGIN; ALTER TABLE inventory_item DISABLE TRIGGER USER;
    UPDATE inventory_item SET quantity = 8 WHERE pet_id = 8; ALTER TABLE inventory_item ENABLE TRIGGER USER; COMMIT`,
    'UPDATE inventory_item SET quantity = 9 WHERE pet_id = 8',
    `SET session_replication_role = replica; UPDATE inventory_item SET quantity = 10 WHERE pet_id = 8; RESET session_replication_role`,
  ],
  'triggers off and on in three': [
    'ALTER TABLE inventory_item DISABLE TRIGGER USER',
    'UPDATE inventory_item SET quantity = 8 WHERE pet_id = 8',
    'UPDATE inventory_item SET quantity = 9 WHERE pet_id = 8',
    'ALTER TABLE inventory_item ENABLE TRIGGER USER',
    'UPDATE inventory_item SET quantity = 11 WHERE pet_id = 8',
  ],
  'the history trigger off and on': `ALTER TABLE inventory_item DISABLE TRIGGER inventory_item_history;
    UPDATE inventory_item SET quantity = 8 WHERE pet_id = 8; ALTER TABLE inventory_item ENABLE TRIGGER inventory_item_history`,
  session_replication_role: [
    `SET session_replication_role = replica; UPDATE inventory_item SET quantity = 6 WHERE pet_id = 6`,
    'UPDATE inventory_item SET quantity = 7 WHERE pet_id = 6',
    'RESET session_replication_role',
  ],
  'session_replication_role and a savepoint': `BEGIN; SET LOCAL session_replication_role = replica; SAVEPOINT a;
    UPDATE inventory_item SET quantity = 6 WHERE pet_id = 6; ROLLBACK TO a; UPDATE inventory_item SET quantity = 6 WHERE pet_id = 7; COMMIT`,
  'a session that marks its next transaction as recorded although it is not': [
    `BEGIN; SELECT set_config('inventory.recorded_in', pg_current_xact_id()::text, false); COMMIT`,
    `UPDATE inventory_item SET quantity = 3 WHERE pet_id = 3; RESET inventory.recorded_in`,
  ],
  'another stock_change in the search path': [
    `CREATE TEMP TABLE stock_change (LIKE public.stock_change INCLUDING ALL);
    UPDATE inventory_item SET quantity = 3 WHERE pet_id = 3`,
    'DROP TABLE pg_temp.stock_change',
  ],
  'a table rewritten': [
    `ALTER TABLE inventory_item ALTER quantity TYPE integer USING quantity + 1`,
    'VACUUM FULL inventory_item',
    'CLUSTER inventory_item USING inventory_item_pkey',
    'UPDATE inventory_item SET quantity = 1 WHERE pet_id = 1',
  ],
  'columns that swap their names': [
    'ALTER TABLE inventory_item ADD amount integer NOT NULL DEFAULT 9',
    `ALTER TABLE inventory_item RENAME quantity TO old; ALTER TABLE inventory_item RENAME amount TO quantity`,
    `ALTER TABLE inventory_item RENAME quantity TO amount; ALTER TABLE inventory_item RENAME old TO quantity`,
    'ALTER TABLE inventory_item DROP amount',
  ],
  'words for a status that swap, and back': [SWAP_WORDS, SWAP_WORDS],
  'a child table': [
    `CREATE TABLE child () INHERITS (inventory_item); INSERT INTO child VALUES (100000, 1, 'sold')`,
    'UPDATE child SET quantity = 2',
    'UPDATE child SET quantity = 3',
    'DROP TABLE child',
  ],
  'a trigger that keeps history out': [
    `CREATE FUNCTION keep_out() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END';
    CREATE TRIGGER keep_out BEFORE INSERT ON stock_change FOR EACH ROW EXECUTE FUNCTION keep_out()`,
    'UPDATE inventory_item SET quantity = 777 WHERE pet_id = 1',
    'DROP FUNCTION keep_out CASCADE',
  ],
  'a history whose rows name another transaction': [
    `ALTER TABLE stock_change ALTER changed_in SET DEFAULT '3'`,
    'UPDATE inventory_item SET quantity = 778 WHERE pet_id = 1',
    'UPDATE inventory_item SET quantity = 779 WHERE pet_id = 1',
    'ALTER TABLE stock_change ALTER changed_in SET DEFAULT pg_current_xact_id()',
  ],
  'a trigger that writes another pet': [
    `CREATE FUNCTION follow() RETURNS trigger LANGUAGE plpgsql AS
      'BEGIN UPDATE inventory_item SET quantity = NEW.quantity WHERE pet_id = 2000; RETURN NULL; END';
    CREATE TRIGGER follow AFTER UPDATE ON inventory_item FOR EACH ROW WHEN (NEW.pet_id = 1) EXECUTE FUNCTION follow()`,
    'DROP FUNCTION follow CASCADE',
  ],
  'another table by the name': [
    `BEGIN; ALTER TABLE inventory_item RENAME TO kept_aside;
    CREATE TABLE inventory_item (LIKE kept_aside INCLUDING ALL); INSERT INTO inventory_item VALUES (1, 1, 'sold'); COMMIT`,
    'UPDATE inventory_item SET quantity = 2',
    'UPDATE inventory_item SET quantity = 3',
    'BEGIN; DROP TABLE inventory_item; ALTER TABLE kept_aside RENAME TO inventory_item; COMMIT',
  ],
  'a history pruned': [
    'UPDATE inventory_item SET quantity = 3 WHERE pet_id = 1',
    `BEGIN; UPDATE inventory_item SET quantity = 4 WHERE pet_id = 1;
    SET LOCAL inventory.history = 'prune'; DELETE FROM stock_change c WHERE EXISTS (
      SELECT FROM stock_change newer WHERE newer.pet_id = c.pet_id AND newer.id > c.id); COMMIT`,
  ],
};

describe('GET /v1/inventory of two processes returns the exact stock', () => {
  beforeEach(async () => {
    owner = await postgres.database.session();
    await sql('ALTER TABLE inventory_item ENABLE REPLICA TRIGGER inventory_item_replicated');
    for (const table of ['stock_change', 'ANALYZE inventory_item']) await sql(`VACUUM ${table}`); // forgets the rules and children that are gone
    await refill(PETS);
    await expectExact();
    await update(1, 1_000_000);
    const patches = cache().patches;
    await expectExact();
    expect(cache().patches).toBe(patches + 1); // otherwise the tests below would compare whole readings
  });

  it('by patching the list after updates, and without reading while nothing changes', async () => {
    const { readings, patches } = cache();
    for (let quantity = 1; quantity <= 5; quantity++) {
      await update(quantity, quantity + 10, quantity % 2 ? first : second);
      await sql(`UPDATE inventory_item SET quantity = ${quantity} WHERE pet_id = 2000`);
      await expectExact();
      await expectExact();
    }
    expect(cache()).toMatchObject({ readings, patches: patches + 5 });
  });

  it('by patching the list after 4,096 changes, and by reading it anew after more, even if all are of one pet', async () => {
    const sent = vi.spyOn(first.app.get(PrismaService), '$queryRawUnsafe');
    onTestFinished(() => sent.mockRestore());
    await refill(4_098);
    await expectExact();
    const change = 'UPDATE inventory_item SET quantity = quantity + 1 WHERE pet_id <=';
    for (const [changes, count] of [
      [`${change} 4096`, 'patches'],
      [`${change} 4097`, 'readings'],
      [`${change} 4098`, 'readings'],
      [
        `INSERT INTO stock_change (pet_id, quantity_after, status_after, changed_by)
          SELECT 1, 3, 'available', 'test' FROM generate_series(1, 4097)`,
        'readings',
      ],
    ] as const) {
      const before = cache()[count];
      await sql(changes);
      await expectExact();
      expect(cache()[count]).toBe(before + 1);
      const [statement = '', ...values] = sent.mock.calls.findLast(([text]) => text.includes('recent')) ?? [];
      const { rows } = await owner.query<{ changes: unknown[] }>(statement, values);
      expect(rows[0]?.changes.length).toBeLessThanOrEqual(4_097); // it does not look up the others
    }
  });

  it('by patching a list of up to an hour, and by reading an older one anew', async () => {
    const clock = vi.spyOn(Date, 'now');
    onTestFinished(() => clock.mockRestore());
    const { readings, patches } = cache();
    for (const minutes of [50, 60, 60.001]) {
      clock.mockReturnValue(Date.now() + minutes * 60_000);
      await update(1, Math.ceil(minutes));
      await expectExact();
    }
    expect(cache()).toMatchObject({ readings: readings + 1, patches: patches + 2 });
    // A list is as old as the beginning of its reading.
    const begun = vi.spyOn(first.app.get(PrismaService), '$transaction');
    onTestFinished(() => begun.mockRestore());
    const later = Date.now();
    clock.mockImplementation(() => later + 61 * 60_000 * (1 + begun.mock.calls.length));
    for (const quantity of [1, 2]) {
      await update(1, quantity);
      await expectExact();
    }
    expect(cache()).toMatchObject({ readings: readings + 3, patches: patches + 2 });
  });

  it.each(Object.entries(CHANGES))('after %s', async (_, statements) => {
    const left = [statements].flat();
    onTestFinished(async () => {
      for (const statement of left) await sql(statement); // the later ones undo what the earlier ones did
    });
    for (let statement = left.shift(); statement !== undefined; statement = left.shift()) {
      await sql(statement);
      await expectExact();
      await update(1, 1_000 + Math.floor(Math.random() * 1e6)).catch(() => undefined);
      await expectExact();
    }
  });

  it('while a database rule drops history rows, and afterwards', async () => {
    const session = await postgres.database.session(); // one that wrote under the rule keeps its plan, so it writes no history afterwards
    await session.query('CREATE RULE no_history AS ON INSERT TO stock_change DO INSTEAD NOTHING');
    for (let quantity = 3; quantity <= 5; quantity++) {
      await session.query(`UPDATE inventory_item SET quantity = ${quantity} WHERE pet_id = 1`);
      await expectExact();
    }
    await session.query('DROP RULE no_history ON stock_change');
    await session.end();
    await sql('UPDATE inventory_item SET quantity = 6 WHERE pet_id = 1');
    await expectExact();
  });

  it('when overlapping transactions commit in another order than they began', async () => {
    const one = await postgres.database.session('UPDATE inventory_item SET quantity = 1001 WHERE pet_id = 1');
    const another = await postgres.database.session('UPDATE inventory_item SET quantity = 1002 WHERE pet_id = 2');
    for (const session of [another, one]) {
      await update(3, 1_003);
      await expectExact();
      await session.query('COMMIT');
    }
    await expectExact();
  });

  it.each([
    `stock_change (pet_id, quantity_after, status_after, changed_by, changed_in)
      SELECT n, 1, 'sold', 'test', '${FUTURE}' FROM generate_series(1, 5000) n`,
    `unrecorded_change VALUES ('${FUTURE}')`,
  ])(
    'with rows from a server whose transaction ids lie ahead, and is patched again after "migrate": %s',
    async (rows) => {
      await sql(`INSERT INTO ${rows}`);
      const readings = cache().readings;
      await update(1, 1);
      await expectExact();
      expect(cache().readings).toBeGreaterThan(readings);
      await applyMigrations(postgres.url);
      await expectExact();
      const patches = cache().patches;
      await update(1, 2);
      await expectExact();
      expect(cache().patches).toBe(patches + 1);
    },
  );

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
        await expect.poll(quantities, { timeout: 20_000 }).toEqual([{ all: expected }]);
        await expectExact();
      }
    } finally {
      await sql('DROP SUBSCRIPTION stock');
      await elsewhere.query('DROP PUBLICATION stock');
    }
  });

  it('and reads it anew each time when the table is a foreign table or a view over one', async () => {
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
        await expectExact();
        for (let n = 1; n <= 3; n++) {
          await elsewhere.query('UPDATE far SET quantity = quantity + 1');
          const readings = cache().readings;
          await expectExact();
          await expectExact();
          expect(cache().readings).toBe(readings + 2);
        }
        await sql(end);
      }
    } finally {
      await sql('ALTER TABLE kept_aside RENAME TO inventory_item; DROP EXTENSION postgres_fdw CASCADE');
    }
  });

  it('by looking up only the changes and their pets, however many there are', async () => {
    await refill(10_000);
    await sql('ANALYZE inventory_item');
    await expectExact();
    const sent = vi.spyOn(first.app.get(PrismaService), '$queryRawUnsafe');
    onTestFinished(() => sent.mockRestore());
    await update(5_000, 1);
    await expectExact();
    const [statement = '', ...values] = sent.mock.lastCall ?? [];
    await sql('SET enable_seqscan = off'); // as in every session for requests
    const { rows } = await owner.query<Record<'QUERY PLAN', string>>(`EXPLAIN ${statement}`, values);
    const plan = rows.map((row) => row['QUERY PLAN']).join('\n');
    const scansOf = (table: string) => plan.split(/(?=->  )/).filter((node) => node.includes(` on ${table}`));
    expect(scansOf('inventory_item')).toEqual([expect.stringMatching(/Index Cond: \(pet_id = /)]);
    const ofChanges = ['stock_change', 'unrecorded_change'].flatMap(scansOf);
    expect(ofChanges.length).toBeGreaterThanOrEqual(4); // two for each
    for (const scan of ofChanges) expect(scan).toMatch(/(Index|Recheck) Cond: \(changed_in /);
  });

  it.each([0, 1, PETS_PER_PIECE - 1, PETS_PER_PIECE, PETS_PER_PIECE + 1, 2 * PETS_PER_PIECE, 32 * PETS_PER_PIECE])(
    'with %i pets',
    async (pets) => {
      await refill(pets);
      await expectExact();
      await sql('UPDATE inventory_item SET quantity = 0 WHERE pet_id % 1000 < 2');
      await expectExact();
      await sql('DELETE FROM inventory_item WHERE pet_id = 1');
      await expectExact();
    },
  );

  it('after random changes to random stocks', async () => {
    const petId = fc.integer({ min: 1, max: 60 }).map((n) => n * 50);
    const change = fc.oneof(
      fc
        .tuple(petId, fc.nat(9))
        .map(([id, n]) => `UPDATE inventory_item SET quantity = ${n} WHERE pet_id BETWEEN ${id} AND ${id + 40}`),
      petId.map((id) => `DELETE FROM inventory_item WHERE pet_id = ${id}`),
      petId.map((id) => `INSERT INTO inventory_item VALUES (${id}, 1, 'sold') ON CONFLICT DO NOTHING`),
      petId.map(
        (id) => `SAVEPOINT s; UPDATE inventory_item SET status = 'pending' WHERE pet_id = ${id}; ROLLBACK TO s`,
      ),
      petId.map((id) => `UPDATE inventory_item SET status = 'sold' WHERE pet_id = ${id}`),
    );
    await fc.assert(
      fc.asyncProperty(fc.array(change, { maxLength: 6 }), fc.boolean(), async (changes, commits) => {
        await sql('BEGIN');
        for (const each of changes) await sql(each);
        await sql(commits ? 'COMMIT' : 'ROLLBACK');
        await expectExact();
      }),
      { numRuns: 40 },
    );
  });

  it.each(['', ...(hasPooler() ? ['behind a pooler '] : [])])(
    'with one whole reading in each process %safter each reset of the statistics under load',
    async (pooled) => {
      const { url } = pooled ? await startPooler(postgres.url, 3) : postgres;
      const { key } = first;
      const services = pooled
        ? await Promise.all([1, 2].map(() => startService({ databaseUrl: url, key })))
        : [first, second];
      const lists = () => Promise.all([...services, ...services, ...services].map((service) => service.list()));
      await lists();
      const readings = () => services.map(({ app }) => app.get(InventoryService).counts.readings);
      const before = readings();
      let isOver = false;
      const load = services.flatMap((service, pet) => [
        (async () => {
          for (let quantity = 1; !isOver; quantity++) await update(pet + 1, quantity, service);
        })(),
        (async () => {
          while (!isOver) expect((await service.list()).status).toBe(200);
        })(),
      ]);
      onTestFinished(() => {
        isOver = true;
      });
      for (let resets = 1; resets <= 3; resets++) {
        await sql(`SELECT pg_stat_reset_shared('wal')`);
        for (let round = 0; round < 5; round++) await lists();
        // A session that asks for the server's life only now gets another name of it than those from before the reset.
        if (pooled) await new Database(url).sql(`SET inventory.life = ''`);
        else
          await sql(
            `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'inventory key check'`,
          );
        for (let round = 0; round < 5; round++) await lists();
        expect(readings()).toEqual(before.map((count) => count + resets));
      }
      isOver = true;
      await Promise.all(load);
      await expectExact();
    },
  );

  it('after a crash of PostgreSQL, and after the commit of a transaction prepared before it', async () => {
    await sql(`BEGIN; SET LOCAL session_replication_role = replica;
      UPDATE inventory_item SET quantity = 7 WHERE pet_id = 5; PREPARE TRANSACTION 'past the history'`);
    await postgres.crash();
    await postgres.restart();
    owner = await postgres.database.session();
    await sql('UPDATE inventory_item SET quantity = 8 WHERE pet_id = 1');
    for (const service of [first, second])
      await expect.poll(async () => (await service.list()).status, { timeout: 20_000 }).toBe(200);
    await expectExact();
    await sql(`COMMIT PREPARED 'past the history'`);
    await expectExact();
  });
});

import type { Client } from 'pg';
import { beforeAll, beforeEach, describe, expect, inject, it, onTestFinished } from 'vitest';
import { type Database, createDatabase } from '../../../test/support/database.ts';
import { atTestEnd } from '../../../test/support/test-end.ts';
import { withTrigger } from '../../../test/support/triggers.ts';
import { UPDATE, UPDATE_KINDS } from '../../../test/support/updates.ts';
import { ConnectionPool, type Statement } from '../../lib/postgres/index.ts';
import { failureOf, NOT_AS_REQUESTED, sessionOf } from '../../database-errors.ts';
import { readSettings } from '../../settings.ts';
import type { QuantityUpdate } from '../inventory.ts';
import { STATE } from '../item.ts';
import { loneStatement, updateStatement } from './update-statement.ts';

const IS_17 = inject('postgresMajor') >= 17;

let database: Database;
let session: Client;

beforeAll(async () => {
  database = await createDatabase();
  session = await database.session();
});
beforeEach(async () => {
  await session.query('RESET ALL; DELETE FROM inventory_item');
});

const FOREVER = Number.MAX_SAFE_INTEGER;
const TIMEOUT_MS = 2_000; // of a transaction

/** Of a lone update without a key, the statement that is tried first. */
function statementOf(...given: Partial<QuantityUpdate>[]) {
  const updates = given.map((update) => ({ ...UPDATE, ...update }));
  return loneStatement(updates, FOREVER, TIMEOUT_MS) ?? updateStatement(updates, FOREVER, TIMEOUT_MS);
}

/** Each update's outcome, present quantity and status. */
async function run(updates: Partial<QuantityUpdate>[], by = session) {
  const { sql, values } = statementOf(...updates);
  const { rows } = await by.query<unknown[]>({ text: sql, values, rowMode: 'array' });
  return rows.map(([, ...row]) => row.slice(0, 3));
}
const rowsOf = async (sql: string, ...values: unknown[]) =>
  (await session.query<Record<string, unknown>>(sql, values)).rows;
const stock = () => rowsOf('SELECT pet_id, quantity FROM inventory_item ORDER BY pet_id');
const last = async () => (await rowsOf('SELECT max(id) AS last FROM stock_change'))[0]?.['last'];

type Members = Partial<QuantityUpdate>;
const STATEMENTS: [of: string, members: () => Members, others: Members[]][] = [
  ['a lone update', () => ({}), []],
  ...UPDATE_KINDS.map(([kind, members]): [string, () => Members, Members[]] => [
    `an update ${kind} and another one`,
    members,
    [{ petId: 2n, quantity: 99 }],
  ]),
];

describe.each(STATEMENTS)('the statement of %s', (_, members, others) => {
  it('does and records an update of an unlocked pet, alone and beside a locked one', async () => {
    await database.stock([1, 1], [2, 2], [3, 2]);
    await database.session('SELECT FROM inventory_item WHERE pet_id = 1 FOR UPDATE');
    await session.query('SET lock_timeout = 500');
    const before = await last();
    const first = (update: Partial<QuantityUpdate>) => ({ ...members(), ...update });
    const isTriedFirst = members().idempotencyKey === undefined; // by the text that shows neither

    expect(await run([first({ petId: 1n, quantity: 5 })])).toEqual(isTriedFirst ? [] : [['busy', null, null]]);
    expect(await run([first({ petId: 2n, quantity: 5, requestId: 'alone' })])).toEqual([['done', 2, 'available']]);
    expect(await run([first({ petId: 404n, quantity: 5 })])).toEqual(isTriedFirst ? [] : [['absent', null, null]]);
    expect(
      await run([
        first({ petId: 3n, quantity: 7, requestId: 'first' }),
        { petId: 1n, quantity: 7 },
        { petId: 404n, quantity: 7 },
        { petId: 2n, quantity: 0, requestId: 'last' },
      ]),
    ).toEqual([
      ['done', 2, 'available'],
      ['busy', null, null],
      ['absent', null, null],
      ['done', 5, 'available'],
    ]);
    expect(await stock()).toMatchObject([{ quantity: 1 }, { quantity: 0 }, { quantity: 7 }]);
    const row = { status: 'availableavailable', changed_by: 'key:test' };
    expect(
      await rowsOf(
        `SELECT pet_id, quantity_before AS before, quantity_after AS after, status_before::text || status_after AS status,
                changed_by, request_id FROM stock_change WHERE id > $1 ORDER BY request_id`,
        before,
      ),
    ).toEqual([
      { ...row, pet_id: '2', before: 2, after: 5, request_id: 'alone' },
      { ...row, pet_id: '3', before: 2, after: 7, request_id: 'first' },
      { ...row, pet_id: '2', before: 5, after: 0, request_id: 'last' },
    ]);
  });

  it('finds pets and keys one by one although it was planned for empty tables', async () => {
    const pool = new ConnectionPool(sessionOf(readSettings({ DATABASE_URL: database.url }), 'test'), 1);
    onTestFinished(() => pool.end());
    const client = await pool.connect(); // with the settings of every session for requests
    onTestFinished(() => client.release(true));
    const { sql, values } = statementOf({ ...members(), petId: 404n }, ...others);
    await client.query('BEGIN; TRUNCATE inventory_item');
    await client.query(`PREPARE update_stock AS ${sql}`);
    const given = values.map((value) => (value === null ? 'NULL' : client.escapeLiteral(value))).join();
    const { rows } = await client.query<Record<'QUERY PLAN', string>>(`EXPLAIN EXECUTE update_stock (${given})`);
    const plan = rows.map((row) => row['QUERY PLAN']).join('\n');
    const scans = plan.split(/(?=->  )/).filter((node) => /Scan .*on (inventory_item|stock_change)/.test(node));
    expect(scans.length).toBeGreaterThan(1);
    for (const scan of scans) expect(scan).toMatch(/(Index|Recheck) Cond: .*(pet_id|idempotency_key)/);
  });

  it('does not write a pet that got its id after the statement began', async () => {
    await database.stock([1, 10], [2, 20]);
    // In place of PostgreSQL's own function, which the statement calls before it locks the pets.
    const holder = await database.session('SELECT pg_advisory_xact_lock(7)');
    await session.query(
      `CREATE FUNCTION public.statement_timestamp() RETURNS timestamptz STABLE LANGUAGE sql
         AS 'SELECT pg_advisory_xact_lock(7); SELECT clock_timestamp()'`,
    );
    const own = await database.session();
    await atTestEnd(() => session.query('DROP FUNCTION public.statement_timestamp'));
    await own.query('SET search_path = public, pg_catalog');
    const outcomes = run([{ ...members(), petId: 1n, quantity: 99 }, ...others], own);
    const waiting = `SELECT FROM pg_stat_activity WHERE datname = current_database() AND wait_event = 'advisory'`;
    await expect.poll(() => rowsOf(waiting)).toHaveLength(1);
    await session.query(
      `BEGIN; UPDATE inventory_item SET pet_id = 3 WHERE pet_id = 1; UPDATE inventory_item SET pet_id = 1 WHERE pet_id = 2;
       UPDATE inventory_item SET pet_id = 2 WHERE pet_id = 3; COMMIT`,
    );
    await holder.end();
    expect((await outcomes).map(([outcome]) => outcome)).toEqual(others.length === 0 ? [] : ['busy', 'busy']);
    expect(await stock()).toMatchObject([{ quantity: 20 }, { quantity: 10 }]);
  });
});

type Text = (update: QuantityUpdate, lastMs: number) => Statement | undefined;
const TEXTS: readonly (readonly [name: string, text: Text, ofAbsentPet: readonly string[]])[] = [
  ['LONE', (update, lastMs) => loneStatement([update], lastMs, TIMEOUT_MS), []],
  ['PLAIN', (update, lastMs) => updateStatement([update], lastMs, TIMEOUT_MS), ['absent']],
  [
    'FULL',
    (update, lastMs) => updateStatement([{ ...update, ifMatch: ['available-1'] }], lastMs, TIMEOUT_MS),
    ['absent'],
  ],
];

it.each(TEXTS)('the text %s records and compares each member of an item', (_, text) => {
  const sql = text(UPDATE, FOREVER)?.sql;
  for (const { column } of STATE)
    for (const name of [`${column}_before`, `${column}_after`, `item.${column}`, `checked.${column}`])
      expect(sql).toContain(name);
});

describe.each(TEXTS)('the text %s writes nothing', (_, text, ofAbsentPet) => {
  beforeEach(() => database.stock([1, 1]));

  /** Adds something to the database until the test ends. */
  async function withRule(rule: string, undo: string): Promise<void> {
    await session.query(rule);
    await atTestEnd(() => session.query(undo));
  }

  /** In a new session; as in those for requests, PostgreSQL uses the index of a small table, too. */
  async function attempt(lastMs = FOREVER): Promise<readonly unknown[]> {
    const state = () =>
      rowsOf('SELECT pet_id, quantity, (SELECT max(id) FROM stock_change) AS last FROM inventory_item');
    const before = await state();
    const own = await database.session('SET enable_seqscan = off');
    const { sql = '', values } = text({ ...UPDATE, quantity: 5 }, lastMs) ?? {};
    const outcomes = await own.query<{ outcome: string }>(sql, values).then(
      ({ rows }) => rows.map(({ outcome }) => outcome),
      (error: unknown) => [failureOf(error).words],
    );
    expect(await state()).toEqual(before);
    return outcomes;
  }

  it('if a damaged index leads to another pet', async () => {
    const live = (isLive: boolean) =>
      `UPDATE pg_index SET indislive = ${isLive} WHERE indexrelid = 'inventory_item_pkey'::regclass`;
    await withRule(live(false), `${live(true)}; REINDEX TABLE inventory_item`);
    // In a new session, this update concerns no index: the entry of pet 1 stays, and leads to the row of pet 3.
    await database.sql('UPDATE inventory_item SET pet_id = 3');
    await session.query(live(true));
    expect(await attempt()).toEqual(ofAbsentPet);
  });

  it('if a rule puts another table in its place', async () => {
    await withRule(
      `CREATE TABLE aside AS SELECT * FROM inventory_item;
       CREATE RULE instead AS ON UPDATE TO inventory_item DO INSTEAD
         UPDATE aside SET quantity = NEW.quantity WHERE aside.pet_id = NEW.pet_id RETURNING aside.*`,
      'DROP RULE instead ON inventory_item; DROP TABLE aside',
    );
    expect(await attempt()).toEqual([expect.stringContaining('(XX000)')]); // it names a column that no rule has
  });

  it('if a trigger rewrites the row', async () => {
    await withTrigger(
      { sql: (sql) => session.query(sql) },
      'BEFORE UPDATE ON inventory_item',
      'NEW.quantity := 4; RETURN NEW;',
    );
    expect(await attempt()).toEqual([NOT_AS_REQUESTED]);
  });

  it('if it is too late', async () => {
    expect(await attempt(Date.now() - 60_000)).toEqual([]);
  });
});

it('a statement records first the updates with a key, by key and author, and then the others as they came', async () => {
  await database.stock([1, 0], ...[2, 3, 4, 5].map((pet) => [pet, 0] as const));
  const others = Array.from({ length: 30 }, (_, at) => ({ petId: 1n, quantity: at + 1, requestId: `other ${at}` }));
  const names = ['b b', 'b a', 'a b', 'a a'];
  const keyed = names.map((requestId, at) => {
    const [idempotencyKey = '', author] = requestId.split(' ');
    return { petId: BigInt(at + 2), idempotencyKey, changedBy: `key:${author}`, requestId };
  });
  await run([...others.slice(0, 15), ...keyed, ...others.slice(15)]);
  const recorded = await rowsOf(
    `SELECT request_id, quantity_before FROM stock_change
      WHERE xmin = (SELECT xmin FROM inventory_item WHERE pet_id = 1) ORDER BY id`,
  );
  expect(recorded).toEqual([
    ...names.toReversed().map((request_id) => ({ request_id, quantity_before: 0 })),
    ...others.map(({ requestId }, at) => ({ request_id: requestId, quantity_before: at })), // a chain
  ]);
});

it.each([
  ['off', 'on', [31n]],
  ['off', 'on', [31n, 32n]],
  ['local', 'on', [31n]],
  ['local', 'on', [31n, 32n]],
])(
  'a statement makes its commit durable in a session with synchronous_commit = %s, as a pooler may give it: %s, of pets %s',
  async (before, during, pets) => {
    await database.stock([31, 0], [32, 0]);
    await session.query(
      `CREATE FUNCTION show() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
         PERFORM set_config('test.settings', current_setting('synchronous_commit') || ' ' || current_setting('client_min_messages'), false);
         RETURN NULL; END $$;
       CREATE TRIGGER show AFTER INSERT ON stock_change EXECUTE FUNCTION show()`,
    );
    await atTestEnd(() => session.query('DROP FUNCTION show CASCADE'));
    await session.query(`SET client_min_messages = error; SET synchronous_commit = ${before}`);
    await run(pets.map((petId) => ({ petId })));
    const [found] = await rowsOf(
      `SELECT current_setting('test.settings') AS settings, current_setting('synchronous_commit') AS later,
              current_setting('client_min_messages') AS level, current_setting('transaction_timeout', true) AS timeout`,
    );
    const timeout = IS_17 ? '0' : null;
    expect(found).toEqual({ settings: `${during} warning`, later: before, level: 'error', timeout });
  },
);

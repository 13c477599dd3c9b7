import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { type AddressInfo, type Socket, createServer } from 'node:net';
import { setTimeout as pause } from 'node:timers/promises';
import type { Client } from 'pg';
import { beforeAll, beforeEach, describe, expect, inject, it, onTestFinished, vi } from 'vitest';
import { TcpProxy } from '../faults/tcp-proxy.ts';
import { readSettings, type SettingName } from '../src/settings.ts';
import { PrismaService } from '../src/database/prisma.service.ts';
import { StatementConnection } from '../src/database/statement-connection.ts';
import { NotApplied } from '../src/database/database-failure.ts';
import { describeFailure } from '../src/errors/error-text.ts';
import { asApiError } from '../src/http/error.filter.ts';
import { FastInventoryService } from '../src/inventory/fast/fast-inventory.service.ts';
import type { InventoryContract, QuantityUpdate } from '../src/inventory/inventory.contract.ts';
import { InventoryService } from '../src/inventory/inventory.service.ts';
import { updateStatement } from '../src/inventory/fast/update-statement.ts';
import { watchBatches } from './support/batches.ts';
import { refused, whole } from './support/answers.ts';
import { laterThan } from './support/later-than.ts';
import { listText } from './support/stock.ts';
import { IS_FAST, type TestService, startService } from './support/service.ts';

const PATIENCE_MS = 5_000;
/** Of many other processes. They are idle from the beginning, long enough for the test that looks at them. */
const IDLE_SESSIONS = 6;
const IS_17 = inject('postgresMajor') >= 17;
const UPDATE: QuantityUpdate = {
  petId: 1n,
  quantity: 1,
  ifMatch: null,
  changedBy: 'key:test',
  idempotencyKey: null,
  reason: null,
  requestId: 'request',
};

/** What makes an update one of each kind of statement. */
const KINDS: readonly (readonly [kind: string, members: () => Partial<QuantityUpdate>])[] = [
  ['plain', () => ({})],
  ['full', () => ({ ifMatch: ['available-1', 'available-2'] })],
  ['keyed', () => ({ idempotencyKey: randomUUID() })],
];

const statementOf = (...updates: Partial<QuantityUpdate>[]) =>
  updateStatement(
    updates.map((update) => ({ ...UPDATE, ...update })),
    Number.MAX_SAFE_INTEGER,
    2_000, // the timeout of its transaction
  );

/** By connections that end with the test. */
function updatesOn(given: Partial<Record<SettingName, string>>): InventoryContract {
  const settings = readSettings(given);
  const prisma = new PrismaService(settings);
  onTestFinished(() => prisma.$disconnect());
  if (!IS_FAST) return new InventoryService(prisma, settings);
  const updates = new FastInventoryService(prisma, settings);
  onTestFinished(() => updates.onApplicationShutdown());
  return updates;
}

describe('PATCH /v1/inventory/:petId, updates that share a statement', () => {
  let service: TestService;
  let other: TestService;
  let updates: InventoryContract;

  beforeAll(async () => {
    service = await startService();
    other = await startService({ databaseUrl: service.databaseUrl });
    updates = service.app.get(InventoryService);
    for (let n = 0; n < IDLE_SESSIONS; n++)
      await (await service.database.session()).query(`SET application_name = 'inventory updates'`);
  });
  beforeEach(async () => {
    await service.sql('DELETE FROM inventory_item');
  });

  const ask = (update: Partial<QuantityUpdate>, patienceMs = PATIENCE_MS, by = updates) =>
    by.setQuantity({ ...UPDATE, ...update }, performance.now() + patienceMs).catch((error: unknown) => {
      const { code, headers } = asApiError(error);
      return { outcome: code, ...(headers['ETag'] && { tag: headers['ETag'] }) };
    });
  const stockOf = () => service.sql('SELECT pet_id, quantity, status FROM inventory_item ORDER BY pet_id');
  const historyOf = (petId: number) =>
    service.sql(
      `SELECT quantity_before AS before, quantity_after AS after, request_id
         FROM stock_change WHERE pet_id = $1 AND changed_by = 'key:test' ORDER BY id`,
      [petId],
    );

  it.runIf(IS_FAST)(
    'each update of a batch gets its own outcome, and sees the update of the same pet before it',
    async () => {
      await service.stock([1, 10], [2, 20, 'pending'], [3, 0, 'sold']);
      const outcomes = await Promise.all([
        ask({ petId: 1n, quantity: 11 }),
        ask({ petId: 2n, quantity: 21, ifMatch: ['pending-20'] }),
        ask({ petId: 3n, quantity: 31, ifMatch: ['sold-1', 'available-0'] }),
        ask({ petId: 4n, quantity: 41 }),
        ask({ petId: 5n, quantity: 51, ifMatch: [] }),
        ask({ petId: 1n, quantity: 12, ifMatch: ['available-11'] }),
        ask({ petId: 1n, quantity: 13, ifMatch: ['available-11'] }),
      ]);
      expect(outcomes).toEqual([
        { outcome: 'done', item: { petId: 1n, quantity: 11, status: 'available' } },
        { outcome: 'done', item: { petId: 2n, quantity: 21, status: 'pending' } },
        { outcome: 'precondition_failed', tag: '"sold-0"' },
        { outcome: 'not_found' },
        { outcome: 'not_found' },
        { outcome: 'done', item: { petId: 1n, quantity: 12, status: 'available' } },
        { outcome: 'precondition_failed', tag: '"available-12"' },
      ]);
      expect(await stockOf()).toEqual([
        { pet_id: '1', quantity: 12, status: 'available' },
        { pet_id: '2', quantity: 21, status: 'pending' },
        { pet_id: '3', quantity: 0, status: 'sold' },
      ]);
    },
  );

  it.runIf(IS_FAST)(
    'updates of one pet share statements, and its history has a row for each in their order',
    async () => {
      await service.stock([108, 0], [109, 0]);
      const quantities = Array.from({ length: 100 }, (_, at) => at + 1);
      const outcomes = await Promise.all(
        quantities.map((quantity) => {
          const ifMatch = quantity % 10 === 0 ? [`available-${quantity - 1}`] : null;
          return ask({ petId: 108n, quantity, ifMatch, requestId: `request-${quantity}` });
        }),
      );
      expect(outcomes.map((each) => 'item' in each && each.item.quantity)).toEqual(quantities);
      expect(await historyOf(108)).toEqual(
        quantities.map((after) => ({ before: after - 1, after, request_id: `request-${after}` })),
      );
      expect(await stockOf()).toMatchObject([{ quantity: 100 }, { quantity: 0 }]);
      const [{ statements } = {}] = await service.sql(
        `SELECT count(DISTINCT xmin::text)::int AS statements FROM stock_change WHERE pet_id = 108 AND changed_by = 'key:test'`,
      );
      expect(statements).toBeLessThan(40);
    },
  );

  it('an update changes its pet and no neighbour, at the edges of int64 too', async () => {
    const ids = [-(2n ** 63n), -(2n ** 63n) + 1n, 9007199254740992n, 9007199254740993n, 2n ** 63n - 2n, 2n ** 63n - 1n];
    await service.stock(...ids.map((id) => [id, 5] as const));
    for (const petId of ids.filter((_, at) => at % 2 === 1)) await ask({ petId, quantity: 6 });
    expect(await stockOf()).toEqual(
      ids.map((id, at) => ({ pet_id: String(id), quantity: at % 2 === 1 ? 6 : 5, status: 'available' })),
    );
  });

  describe('when another session has locked the row', () => {
    let holder: Client;

    beforeEach(async () => {
      await service.stock([1, 1], [2, 2]);
      holder = await service.database.session('SELECT FROM inventory_item WHERE pet_id = 1 FOR UPDATE');
    });

    it('an update of that row waits, and updates of other pets do not', async () => {
      const locked = ask({ petId: 1n, quantity: 100 }, 25_000);
      const waiting = `SELECT FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`;
      for (let quantity = 0; quantity < 20; quantity++) {
        expect(await ask({ petId: 2n, quantity })).toMatchObject({ outcome: 'done' });
        expect(await service.sql(waiting)).toEqual([]); // the locked one holds no connection
      }
      await holder.end();
      expect(await locked).toMatchObject({ outcome: 'done' });
    });

    it('an update does not wait if the other session only refers to the row', async () => {
      await holder.query('ROLLBACK; BEGIN; SELECT FROM inventory_item WHERE pet_id = 1 FOR KEY SHARE');
      expect(await ask({ petId: 1n, quantity: 100 })).toMatchObject({ outcome: 'done' });
    });

    it('an update sees what the other session committed', async () => {
      const locked = ask({ petId: 1n, quantity: 100, ifMatch: ['available-1'] });
      await holder.query('UPDATE inventory_item SET quantity = 50 WHERE pet_id = 1; COMMIT');
      expect(await locked).toEqual({ outcome: 'precondition_failed', tag: '"available-50"' });
    });

    it.each([
      ['between two attempts', ''],
      ['during an attempt', 'LOCK TABLE inventory_item'],
    ])('an update fails at its deadline, %s, and writes nothing', async (_, lock) => {
      const update = updates.setQuantity({ ...UPDATE, quantity: 100 }, performance.now() + 2_500);
      const late = update.catch((error: unknown) => error);
      const tooLate = pause(5_000);
      await pause(1_000);
      await holder.query(lock);
      const failure = await Promise.race([late, tooLate]);
      expect(asApiError(failure).code).toBe('service_unavailable');
      expect((failure as Error).message).toMatch(/ holds (the row$|what this needs)/);
      await holder.end();
      expect(await stockOf()).toMatchObject([{ quantity: 1 }, { quantity: 2 }]);
    });
  });

  it.each(KINDS)(
    'a %s update of an unlocked pet is done and recorded, alone and in a batch with a locked one',
    async (_, members) => {
      await service.stock([1, 1], [2, 2], [3, 2]);
      const session = await service.database.session();
      await service.database.session('SELECT FROM inventory_item WHERE pet_id = 1 FOR UPDATE');
      await session.query('SET lock_timeout = 500');
      const [{ last } = {}] = await service.sql('SELECT max(id) AS last FROM stock_change');
      const run = async (...updates: Partial<QuantityUpdate>[]) => {
        const { sql, values } = statementOf(
          ...updates.map((each, at) => ({ ...UPDATE, ...(at === 0 && members()), ...each })),
        );
        return (await session.query<string[]>({ text: sql, values, rowMode: 'array' })).rows.map(([, ...row]) => row);
      };
      expect(await run({ petId: 1n, quantity: 5 })).toEqual([['busy', null, null]]);
      expect(await run({ petId: 2n, quantity: 5, requestId: 'alone' })).toEqual([['done', 2, 'available']]);
      expect(await run({ petId: 404n, quantity: 5 })).toEqual([['absent', null, null]]);
      expect(
        await run(
          { petId: 3n, quantity: 7, requestId: 'first' },
          { petId: 1n, quantity: 7 },
          { petId: 404n, quantity: 7 },
          { petId: 2n, quantity: 0, requestId: 'last' },
        ),
      ).toEqual([
        ['done', 2, 'available'],
        ['busy', null, null],
        ['absent', null, null],
        ['done', 5, 'available'],
      ]);
      expect(await stockOf()).toMatchObject([{ quantity: 1 }, { quantity: 0 }, { quantity: 7 }]);
      const history = `SELECT pet_id, quantity_before AS before, quantity_after AS after, status_before::text || status_after AS status,
        changed_by, request_id FROM stock_change WHERE id > $1 ORDER BY request_id`;
      const row = { status: 'availableavailable', changed_by: 'key:test' };
      expect(await service.sql(history, [last])).toEqual([
        { ...row, pet_id: '2', before: 2, after: 5, request_id: 'alone' },
        { ...row, pet_id: '3', before: 2, after: 7, request_id: 'first' },
        { ...row, pet_id: '2', before: 5, after: 0, request_id: 'last' },
      ]);
    },
  );

  it('a statement records first the updates with a key, by key and author, and then the others as they came', async () => {
    await service.stock([1, 0], ...[2, 3, 4, 5].map((pet) => [pet, 0] as const));
    const others = Array.from({ length: 30 }, (_, at) => ({ petId: 1n, quantity: at + 1, requestId: `other ${at}` }));
    const names = ['b b', 'b a', 'a b', 'a a'];
    const keyed = names.map((requestId, at) => {
      const [idempotencyKey = '', author] = requestId.split(' ');
      return { petId: BigInt(at + 2), idempotencyKey, changedBy: `key:${author}`, requestId };
    });
    const { sql, values } = statementOf(...others.slice(0, 15), ...keyed, ...others.slice(15));
    await service.sql(sql, values);
    const recorded = await service.sql(
      `SELECT request_id FROM stock_change WHERE xmin = (SELECT xmin FROM inventory_item WHERE pet_id = 1) ORDER BY id`,
    );
    expect(recorded.map((row) => row['request_id'])).toEqual([
      ...names.toReversed(),
      ...others.map(({ requestId }) => requestId),
    ]);
  });

  it('updates of the same pets in opposite order by two processes all take effect', async () => {
    const pets = Array.from({ length: 20 }, (_, at) => at + 1);
    await service.stock(...pets.map((pet) => [pet, 0] as const));
    const rounds = Array.from({ length: 2 });
    const send = (order: readonly number[], by: InventoryContract) =>
      order.flatMap((pet) => rounds.map(() => ask({ petId: BigInt(pet), quantity: pet }, 25_000, by)));
    const sent = [...send(pets, updates), ...send(pets.toReversed(), other.app.get(InventoryService))];
    for (const { outcome } of await Promise.all(sent)) expect(outcome).toBe('done');
    const [{ changes } = {}] = await service.sql(
      `SELECT count(*)::int AS changes FROM stock_change WHERE changed_by = 'key:test' AND quantity_after = pet_id
        AND id > (SELECT max(id) FROM stock_change WHERE changed_by LIKE 'sql:%')`,
    );
    expect(changes).toBe(sent.length);
  });

  it('FAST decides which service makes the updates', () => {
    expect(updates instanceof FastInventoryService).toBe(IS_FAST);
  });

  it('an update that waits for a table lock ends at its deadline', async () => {
    await service.stock([1, 1]);
    const holder = await service.database.session('LOCK TABLE stock_change');
    const outcomes = await Promise.all(
      Array.from({ length: 20 }, async (_, at) => {
        await pause(40 * at);
        const patienceMs = 1_000 + 83 * at;
        const update = ask({ petId: 1n, requestId: 'late' }, patienceMs);
        return Promise.race([update, laterThan(patienceMs, { outcome: 'nothing' })]);
      }),
    );
    await holder.end();
    const codes = outcomes.map(({ outcome }) => outcome);
    expect(new Set([...codes, 'outcome_unknown'])).toEqual(new Set(['service_unavailable', 'outcome_unknown']));
    // The machine may stand still between sending a statement and its end. Sent without regard to the time, 8 to 11 were unknown.
    expect(codes.filter((code) => code === 'outcome_unknown').length).toBeLessThan(5);
    expect(await ask({ petId: 1n, quantity: 7 })).toMatchObject({ outcome: 'done' });
    expect((await historyOf(1)).filter((row) => row['request_id'] === 'late')).toEqual([]);
  });

  it('an update makes its commit durable in a session with other settings, as a pooler may give it', async () => {
    await service.stock([31, 0], [32, 0]);
    await service.sql(
      `CREATE FUNCTION tell() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
         PERFORM set_config('test.settings', current_setting('synchronous_commit') || ' ' || current_setting('client_min_messages'), false);
         RETURN NULL; END $$;
       CREATE TRIGGER tell AFTER INSERT ON stock_change EXECUTE FUNCTION tell()`,
    );
    onTestFinished(() => service.sql('DROP FUNCTION tell CASCADE; RESET ALL').then(() => undefined));
    for (const pets of [[31n], [31n, 32n]]) {
      for (const [before, during] of [
        ['off', 'on'],
        ['remote_write', 'remote_write'],
      ] as const) {
        await service.sql(`SET client_min_messages = error; SET synchronous_commit = ${before}`);
        const { sql, values } = statementOf(...pets.map((petId) => ({ petId })));
        await service.sql(sql, values);
        const now = `current_setting('synchronous_commit') AS later, current_setting('client_min_messages') AS level,
          current_setting('transaction_timeout', true) AS timeout`;
        const [told] = await service.sql(`SELECT current_setting('test.settings') AS settings, ${now}`);
        expect(told).toEqual({
          settings: `${during} warning`,
          later: before,
          level: 'error',
          timeout: IS_17 ? '0' : null,
        });
      }
    }
    if (IS_FAST) return;
    const ofPool = async (statement: string) => {
      const session = await service.app.get(PrismaService).pool.connect(); // the one that was used last
      return session.query(statement).finally(() => session.release());
    };
    for (const [before, during] of [
      ['off', 'on'],
      ['remote_write', 'remote_write'],
    ]) {
      await ofPool(`SET synchronous_commit = ${before}`);
      await ask({ petId: 31n });
      const { rows } = await ofPool(
        `SELECT current_setting('test.settings') AS settings, current_setting('synchronous_commit') AS later`,
      );
      expect(rows).toEqual([{ settings: `${during} warning`, later: before }]);
    }
  });

  it('an update that says that nothing was written is not committed after that', async () => {
    await service.stock([7, 1], [8, 1]);
    await service.sql(
      `CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_sleep(0.8); RETURN NEW; END $$;
       CREATE TRIGGER slow BEFORE INSERT ON stock_change FOR EACH ROW EXECUTE FUNCTION slow()`,
    );
    onTestFinished(() => service.sql('DROP FUNCTION slow CASCADE').then(() => undefined));
    const own = updatesOn({ DATABASE_URL: service.databaseUrl, DATABASE_POOL_SIZE: '1' }); // so that one waits for the other
    const told = await Promise.all([7n, 8n].map((petId) => ask({ petId, quantity: 2 }, 1_300, own)));
    await pause(1_000);
    const written = (await stockOf()).map(({ quantity }) => quantity === 2);
    expect(told.map(({ outcome }, at) => outcome === 'service_unavailable' && written[at])).toEqual([false, false]);
    expect(await ask({ petId: 7n, quantity: 3 }, PATIENCE_MS, own)).toMatchObject({ outcome: 'done' }); // with more time
  });

  it.each(KINDS)(
    'a %s update finds its pets by the primary key although its statement was planned for an empty table',
    async (_, members) => {
      const session = await service.app.get(PrismaService).pool.connect(); // with the settings of every session for requests
      onTestFinished(() => session.release(true));
      const { sql, values } = statementOf({ ...members(), petId: 404n }, { petId: 405n });
      await session.query('BEGIN; TRUNCATE inventory_item');
      await session.query(`PREPARE update_stock AS ${sql}`);
      const given = values.map((value) => (value === null ? 'NULL' : session.escapeLiteral(value))).join();
      const { rows } = await session.query<Record<'QUERY PLAN', string>>(`EXPLAIN EXECUTE update_stock (${given})`);
      const plan = rows.map((row) => row['QUERY PLAN']).join('\n');
      const scans = plan.split(/(?=->  )/).filter((node) => /Scan .*on inventory_item/.test(node));
      expect(scans.length).toBeGreaterThan(1);
      for (const scan of scans) expect(scan).toMatch(/(Index|Recheck) Cond: .*pet_id/);
    },
  );

  it.each(KINDS)('a %s update does not write a pet that got its id after the statement began', async (_, members) => {
    await service.stock([1, 10], [2, 20]);
    // In place of PostgreSQL's own function, which the statement calls before it locks the pets.
    const holder = await service.database.session('SELECT pg_advisory_xact_lock(7)');
    await service.sql(
      `CREATE FUNCTION public.statement_timestamp() RETURNS timestamptz STABLE LANGUAGE sql
         AS 'SELECT pg_advisory_xact_lock(7); SELECT clock_timestamp()'`,
    );
    const session = await service.database.session();
    onTestFinished(() => service.sql('DROP FUNCTION public.statement_timestamp').then(() => undefined));
    await session.query('SET search_path = public, pg_catalog');
    const { sql, values } = statementOf({ ...members(), petId: 1n, quantity: 99 }, { petId: 2n, quantity: 99 });
    const outcomes = session.query<string[]>({ text: sql, values, rowMode: 'array' });
    const waiting = `SELECT FROM pg_stat_activity WHERE datname = current_database() AND wait_event = 'advisory'`;
    await expect.poll(() => service.sql(waiting)).toHaveLength(1);
    await service.sql(`BEGIN; UPDATE inventory_item SET pet_id = 3 WHERE pet_id = 1; UPDATE inventory_item SET pet_id = 1 WHERE pet_id = 2;
      UPDATE inventory_item SET pet_id = 2 WHERE pet_id = 3; COMMIT`);
    await holder.end();
    expect((await outcomes).rows.map(([, outcome]) => outcome)).toEqual(['busy', 'busy']);
    expect(await stockOf()).toMatchObject([{ quantity: 20 }, { quantity: 10 }]);
  });

  it('no update gets a session that another one left in a transaction', async () => {
    const session = await service.app.get(PrismaService).pool.connect();
    await session.query('BEGIN');
    session.release();
    const open = `SELECT FROM pg_stat_activity WHERE datname = current_database() AND state LIKE 'idle in transaction%'`;
    await expect.poll(() => service.sql(open)).toEqual([]);
  });

  it('an update is not applied while its id in the history is taken, and is done after that', async () => {
    await service.stock([41, 0]);
    const sequence = `pg_get_serial_sequence('stock_change', 'id')`;
    const [{ last } = {}] = await service.sql(`SELECT max(id) AS last FROM stock_change`);
    await service.sql(
      `INSERT INTO stock_change (pet_id, id, quantity_before, quantity_after, changed_by)
       SELECT 41, $1::bigint + n, 0, 0, 'test' FROM generate_series(1, 1000) n`,
      [last],
    );
    expect(await ask({ petId: 41n, quantity: 1 }, 1_500)).toEqual({ outcome: 'service_unavailable' });
    await service.sql(`SELECT setval(${sequence}, max(id)) FROM stock_change`);
    expect(await ask({ petId: 41n, quantity: 2 })).toMatchObject({ outcome: 'done' });
  });

  it.each([
    ['a constraint', 'ALTER TABLE inventory_item ADD CONSTRAINT most CHECK (quantity <= 1000)'],
    [
      'a trigger',
      `CREATE FUNCTION most() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
         IF NEW.quantity > 1000 THEN RAISE 'too many: %', NEW.quantity; END IF; RETURN NEW; END $$;
       CREATE TRIGGER most BEFORE UPDATE ON inventory_item FOR EACH ROW EXECUTE FUNCTION most()`,
    ],
  ])('a value that %s refuses fails alone, and the updates beside it are done', async (_, rule) => {
    const pets = Array.from({ length: 20 }, (_, at) => at + 50);
    await service.stock(...pets.map((pet) => [pet, 0] as const));
    await service.sql(rule);
    const undo = `ALTER TABLE inventory_item DROP CONSTRAINT IF EXISTS most; DROP FUNCTION IF EXISTS most CASCADE`;
    onTestFinished(() => service.sql(undo).then(() => undefined));
    const opened = await service.database.sessions();
    const quantityOf = (pet: number) => (pet % 7 === 0 ? 1_001 : pet);
    const sent = [...pets, 50].map((pet) => ask({ petId: BigInt(pet), quantity: quantityOf(pet) }));
    expect(await Promise.all(sent)).toMatchObject(
      [...pets, 50].map((pet) => ({ outcome: quantityOf(pet) > 1_000 ? 'validation_failed' : 'done' })),
    );
    expect(await stockOf()).toMatchObject(pets.map((pet) => ({ quantity: quantityOf(pet) > 1_000 ? 0 : pet })));
    expect((await historyOf(50)).slice(-2)).toMatchObject([
      { before: 0, after: 50, request_id: 'request' },
      { before: 50, after: 50, request_id: 'request' },
    ]);
    expect(await historyOf(56)).toEqual([]);
    expect(whole(await service.update(50, 1_001))).toEqual(refused.rule);
    expect(await service.database.sessions()).toEqual(expect.arrayContaining(opened));
  });

  const REWRITES: [does: string, onStock: string, onHistory: string][] = [
    ['writes another quantity to its history', '', 'NEW.quantity_after := 7;'],
    ['writes another quantity before it to its history', '', 'NEW.quantity_before := 7;'],
    ['writes another status to its history', '', `NEW.status_before := 'sold';`],
    ['gives its history to another pet', '', 'NEW.pet_id := 3;'],
  ];

  /** What a trigger BEFORE UPDATE does with a quantity above 1,000. Pets 1 to 3 exist. */
  it.each([
    ['keeps it back', 'RETURN NULL;'],
    ['lowers it', 'NEW.quantity := 1000;'],
    ['sets the status', `NEW.status := 'sold';`],
    ['gives the pet another id', 'NEW.pet_id := 99;'],
    ['gives the pet the id of another', 'NEW.pet_id := 2;'],
    ['removes the pet', 'DELETE FROM inventory_item WHERE pet_id = NEW.pet_id; RETURN NULL;'],
    ['writes the pet itself', 'UPDATE inventory_item SET quantity = 7 WHERE pet_id = NEW.pet_id;'],
    ['keeps its history back', '', 'RETURN NULL;'],
    // FAST=on compares no history, because that would cost each update a tenth.
    ...(IS_FAST ? [] : REWRITES),
  ])('an update fails alone, and writes nothing, if a trigger %s', async (_, onStock, onHistory = '') => {
    await service.stock([1, 1], [2, 2], [3, 3]);
    const trigger = (name: string, event: string, act: string, quantity: string) =>
      `CREATE FUNCTION ${name}() RETURNS trigger LANGUAGE plpgsql AS
         $$ BEGIN IF NEW.${quantity} > 1000 THEN ${act} END IF; RETURN NEW; END $$;
       CREATE TRIGGER ${name} BEFORE ${event} FOR EACH ROW EXECUTE FUNCTION ${name}()`;
    if (onStock) await service.sql(trigger('meddle', 'UPDATE ON inventory_item', onStock, 'quantity'));
    if (onHistory) await service.sql(trigger('meddle', 'INSERT ON stock_change', onHistory, 'quantity_after'));
    onTestFinished(() => service.sql('DROP FUNCTION meddle CASCADE').then(() => undefined));
    const before = await stockOf();
    const [{ last } = {}] = await service.sql('SELECT max(id) AS last FROM stock_change');
    const alone = await service.update(1, 1_001);
    const conditional = await service.update(1, 1_001, [['If-Match', '"available-1"']]);
    expect([alone, conditional].map(whole)).toEqual([refused.rule, refused.rule]);
    expect(whole(await service.update(1, 1_001, [['Idempotency-Key', 'k']]))).toEqual(refused.rule);
    expect(await stockOf()).toEqual(before);
    const beside = await Promise.all([
      ask({ petId: 1n, quantity: 1_001 }),
      ask({ petId: 2n, quantity: 12, ifMatch: ['available-2'] }),
      ask({ petId: 3n, quantity: 13 }),
    ]);
    expect(beside.map(({ outcome }) => outcome)).toEqual(['validation_failed', 'done', 'done']);
    expect(await stockOf()).toMatchObject([{ quantity: 1 }, { quantity: 12 }, { quantity: 13 }]);
    const history = 'SELECT pet_id, quantity_after FROM stock_change WHERE id > $1 ORDER BY pet_id';
    expect(await service.sql(history, [last])).toEqual([
      { pet_id: '2', quantity_after: 12 },
      { pet_id: '3', quantity_after: 13 },
    ]);
    expect(await ask({ petId: 1n, quantity: 1_000, idempotencyKey: randomUUID() })).toMatchObject({ outcome: 'done' });
  });

  it('a failure by a trigger is told in words', async () => {
    await service.stock([1, 1]);
    await service.sql(`CREATE FUNCTION meddle() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END';
      CREATE TRIGGER meddle BEFORE UPDATE ON inventory_item FOR EACH ROW EXECUTE FUNCTION meddle()`);
    onTestFinished(() => service.sql('DROP FUNCTION meddle CASCADE').then(() => undefined));
    const failure = updates.setQuantity(UPDATE, performance.now() + PATIENCE_MS);
    await expect(failure).rejects.toThrow(
      /^a trigger changed the row or kept it back; let the trigger raise an error instead$/,
    );
  });

  it.each([
    ['nothing', 'UPDATE TO inventory_item DO INSTEAD NOTHING'],
    ['nothing for some values', 'UPDATE TO inventory_item WHERE NEW.quantity > 1000 DO INSTEAD NOTHING'],
    ['another table', 'UPDATE TO inventory_item DO INSTEAD UPDATE aside SET quantity = NEW.quantity'],
    [
      'another table, whose rows it returns',
      `UPDATE TO inventory_item DO INSTEAD UPDATE aside SET quantity = NEW.quantity
        WHERE aside.pet_id = OLD.pet_id RETURNING aside.*`,
    ],
    [
      'the table itself',
      'UPDATE TO inventory_item DO INSTEAD UPDATE inventory_item SET quantity = least(NEW.quantity, 9)',
    ],
    ['another table besides', 'UPDATE TO inventory_item DO ALSO INSERT INTO aside SELECT NEW.*'],
    ['no history', 'INSERT TO stock_change DO INSTEAD NOTHING'],
  ])('no update is made while a rule writes %s, and the failure names the rule', async (_, rule) => {
    await service.stock([1, 1], [2, 2]);
    await service.sql('CREATE TABLE aside AS SELECT * FROM inventory_item');
    onTestFinished(() => service.sql('DROP TABLE aside CASCADE').then(() => undefined));
    await service.sql(`CREATE RULE "Most" AS ON ${rule}`);
    const table = rule.includes('stock_change') ? 'stock_change' : 'inventory_item';
    onTestFinished(() => service.sql(`DROP RULE IF EXISTS "Most" ON ${table}`).then(() => undefined));
    const [{ last } = {}] = await service.sql('SELECT max(id) AS last FROM stock_change');
    const from = performance.now();
    const updated = await Promise.all([
      service.update(1, 5),
      service.update(1, 5, [['If-Match', '"available-7"']]),
      service.update(2, 5, [['Idempotency-Key', 'k']]),
      service.update(404, 5),
    ]);
    expect(performance.now() - from).toBeLessThan(5_000); // not at the deadline, after 9 s
    expect(updated.map(({ status }) => status)).toEqual([503, 503, 503, 503]);
    expect(JSON.parse(updated[0].text)).toMatchObject({ code: 'service_unavailable' });
    expect((await service.list()).text).toBe(listText([1, 1], [2, 2]));
    expect(await service.sql('SELECT FROM stock_change WHERE id > $1', [last])).toEqual([]);
    await expect(updates.setQuantity(UPDATE, performance.now() + PATIENCE_MS)).rejects.toThrow(
      `no update is possible with the rule "Most" on ${table}; drop it (DROP RULE), or write a trigger that raises an error`,
    );
    await service.sql(`ALTER TABLE ${table} DISABLE RULE "Most"`);
    expect(await ask({ petId: 1n, quantity: 5 })).toMatchObject({ outcome: 'done' });
  });

  it.each([
    ['of another table, written by a trigger', 'aside'],
    ['of the stock', 'inventory_item'],
  ])('a value that a unique rule %s refuses fails alone', async (_, table) => {
    await service.stock([1, 1], [2, 2], [3, 3]);
    await service.sql(`CREATE TABLE aside (quantity int);
      CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS
        'BEGIN INSERT INTO aside VALUES (NEW.quantity); RETURN NEW; END';
      CREATE TRIGGER note BEFORE UPDATE ON inventory_item FOR EACH ROW EXECUTE FUNCTION note();
      CREATE UNIQUE INDEX own_rule ON ${table} (quantity); INSERT INTO aside VALUES (2)`);
    const undo = 'DROP FUNCTION note CASCADE; DROP INDEX own_rule; DROP TABLE aside';
    onTestFinished(() => service.sql(undo).then(() => undefined));
    const from = performance.now();
    const outcomes = await Promise.all([
      ask({ petId: 1n, quantity: 2 }),
      ask({ petId: 3n, quantity: 13, idempotencyKey: randomUUID() }),
    ]);
    expect(outcomes.map(({ outcome }) => outcome)).toEqual(['validation_failed', 'done']);
    expect(whole(await service.update(1, 2))).toEqual(refused.rule);
    expect(performance.now() - from).toBeLessThan(PATIENCE_MS);
    expect(await stockOf()).toMatchObject([{ quantity: 1 }, { quantity: 2 }, { quantity: 13 }]);
  });

  it.each(KINDS)(
    'a trigger that changes the pet again after a %s update follows it in the history',
    async (_, members) => {
      await service.stock([1, 1]);
      await service.sql(`CREATE FUNCTION cap() RETURNS trigger LANGUAGE plpgsql AS
        'BEGIN UPDATE inventory_item SET quantity = 9 WHERE quantity > 9; RETURN NULL; END';
      CREATE TRIGGER cap AFTER UPDATE ON inventory_item FOR EACH ROW EXECUTE FUNCTION cap()`);
      onTestFinished(() => service.sql('DROP FUNCTION cap CASCADE').then(() => undefined));
      expect(await ask({ petId: 1n, quantity: 10, ...members() })).toMatchObject({ outcome: 'done' });
      const history = `SELECT quantity_before AS before, quantity_after AS after FROM stock_change
      WHERE pet_id = 1 ORDER BY id DESC LIMIT 2`;
      expect(await service.sql(history)).toEqual([
        { before: 10, after: 9 },
        { before: 1, after: 10 },
      ]);
    },
  );

  it('an update is done if a trigger writes only a column of its own', async () => {
    await service.stock([1, 1]);
    await service.sql(`ALTER TABLE inventory_item ADD changed_on date;
      CREATE FUNCTION stamp() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN NEW.changed_on := now(); RETURN NEW; END';
      CREATE TRIGGER stamp BEFORE UPDATE ON inventory_item FOR EACH ROW EXECUTE FUNCTION stamp()`);
    const undo = 'DROP FUNCTION stamp CASCADE; ALTER TABLE inventory_item DROP changed_on';
    onTestFinished(() => service.sql(undo).then(() => undefined));
    for (const [, members] of KINDS) expect(await ask({ petId: 1n, ...members() })).toMatchObject({ outcome: 'done' });
    expect(await service.sql('SELECT changed_on IS NOT NULL AS is_stamped FROM inventory_item')).toEqual([
      { is_stamped: true },
    ]);
  });

  it.runIf(IS_FAST)('one refused value among a hundred updates costs fifteen statements', async () => {
    const pets = Array.from({ length: 100 }, (_, at) => at + 1_000);
    await service.stock(...pets.map((pet) => [pet, 0] as const));
    await service.sql('ALTER TABLE inventory_item ADD CONSTRAINT most CHECK (quantity <= 1000)');
    onTestFinished(() => service.sql('ALTER TABLE inventory_item DROP CONSTRAINT most').then(() => undefined));
    const fresh = updatesOn({ DATABASE_URL: service.databaseUrl });
    const sent = vi.spyOn(StatementConnection.prototype, 'run');
    onTestFinished(() => sent.mockRestore());
    const quantityOf = (pet: number) => (pet === pets[0] ? 1_001 : 1);
    const outcomes = pets.map((pet) => ask({ petId: BigInt(pet), quantity: quantityOf(pet) }, 25_000, fresh));
    expect((await Promise.all(outcomes)).filter(({ outcome }) => outcome === 'done')).toHaveLength(99);
    expect(sent).toHaveBeenCalledTimes(15); // all of them; halves of 100, 50, 25, 13, 7, 4 and 2
  });

  it('an update behind a repetition of another of its pet is recorded as what it changes', async () => {
    await service.stock([74, 10], [75, 0], [76, 0]);
    const repeated = { petId: 74n, quantity: 20, idempotencyKey: randomUUID() };
    for (const update of [repeated, { petId: 74n, quantity: 30 }]) await ask(update);
    await Promise.all(
      [repeated, { petId: 74n, quantity: 40 }, { petId: 75n }, { petId: 76n }].map((each) => ask(each)),
    );
    expect((await historyOf(74)).at(-1)).toMatchObject({ before: 30, after: 40 });
  });

  it('the history has the condition of an update that has a key, and of no other', async () => {
    await service.stock([71, 1], [72, 1]);
    const ifMatch = ['available-1'];
    await Promise.all([ask({ petId: 71n, ifMatch }), ask({ petId: 72n, ifMatch, idempotencyKey: randomUUID() })]);
    const digests = `SELECT if_match_sha256 = sha256('available-1') AS has FROM stock_change
      WHERE pet_id IN (71, 72) AND changed_by = 'key:test' ORDER BY pet_id`;
    expect(await service.sql(digests)).toEqual([{ has: null }, { has: true }]);
  });

  it.runIf(IS_FAST && IS_17)('the transaction of an update may last as long as the service waits for it', async () => {
    await service.stock([73, 0]);
    await service.sql(`CREATE FUNCTION tell_bound() RETURNS trigger LANGUAGE plpgsql AS
        $$BEGIN RAISE 'bound: %', current_setting('transaction_timeout'); END$$;
      CREATE TRIGGER tell_bound BEFORE UPDATE ON inventory_item FOR EACH ROW EXECUTE FUNCTION tell_bound()`);
    onTestFinished(() => service.sql('DROP FUNCTION tell_bound CASCADE').then(() => undefined));
    const byDefault = updatesOn({ DATABASE_URL: service.databaseUrl }); // REQUEST_DEADLINE_MS is 2500
    const update = byDefault.setQuantity({ ...UPDATE, petId: 73n }, performance.now() + PATIENCE_MS);
    await expect(update).rejects.toThrow('bound: 2s');
  });

  it.runIf(IS_FAST)('a statement takes the updates that wait, and 500 at most', async () => {
    const sizes = watchBatches('updates');
    const fresh = updatesOn({ DATABASE_URL: service.databaseUrl });
    for (const count of [20, 1_100])
      await Promise.all(Array.from({ length: count }, (_, at) => ask({ petId: BigInt(at + 100) }, 25_000, fresh)));
    expect(sizes).toEqual([20, 500, 500, 100]);
  });

  it.runIf(IS_FAST)(
    'a statement waits for an update whose key is being checked, until the next sweep at most',
    async () => {
      await service.stock([91, 0], [92, 0]);
      const sizes = watchBatches('updates');
      const fresh = await startService({ databaseUrl: service.databaseUrl });
      vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval'] }); // no sweep, unless the test says so
      onTestFinished(() => void vi.useRealTimers());
      const keysAreLocked = () => fresh.database.session('LOCK TABLE api_key');
      const isChecking = `SELECT FROM pg_stat_activity WHERE datname = current_database()
      AND application_name = 'inventory key check' AND wait_event_type = 'Lock'`;
      const together = async (letGo: (holder: Client) => Promise<unknown>) => {
        const holder = await keysAreLocked();
        const first = fresh.update(91, 1);
        await expect.poll(() => service.sql(isChecking)).toHaveLength(1);
        const second = ask({ petId: 92n }, 25_000, fresh.app.get(InventoryService));
        await letGo(holder);
        expect(await second).toMatchObject({ outcome: 'done' });
        await holder.query('COMMIT');
        expect(await first).toMatchObject({ status: 200 });
      };
      await together((holder) => holder.query('COMMIT'));
      expect(sizes).toEqual([2]);
      await together(async () => {
        for (let turn = 0; turn < 5; turn++) await new Promise(setImmediate);
        expect(sizes).toEqual([2]);
        vi.advanceTimersByTime(50);
      });
      expect(sizes).toEqual([2, 1, 1]);
    },
  );

  it.runIf(IS_FAST)('an update that finds MAX_WAITING_REQUESTS others is refused', async () => {
    await service.stock([1, 1], [2, 2]);
    const crowded = updatesOn({ DATABASE_URL: service.databaseUrl, MAX_WAITING_REQUESTS: '1' });
    const outcomes = await Promise.all([1n, 2n].map((petId) => ask({ petId }, PATIENCE_MS, crowded)));
    expect(outcomes).toMatchObject([{ outcome: 'done' }, { outcome: 'service_unavailable' }]);
  });

  it.runIf(IS_FAST)('an update is done while sessions of many other processes are idle', async () => {
    await service.stock([1, 1]);
    const longIdle = `SELECT FROM pg_stat_activity WHERE application_name = 'inventory updates' AND state = 'idle'
      AND datname = current_database() AND query_start < clock_timestamp() - interval '2 s'`; // as long as a commit may take
    await expect.poll(async () => (await service.sql(longIdle)).length).toBeGreaterThanOrEqual(IDLE_SESSIONS);
    const late = updatesOn({ DATABASE_URL: service.databaseUrl });
    expect(await ask({ petId: 1n }, PATIENCE_MS, late)).toMatchObject({ outcome: 'done' });
  });

  it.each([
    ['is cut at its beginning', 1_000, (socket: Socket) => void socket.once('data', () => socket.resetAndDestroy())],
    ['has not begun at its deadline', 800, () => undefined], // a session may take 1,000 ms, and sending needs 600
  ])('an update whose session %s is reported as not applied', async (_, patienceMs, answer) => {
    const server = createServer(answer);
    onTestFinished(() => void server.close());
    await once(server.listen(0, '127.0.0.1'), 'listening');
    const url = `postgresql://me:it@127.0.0.1:${(server.address() as AddressInfo).port}/db`;
    expect(await ask({ petId: 1n }, patienceMs, updatesOn({ DATABASE_URL: url }))).toEqual({
      outcome: 'service_unavailable',
    });
  });

  it.runIf(IS_FAST)('an update that PostgreSQL reads after its deadline is not executed', async () => {
    await service.stock([45, 0]);
    const network = new TcpProxy(service.databaseUrl);
    const delayed = updatesOn({ DATABASE_URL: await network.listen() });
    expect(await ask({ petId: 45n, quantity: 1 }, PATIENCE_MS, delayed)).toMatchObject({ outcome: 'done' });
    network.silence();
    expect(await ask({ petId: 45n, quantity: 2 }, 1_500, delayed)).toEqual({ outcome: 'outcome_unknown' });
    network.speak();
    expect(await ask({ petId: 45n, quantity: 3 }, PATIENCE_MS, delayed)).toMatchObject({ outcome: 'done' });
    expect(await historyOf(45)).toMatchObject([{ after: 1 }, { after: 3 }]);
  });

  // PostgreSQL 15 and 16 wait until the kernel has found out that nobody is there, some 25 s.
  it.skipIf(!IS_17)(
    'an update whose last message PostgreSQL does not get locks its pet no longer than the service waits',
    async () => {
      await service.stock([43, 0]);
      const network = new TcpProxy(service.databaseUrl);
      const cutOff = updatesOn({ DATABASE_URL: await network.listen(), REQUEST_DEADLINE_MS: '1000' });
      expect(await ask({ petId: 43n, quantity: 1 }, PATIENCE_MS, cutOff)).toMatchObject({ outcome: 'done' });
      network.withholdCommits();
      expect(await ask({ petId: 43n, quantity: 2 }, PATIENCE_MS, cutOff)).toEqual({
        outcome: IS_FAST ? 'outcome_unknown' : 'service_unavailable', // the plain service has not sent its COMMIT
      });
      expect(await ask({ petId: 43n, quantity: 3 })).toMatchObject({ outcome: 'done' });
      expect(await historyOf(43)).toMatchObject([{ after: 1 }, { after: 3 }]);
    },
  );

  it.runIf(!IS_FAST)("an update may take longer than Prisma's own bound of a transaction, which is 5 s", async () => {
    await service.stock([44, 0]);
    await service.sql(`
      CREATE FUNCTION pause() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN PERFORM pg_sleep(5.1); RETURN NEW; END';
      CREATE TRIGGER slow BEFORE UPDATE ON inventory_item FOR EACH ROW WHEN (NEW.pet_id = 44) EXECUTE FUNCTION pause()`);
    const patient = updatesOn({ DATABASE_URL: service.databaseUrl, REQUEST_DEADLINE_MS: '9000' });
    expect(await ask({ petId: 44n, quantity: 1 }, 9_000, patient)).toMatchObject({ outcome: 'done' });
  });

  it.runIf(!IS_FAST)('an update whose session ends before its commit is not applied, and tells why', async () => {
    await service.stock([46, 0]);
    await service.sql(`
      CREATE FUNCTION leave() RETURNS trigger LANGUAGE plpgsql AS
        'BEGIN PERFORM pg_terminate_backend(pg_backend_pid()); RETURN NEW; END';
      CREATE TRIGGER last BEFORE UPDATE ON inventory_item FOR EACH ROW WHEN (NEW.pet_id = 46) EXECUTE FUNCTION leave()`);
    onTestFinished(() => service.sql('DROP FUNCTION leave CASCADE').then(() => undefined));
    const update = updates.setQuantity({ ...UPDATE, petId: 46n }, performance.now() + 2_500);
    const failure = await update.catch((error: unknown) => error);
    expect(failure).toBeInstanceOf(NotApplied);
    expect(describeFailure(failure)).toMatch(/^terminating connection due to administrator command/);
    expect(await historyOf(46)).toEqual([]);
  });

  it.each([3_600_000, -3_600_000])(
    'an update succeeds after the clock of the database was set %i ms ahead',
    async (byMs) => {
      await service.stock([42, 0]);
      const early = updatesOn({ DATABASE_URL: service.databaseUrl });
      const now = performance.now.bind(performance);
      const clock = vi.spyOn(performance, 'now').mockImplementation(() => now() + byMs);
      onTestFinished(() => clock.mockRestore());
      expect(await ask({ petId: 42n, quantity: 1 }, PATIENCE_MS, early)).toMatchObject({ outcome: 'done' });
      clock.mockRestore(); // from here on the database's clock differs by that from what it was
      expect(await ask({ petId: 42n, quantity: 2 }, PATIENCE_MS, early)).toMatchObject({ outcome: 'done' });
    },
  );

  it.runIf(IS_FAST)('updates fail with their batch when its connection dies, and the next ones are done', async () => {
    await service.stock([1, 1], [2, 2]);
    const holder = await service.database.session('LOCK TABLE stock_change'); // stops the statement itself, not one row of it
    const doomed = Promise.all([ask({ petId: 1n, quantity: 100 }), ask({ petId: 2n, quantity: 100 })]);
    const cut = `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
      WHERE application_name = 'inventory updates' AND wait_event_type = 'Lock' AND datname = current_database()`;
    await expect.poll(() => service.sql(cut)).toHaveLength(1);
    await holder.end();
    const outcomes = await doomed;
    const applied = outcomes.filter(({ outcome }) => outcome === 'done').length;
    expect(applied).toBeLessThan(2);
    for (const { outcome } of outcomes) expect(outcome).toMatch(/^(done|outcome_unknown)$/);
    expect((await stockOf()).filter(({ quantity }) => quantity === 100)).toHaveLength(applied); // none was repeated
    expect(await ask({ petId: 1n, quantity: 7 })).toMatchObject({ outcome: 'done' });
  });
});

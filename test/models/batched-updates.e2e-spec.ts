import type { Client } from 'pg';
import { beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import { TcpProxy } from '../support/tcp-proxy.ts';
import type { Inventory } from '../../src/inventory/inventory.ts';
import { type Database, createDatabase } from '../support/database.ts';
import { startService } from '../support/service.ts';
import { setQuantity } from '../support/updates.ts';
import { MISTAKES, type Mistake, type State, updateOf, violation } from './batched-updates.ts';
import { nth } from './explorer.ts';

/**
 * Every statement of a process comes to two gates: with its snapshot before it locks, and before its commit. There it
 * takes a number, and waits until the test unlocks that. The update statement calls `statement_timestamp` before it
 * locks.
 */
const GATES = `
  CREATE SEQUENCE numbers;
  CREATE FUNCTION wait_at(gate text) RETURNS void LANGUAGE plpgsql SET lock_timeout = 0 AS $$ DECLARE
    setting CONSTANT text := 'test.passed_' || gate;
  BEGIN
    IF current_setting(setting, true) IS DISTINCT FROM pg_current_xact_id()::text THEN
      PERFORM set_config(setting, pg_current_xact_id()::text, true);
      PERFORM pg_advisory_xact_lock_shared((current_setting('test.process') || gate)::integer, nextval('numbers')::integer);
    END IF;
  END $$;
  CREATE FUNCTION wait_before_commit() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM wait_at('2'); RETURN NULL; END $$;
  CREATE CONSTRAINT TRIGGER last_gate AFTER INSERT ON stock_change DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW WHEN (NEW.request_id IS NOT NULL) EXECUTE FUNCTION wait_before_commit();
  SET allow_system_table_mods = on;
  ALTER FUNCTION pg_catalog.statement_timestamp RENAME TO own_statement_timestamp;
  CREATE FUNCTION pg_catalog.statement_timestamp() RETURNS timestamptz STABLE LANGUAGE sql
    AS $$ SELECT CASE WHEN current_setting('test.process', true) <> '' THEN public.wait_at('1') END; SELECT own_statement_timestamp() $$`;

/** What the service answers. */
const ANSWERS: Record<Mistake, State['answers']> = {
  'a batch is repeated after an unknown outcome': { 1: 'outcome_unknown' },
  'a lost connection counts as not applied': { 1: 'outcome_unknown' },
  'an update is answered before its commit': { 1: 'done' },
  'each update of a chain finds what is in the table': { 1: 'done', 2: 'done' },
  'a condition is compared with the snapshot': { 1: 'done', 2: 'done' },
  'an update with a condition shares its batch with another one of its pet': { 1: 'done', 2: 'precondition_failed' },
  'an update with a key shares its batch with another one of its pet': { 1: 'done', 2: 'key_reused', 3: 'done' },
  'a key is known whatever its update says': { 1: 'done', 2: 'key_reused' },
  'a key is looked up only before the lock': { 1: 'done', 2: 'key_reused' },
  'a pet is written although its history row is not': { 1: 'done', 2: 'key_reused' },
  'a 412 with a key is sent after one statement': { 1: 'done', 2: 'replayed' },
  'a key that is taken after a 412 is not looked up': { 1: 'replayed', 2: 'done', 3: 'done' },
};

let database: Database;
let gatekeeper: Client;
let processes: Process[];

interface Process {
  readonly proxy: TcpProxy;
  readonly inventory: Inventory;
}

beforeAll(async () => {
  database = await createDatabase();
  await database.sql(GATES);
  gatekeeper = await database.session();
  processes = await Promise.all(
    [1, 2].map(async (process) => {
      const proxy = new TcpProxy(database.url);
      const url = new URL(await proxy.listen());
      url.searchParams.set('options', `-c test.process=${process}`);
      const { inventory } = await startService({ databaseUrl: database.url, settings: { DATABASE_URL: url.href } });
      return { proxy, inventory };
    }),
  );
});

const OWN_GATE = `locktype = 'advisory' AND classid = $1
  AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`;

/** Who waits at the gate of a process before the locks (1) or before the commit (2), and for which number. */
async function waitingAt(process: number, gate: 1 | 2): Promise<{ session: number; number: number }[]> {
  const { rows } = await gatekeeper.query<{ session: number; number: number }>(
    `SELECT pid AS session, objid::integer AS number FROM pg_locks WHERE NOT granted AND ${OWN_GATE}`,
    [`${process}${gate}`],
  );
  return rows;
}

async function open(process: number, gate: 1 | 2, number: number): Promise<void> {
  await gatekeeper.query('SELECT pg_advisory_unlock($1, $2)', [`${process}${gate}`, number]);
}

async function hasEnded(process: number, number: number): Promise<boolean> {
  const held = await gatekeeper.query(`SELECT FROM pg_locks WHERE objid = $2 AND ${OWN_GATE}`, [`${process}2`, number]);
  return held.rowCount === 0;
}

describe('the service gives the right answers in the order that does harm when', () => {
  it.each(Object.entries(MISTAKES))('%s', async (mistake, { workload, order }) => {
    await database.sql(`DELETE FROM inventory_item; INSERT INTO inventory_item VALUES (1, 0, 'sold'), (2, 0, 'sold')`);
    const [{ last } = {}] = await database.sql('SELECT max(id) AS last FROM stock_change');
    await gatekeeper.query(
      `SELECT pg_advisory_lock(gate, (last_value + n)::integer)
         FROM numbers, generate_series(0, 20) AS n, unnest('{11,12,21,22}'::integer[]) AS gate`,
    );

    const openAll = () => gatekeeper.query('SELECT pg_advisory_unlock_all()');
    onTestFinished(() => openAll().then(() => undefined));

    const answers: State['answers'] = {};
    const sent = new Map<number, Promise<void>>();
    async function send(n: number, process: Process): Promise<void> {
      const { pet, quantity, ifMatch, key } = updateOf(workload, n);
      const { outcome } = await setQuantity(process, {
        ...{ petId: BigInt(pet), quantity, ifMatch: ifMatch?.map((each) => `sold-${each}`) ?? null },
        ...{ idempotencyKey: key && `${key}-${String(last)}`, requestId: String(n) },
      });
      answers[n] = (outcome === 'idempotency_key_reused' ? 'key_reused' : outcome) as State['answers'][number];
    }
    const areAnswered = () => [...sent.keys()].every((n) => answers[n]);
    const expectSoon = (isTrue: () => boolean | Promise<boolean>) => expect.poll(isTrue, { interval: 5 }).toBe(true);

    /** The session of the lost statement, and its process. */
    let lost = { session: 0, process: 0 };
    const numberAt = async (process: number, gate: 1 | 2, isLost = false) =>
      (await waitingAt(process, gate)).find(({ session }) => (session === lost.session) === isLost)?.number;
    const isAt = async (process: number, gate: 1 | 2) => (await numberAt(process, gate)) !== undefined;

    type Act = (process: number, numbers: readonly number[], isLost: boolean) => Promise<unknown>;
    const acts: Readonly<Record<string, Act>> = {
      '#run': (process, numbers) => {
        for (const n of numbers) if (!sent.has(n)) sent.set(n, send(n, nth(processes, process - 1)));
        return expectSoon(async () => areAnswered() || (await isAt(process, 1)));
      },
      'locks and writes': async (process, _, isLost) => {
        const number = await numberAt(process, 1, isLost);
        if (number === undefined) return expectSoon(areAnswered);
        await open(process, 1, number);
        if (isLost) return expectSoon(async () => (await numberAt(process, 2, isLost)) !== undefined);
        // It waits for its commit; or it has nothing to commit, and the update is answered or goes into another
        // statement.
        return expectSoon(async () => areAnswered() || (await isAt(process, 1)) || (await isAt(process, 2)));
      },
      commits: async (process, _, isLost) => {
        const number = await numberAt(process, 2, isLost);
        if (number === undefined) return;
        await open(process, 2, number);
        await expectSoon(() => hasEnded(process, number));
      },
      'loses its connection': async (process) => {
        lost = { session: nth(await waitingAt(process, 1), 0).session, process };
        nth(processes, process - 1).proxy.cut();
        await expectSoon(async () => areAnswered() || (await isAt(process, 1)));
      },
      SQL: async (_, [n = 0]) => {
        const { pet, quantity } = updateOf(workload, n);
        await database.sql(`UPDATE inventory_item SET quantity = ${quantity} WHERE pet_id = ${pet}`);
        answers[n] = 'done';
      },
    };
    for (const step of order) {
      const [, process, act = '', numbers = ''] =
        /^(?:process (\d): |lost statement: )?(.+?):?((?: \d,?)*)$/.exec(step) ?? [];
      if (!acts[act]) throw new Error(`nobody can play ${act}`);
      await acts[act](Number(process ?? lost.process), numbers.match(/\d/g)?.map(Number) ?? [], process === undefined);
    }
    await expectNoHarm();
    await openAll();
    await Promise.all(sent.values());
    await expectNoHarm();
    expect(answers).toEqual(ANSWERS[mistake as Mistake]);

    async function expectNoHarm(): Promise<void> {
      const [present] = await database.sql<Pick<State, 'stock' | 'history'>>(
        `SELECT (SELECT json_object_agg(pet_id, quantity) FROM inventory_item) AS stock,
                (SELECT coalesce(json_agg(json_build_object('n', coalesce(request_id, '3')::int, 'pet', pet_id, 'before', quantity_before,
                                          'after', quantity_after, 'key', left(idempotency_key, 1)) ORDER BY id), '[]')
                   FROM stock_change WHERE id > $1) AS history`,
        [last],
      );
      if (!present) throw new Error('there is no stock');
      expect(violation({ workload, ...present, answers, refusable: [1, 2, 3] })).toBeUndefined();
    }
  });
});

import { setTimeout as sleep } from 'node:timers/promises';
import { beforeAll, beforeEach, describe, expect, it, onTestFinished } from 'vitest';
import { asApiError } from '../src/http/error.filter.ts';
import { InventoryService } from '../src/inventory/inventory.service.ts';
import { TcpProxy } from '../faults/tcp-proxy.ts';
import { refused, replayed, updated, whole } from './support/answers.ts';
import { startFaultyPostgres } from './support/postgres-server.ts';
import { IS_FAST, type TestService, startService } from './support/service.ts';

let service: TestService;
/** Another process's worth on the same database, behind a network that can fail. Both kinds of service share their keys. */
let other: TestService;
let proxy: TcpProxy;
/** The author that the history names for the service's key. */
let author: string;

beforeAll(async () => {
  service = await startService();
  proxy = new TcpProxy(service.databaseUrl);
  other = await startService({ databaseUrl: await proxy.listen(), key: service.key, settings: { FAST: 'on' } });
  const [{ id } = {}] = await service.sql<{ id?: string }>(`SELECT id FROM api_key WHERE name = 'bootstrap'`);
  author = `key:${id}`;
});
beforeEach(async () => {
  await service.sql('DELETE FROM inventory_item');
  await service.stock([1, 10], [2, 20, 'sold']);
});

interface Update {
  readonly petId?: number;
  readonly quantity?: number;
  /** Each in a line of its own. */
  readonly keys?: readonly string[];
  readonly ifMatch?: string;
  readonly to?: TestService;
}

let made = 0;
const newKey = () => `key-${++made}`;

async function update({ petId = 1, quantity = 11, keys = [], ifMatch, to = service }: Update) {
  const condition = ifMatch === undefined ? [] : [['If-Match', ifMatch] as const];
  const headers = [...condition, ...keys.map((key) => ['Idempotency-Key', key] as const)];
  return whole(await to.update(petId, quantity, headers));
}

/** Past HTTP: updates of one turn of the event loop share a statement. Gives the outcome, or the code of the refusal. */
function apply(petId: bigint, idempotencyKey: string | null, by = service, quantity = 11): Promise<string> {
  const origin = { changedBy: author, requestId: 'request', reason: null };
  const update = { petId, quantity, ifMatch: null, idempotencyKey, ...origin };
  return by.app
    .get(InventoryService)
    .setQuantity(update, performance.now() + 10_000)
    .then(
      ({ outcome }) => outcome,
      (error: unknown) => asApiError(error).code,
    );
}

/** What the updates through the service did to a pet, in order. */
async function changesOf(petId: number): Promise<unknown[]> {
  const rows = await service.sql(
    `SELECT quantity_after FROM stock_change WHERE pet_id = $1 AND changed_by LIKE 'key:%'
        AND id > (SELECT max(id) FROM stock_change WHERE pet_id = $1 AND quantity_before IS NULL) ORDER BY id`,
    [petId],
  );
  return rows.map(({ quantity_after }) => quantity_after);
}
const quantityOf = async (petId: number) =>
  (await service.sql('SELECT quantity FROM inventory_item WHERE pet_id = $1', [petId]))[0]?.['quantity'];

describe('PATCH /v1/inventory/:petId with an Idempotency-Key', () => {
  it('changes the stock once, and answers a repetition as it answered the first request', async () => {
    const keys = [newKey()];
    expect(await update({ petId: 2, keys })).toEqual(updated('2', 11, 'sold'));
    expect(await update({ petId: 2, keys })).toEqual(replayed('2', 11, 'sold'));
    expect(await update({ petId: 2, keys, to: other })).toEqual(replayed('2', 11, 'sold'));
    expect(await changesOf(2)).toEqual([11]);
    const first = { petId: 2, quantity: 12, keys: [newKey()], ifMatch: String.raw`"\a", "sold-11"` };
    expect(await update(first)).toEqual(updated('2', 12, 'sold'));
    for (const to of [service, other]) expect(await update({ ...first, to })).toEqual(replayed('2', 12, 'sold'));
  });

  it('answers a repetition as before when the pet was changed, locked or deleted since', async () => {
    const keys = [newKey()];
    await update({ keys });
    await service.sql(`UPDATE inventory_item SET quantity = 50, status = 'pending' WHERE pet_id = 1`);
    expect(await update({ keys })).toEqual(replayed('1', 11));
    expect(await quantityOf(1)).toBe(50);
    const unlock = await service.database.lockRow(1);
    expect(await update({ keys })).toEqual(replayed('1', 11));
    await unlock();
    await service.sql('DELETE FROM inventory_item WHERE pet_id = 1');
    expect(await update({ keys })).toEqual(replayed('1', 11));
    expect(await quantityOf(1)).toBeUndefined();
  });

  it.each<[string, Update]>([
    ['pet', { petId: 2 }],
    ['pet that is not there', { petId: 99 }],
    ['quantity', { quantity: 12 }],
    ['If-Match', { ifMatch: '"available-10", "available-11"' }],
    ['condition (If-Match: *)', { ifMatch: '*' }],
  ])('returns 409 when the key belongs to an update with another %s', async (_, different) => {
    const first: Update = { keys: [newKey()], ifMatch: '"available-10"' };
    await update(first);
    expect(await update({ ...first, ...different })).toEqual(refused.reusedKey);
    expect(await update({ ...first, ...different, to: other })).toEqual(refused.reusedKey);
    expect([await changesOf(1), await changesOf(2)]).toEqual([[11], []]);
    expect([await quantityOf(1), await quantityOf(2)]).toEqual([11, 20]);
  });

  it('lets two API keys use the same Idempotency-Key', async () => {
    const keys = [newKey()];
    const stranger = await startService({ databaseUrl: service.databaseUrl });
    expect(await update({ keys })).toEqual(updated('1', 11));
    expect(await update({ keys, petId: 2, to: stranger })).toEqual(updated('2', 11, 'sold'));
    expect(await update({ keys, petId: 2, to: stranger })).toEqual(replayed('2', 11, 'sold'));
  });

  it('leaves its key unused when it is refused', async () => {
    const keys = [newKey()];
    expect(await update({ keys, petId: 99 })).toEqual(refused.noPet);
    expect(await update({ keys, ifMatch: '"available-9"' })).toEqual(refused.precondition('"available-10"'));
    expect(await update({ keys, quantity: -1 })).toEqual(refused.quantity);
    expect(await update({ keys })).toEqual(updated('1', 11));
  });

  it.runIf(IS_FAST)(
    'fails alone when its key is refused: updates of the same pet in the same batch succeed',
    async () => {
      const [used, fresh] = [newKey(), newKey()];
      await apply(1n, used);
      const outcomes = await Promise.all([
        apply(1n, used, service, 4),
        apply(2n, null, service, 1),
        apply(2n, fresh, service, 2),
        apply(2n, null, service, 3),
        apply(2n, used, service, 4),
      ]);
      expect(outcomes).toEqual(['idempotency_key_reused', 'done', 'done', 'done', 'idempotency_key_reused']);
      expect(await changesOf(2)).toEqual([1, 2, 3]);
      expect(await quantityOf(2)).toBe(3);
    },
  );
});

describe.each([
  ['in one process', () => service],
  ['in two processes', () => other],
])('two PATCH /v1/inventory/:petId with the same Idempotency-Key at the same time, %s', (_, second) => {
  const ROUNDS = 20;

  it('change the stock once and both return 200', async () => {
    for (let round = 0; round < ROUNDS; round++) {
      const keys = [newKey()];
      const quantity = 100 + round;
      const answers = await Promise.all([update({ keys, quantity }), update({ keys, quantity, to: second() })]);
      expect(answers).toContainEqual(updated('1', quantity));
      expect(answers).toContainEqual(replayed('1', quantity));
    }
    expect(await changesOf(1)).toEqual(Array.from({ length: ROUNDS }, (_, round) => 100 + round));
  });

  it('both return 200 when they have an If-Match too', async () => {
    for (let round = 0; round < ROUNDS; round++) {
      const repeated = { keys: [newKey()], quantity: 11 + round, ifMatch: `"sold-0", "available-${10 + round}"` };
      const answers = await Promise.all([update(repeated), update({ ...repeated, to: second() })]);
      expect(answers.map(({ status }) => status)).toEqual([200, 200]);
    }
  });

  it('return 200 and 409 when they update different pets', async () => {
    for (let round = 0; round < ROUNDS; round++) {
      const keys = [newKey()];
      const sent = [update({ keys }), update({ keys, petId: 2, to: second() }), update({ petId: 2 })];
      const [one, another, unkeyed] = await Promise.all(sent);
      expect([one?.status, another?.status].toSorted()).toEqual([200, 409]);
      expect(unkeyed).toEqual(updated('2', 11, 'sold'));
    }
    const keyed = await service.sql(`SELECT FROM stock_change WHERE idempotency_key = ANY ($1)`, [
      Array.from({ length: ROUNDS }, (_, round) => `key-${made - round}`),
    ]);
    expect(keyed).toHaveLength(ROUNDS);
  });
});

describe('PATCH /v1/inventory/:petId of many pets with the same Idempotency-Keys at the same time', () => {
  it('causes no deadlock between two processes that update in opposite order', async () => {
    const deadlocks = 'SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()';
    const before = await service.database.sql(deadlocks);
    const pets = Array.from({ length: 100 }, (_, at) => at + 1);
    await service.stock(...pets.map((pet) => [pet, 0] as const));
    for (let round = 0; round < (IS_FAST ? 60 : 5); round++) {
      const name = newKey();
      const outcomes = await Promise.all([
        ...pets.slice(0, 50).map((pet) => apply(BigInt(pet), `${name}-${pet}`)),
        ...pets.slice(50).map((pet) => apply(BigInt(pet), `${name}-${101 - pet}`, other)),
      ]);
      expect(outcomes.filter((outcome) => outcome === 'done')).toHaveLength(50);
      expect(outcomes.filter((outcome) => outcome === 'idempotency_key_reused')).toHaveLength(50);
    }
    await sleep(1_100); // sessions tell their statistics once a second
    expect(await service.database.sql(deadlocks)).toEqual(before); // each update is repeated after a deadlock
  });
});

describe('a repetition of PATCH /v1/inventory/:petId while the first request is under way', () => {
  const record = (petId: number, key: string, tag?: string) =>
    `UPDATE inventory_item SET quantity = 11 WHERE pet_id = ${petId};
     INSERT INTO stock_change (pet_id, quantity_before, quantity_after, status_before, status_after, changed_by, idempotency_key, if_match_sha256)
     VALUES (${petId}, 10, 11, 'available', 'available', '${author}', '${key}', ${tag ? `sha256('${tag}')` : 'NULL'})`;

  it('waits for the first request, and gets the same answer', async () => {
    const key = newKey();
    const first = await service.database.session(
      `SELECT set_config('inventory.recorded_in', pg_current_xact_id()::text, true); ${record(1, key)}`,
    );
    const repetition = update({ keys: [key] });
    expect(await update({ petId: 2 })).toEqual(updated('2', 11, 'sold'));
    await first.query('COMMIT');
    expect(await repetition).toEqual(replayed('1', 11));
    expect(await quantityOf(1)).toBe(11);
  });

  it.each([
    ['deleted', undefined, 'DELETE FROM inventory_item'],
    ['changed', 'available-10', 'UPDATE inventory_item SET quantity = 12'],
  ])('gets the same answer when the pet was %s meanwhile', async (_, tag, change) => {
    const key = newKey();
    const first = await service.database.session(`LOCK TABLE inventory_item; ${record(1, key, tag)}`);
    const repetition = update({ keys: [key], ...(tag && { ifMatch: `"${tag}"` }) });
    const waiting = `SELECT FROM pg_stat_activity WHERE datname = current_database() AND wait_event = 'relation'`;
    await expect.poll(() => service.sql(waiting), { interval: 10 }).toHaveLength(1);
    await first.query(`${change}; COMMIT`);
    expect(await repetition).toEqual(replayed('1', 11));
  });

  it('changes the stock when the first request is rolled back', async () => {
    const key = newKey();
    const first = await service.database.session(record(1, key));
    const repetition = update({ keys: [key] });
    await first.query('ROLLBACK');
    expect(await repetition).toEqual(updated('1', 11));
  });

  it.runIf(IS_FAST)('returns 409 for another update whose key was committed after the statement began', async () => {
    const [blocked, key] = ['a-blocked', newKey()];
    const blocker = await service.database.session(record(99, blocked));
    // Both go in one statement, which has its snapshot, holds pet 1 and waits for the blocker before it comes to `key`.
    const [waiting, late] = [apply(2n, blocked), apply(1n, key)];
    await sleep(100);
    const first = await service.database.session(record(98, key));
    await first.query('COMMIT');
    await blocker.query('ROLLBACK');
    expect(await waiting).toBe('done');
    expect(await late).toBe('idempotency_key_reused');
    expect(await quantityOf(1)).toBe(10);
  });

  // The proxy finds the end of a commit in what passes, and TLS hides that.
  it.skipIf(process.env['TEST_DATABASE_TLS'])(
    'returns the first answer when the connection was cut after the commit',
    async () => {
      const keys = [newKey()];
      await update({ petId: 2, to: other }); // opens the connection
      proxy.cutBeforeAnswer(1);
      const first = await update({ keys, to: other });
      expect(JSON.parse(first.body)).toMatchObject({ code: 'outcome_unknown' });
      expect(await update({ keys, to: other })).toEqual(replayed('1', 11));
      expect(await changesOf(1)).toEqual([11]);
    },
  );

  it('changes the stock once when a frozen network delayed the first request', async () => {
    const keys = [newKey()];
    await update({ petId: 2, to: other });
    proxy.silence();
    onTestFinished(() => proxy.speak());
    const first = update({ keys, to: other });
    expect(await update({ keys })).toEqual(updated('1', 11));
    proxy.speak();
    expect(await first).toEqual(replayed('1', 11));
    expect(await changesOf(1)).toEqual([11]);
  });
});

describe('a repetition of PATCH /v1/inventory/:petId on a synchronous standby', () => {
  it('gets no answer before the standby has confirmed the first request', { timeout: 40_000 }, async () => {
    const postgres = await startFaultyPostgres();
    const replicated = await startService({ databaseUrl: postgres.url });
    const one: Update = { keys: [newKey()], to: replicated };
    await replicated.stock([1, 10]);
    await update(one);
    await postgres.database.lockRow(1);
    await postgres.database.setSystem(`SET synchronous_standby_names = 'nobody'`);
    const commit = () => postgres.database.sql(`SELECT pg_logical_emit_message(true, '', '')`);
    await expect.poll(() => Promise.race([commit(), sleep(1_000, 'waits')])).toBe('waits'); // as soon as the checkpointer knows
    const repetition = update(one);
    const early = await Promise.race([repetition, sleep(300, 'nothing')]);
    await postgres.database.setSystem('RESET synchronous_standby_names');
    expect(early).toBe('nothing');
    expect(await repetition).toEqual(replayed('1', 11));
  });
});

describe('PATCH /v1/inventory/:petId, the form of Idempotency-Key', () => {
  const TAKEN = ['a', 'psk_order-7', '_-09azAZ', 'x'.repeat(64), '5f0c7a52-9f6e-4a8e-8d4b', '"quoted"', ' "spaces" '];
  const REFUSED = ['', '""', '"a', 'a"', '""a""', "'a'", '"a";b', 'x'.repeat(65), 'a b', 'a.b', 'a,b', '\xe4'];
  const LIKE_AN_API_KEY = `psk_${'0'.repeat(46)}`;

  it.each(TAKEN)('is accepted: %s', async (key) => {
    expect(await update({ keys: [key] })).toEqual(updated('1', 11));
    expect(await update({ keys: [key.replaceAll(/[" ]/g, '')] })).toEqual(replayed('1', 11));
  });

  it.each([...REFUSED.map((key) => [key]), [LIKE_AN_API_KEY], ['a', 'a'], ['a', 'b']])(
    '%j is refused',
    async (...keys) => {
      expect(await update({ keys })).toEqual(refused.idempotencyKey);
      expect(await quantityOf(1)).toBe(10);
    },
  );
});

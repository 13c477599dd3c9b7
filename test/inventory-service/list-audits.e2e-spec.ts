import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { setTimeout as pause } from 'node:timers/promises';
import { Client } from 'pg';
import { beforeAll, beforeEach, describe, expect, it, onTestFinished, vi } from 'vitest';
import { PrismaService } from '../../src/prisma.service.ts';
import type { AuditEnd } from '../../src/inventory/list/list-audits.ts';
import { Log } from '../../src/operations/log.ts';
import { IMPORT_CSV, inventory } from '../commands/inventory-command.ts';
import { PETS, expectExact, refill } from '../support/exact-lists.ts';
import { type FaultyPostgres, startFaultyPostgres } from '../support/postgres-server.ts';
import { createDatabase } from '../support/database.ts';
import { ask } from '../support/http-client.ts';
import { type TestService, startService } from '../support/service.ts';
import { CSV_HEADER, itemText } from '../support/stock.ts';
import { atTestEnd } from '../support/test-end.ts';
import { type NamedService, startEveryService } from './services.ts';

const NEVER_MS = Infinity;
/** Of each service, beside changes of all kinds: `AUDITS=200 npx vitest run test/inventory-service/list-audits`. */
const AUDITS = Number(process.env['AUDITS'] ?? 2);

let postgres: FaultyPostgres;
let services: NamedService[];
let fastOnes: NamedService[];
/** Past the services, as a superuser. */
let owner: Client;

beforeAll(async () => {
  postgres = await startFaultyPostgres();
  await postgres.database.setSystem('SET autovacuum = off');
  services = await startEveryService({ databaseUrl: postgres.url, settings: { REQUEST_DEADLINE_MS: '2500' } });
  fastOnes = services.filter(({ name }) => name.includes('fast'));
  for (const service of services) pace(service, NEVER_MS);
}, 120_000);

beforeEach(async () => {
  owner = await postgres.database.session();
  await refill(owner);
  await expectExact(owner, services);
});

const sql = (statement: string) => owner.query<Record<string, unknown>>(statement);

function pace({ audits }: TestService, ms: number): void {
  audits.everyMs = audits.firstMs = ms;
}

/** Lets the next list find that an audit is due. */
async function audit(service: TestService): Promise<AuditEnd> {
  const ended = once(service.audits, 'end');
  pace(service, 0);
  const { status } = await service.list();
  pace(service, NEVER_MS);
  expect(status).toBe(200);
  return ((await ended) as [AuditEnd])[0];
}

/** What an audit of each of the services results in, one after the other. */
async function resultsOf(audited: readonly NamedService[]): Promise<string[]> {
  const results: string[] = [];
  for (const each of audited) results.push((await audit(each)).result);
  return results;
}

/** Calls `act` before an audit sends a statement that begins like this, some time after its snapshot. */
function beforeStatement(start: string, act: () => Promise<unknown>, nth = 1): void {
  const send = Object.getOwnPropertyDescriptor(Client.prototype, 'query')?.value as typeof Reflect.apply;
  let left = nth;
  const spy = vi.spyOn(Client.prototype, 'query').mockImplementation(function (this: Client, ...args: unknown[]) {
    const sent = () => Reflect.apply(send, this, args) as never;
    const [text] = args;
    if (typeof text !== 'string' || !text.trimStart().startsWith(start) || --left > 0) return sent();
    spy.mockRestore();
    return act().then(sent) as never;
  });
  onTestFinished(() => spy.mockRestore());
}

/** Changes the stock of a pet, and hides that from the history. */
const pretend = (quantity: number) =>
  sql(`BEGIN; SELECT set_config('inventory.recorded_in', pg_current_xact_id()::text, true);
    UPDATE inventory_item SET quantity = ${quantity} WHERE pet_id = 5; COMMIT`);

describe('the first audit of a kept list', () => {
  /** Each makes the kept list have 7 of pet 5, which has 8. */
  const CAUSES: Readonly<Record<string, () => Promise<unknown>>> = {
    'a transaction that pretends to write its history': () => pretend(8),
    'a patch that is mistaken': async () => {
      for (const { app } of fastOnes) loseTheNextChange(app.get(PrismaService));
      await sql('UPDATE inventory_item SET quantity = 8 WHERE pet_id = 5');
    },
  };

  /** The next list gets the new snapshot and the witness, but not what has changed. */
  function loseTheNextChange(prisma: PrismaService): void {
    const send = prisma.$queryRawUnsafe.bind(prisma);
    const spy = vi.spyOn(prisma, '$queryRawUnsafe').mockImplementation((async (text: string, ...values: unknown[]) => {
      const rows = await send<{ changes?: unknown }[]>(text, ...values);
      if (!text.includes('recent')) return rows;
      spy.mockRestore();
      return rows.map((row) => ({ ...row, changes: [] }));
    }) as never);
  }

  it.each(Object.entries(CAUSES))('finds %s, and replaces the list', async (_, plant) => {
    await sql('UPDATE inventory_item SET quantity = 7 WHERE pet_id = 5');
    await expectExact(owner, services);
    await plant();
    for (const service of fastOnes) {
      const log = vi.spyOn(service.app.get(Log), 'error');
      onTestFinished(() => log.mockRestore());
      expect((await service.list()).text).toContain('{"petId":5,"quantity":7,');
      const { result, finding = '' } = await audit(service);
      expect(result).toBe('different');
      expect(finding).toMatch(
        /alerts\.md#inventorylistwrong.*; pets: 1, kept → true: \{"petId":5,"quantity":7,.*\} → \{"petId":5,"quantity":8,.*\}$/,
      );
      expect(log).toHaveBeenCalledWith(finding);
    }
    await expectExact(owner, services);
    await sql('UPDATE inventory_item SET quantity = 9 WHERE pet_id IN (5, 1450)');
    await expectExact(owner, services);
    expect(await resultsOf(services)).toEqual(services.map(() => 'equal'));
  });

  it('finds pets that are gone, the last one too', async () => {
    await sql(`BEGIN; SELECT set_config('inventory.recorded_in', pg_current_xact_id()::text, true);
      DELETE FROM inventory_item WHERE pet_id IN (5, (SELECT max(pet_id) FROM inventory_item)); COMMIT`);
    for (const service of fastOnes)
      expect((await audit(service)).finding).toMatch(
        /; pets: 2, kept → true: \{"petId":5,[^}]*\} → nothing, \{[^}]*\} → nothing$/,
      );
    await expectExact(owner, services);
  });
});

/** Adds pets behind the last ones; the index does not get them. */
async function addPastIndex(pets: number): Promise<void> {
  const setReady = (isReady: boolean) =>
    `UPDATE pg_index SET indisready = ${isReady} WHERE indexrelid = 'inventory_item_pkey'::regclass`;
  await sql(setReady(false));
  await sql(`INSERT INTO inventory_item SELECT n, 1, 'sold' FROM generate_series(${PETS + 1}, ${PETS + pets}) n`);
  await sql(setReady(true));
}

it('REINDEX TABLE CONCURRENTLY brings back the pets that the index lacked, without an audit', async () => {
  await addPastIndex(5);
  await atTestEnd(() => sql('REINDEX TABLE inventory_item'));
  for (const { list } of services) expect((await list()).text).not.toContain(`{"petId":${PETS + 1},`);
  await sql('REINDEX TABLE CONCURRENTLY inventory_item');
  await expectExact(owner, services);
});

/**
 * Gives a pet another id. Its entry in the index stays, and leads to the row of the other id: PostgreSQL takes this for
 * an update that concerns no index (HOT).
 */
async function misleadIndex(pet: number, otherPet: number): Promise<void> {
  const setLive = (isLive: boolean) =>
    `UPDATE pg_index SET indislive = ${isLive} WHERE indexrelid = 'inventory_item_pkey'::regclass`;
  await sql('VACUUM inventory_item'); // room in each page
  await sql(setLive(false));
  await postgres.database.sql(`UPDATE inventory_item SET pet_id = ${otherPet} WHERE pet_id = ${pet}`); // a new session sees it
  await sql(setLive(true));
  await pastIndex();
}

/** For what this test reads. */
const pastIndex = () => sql('SET enable_indexscan = off; SET enable_indexonlyscan = off; SET enable_bitmapscan = off');

describe('an entry of the index that leads to another pet', () => {
  const [pet, otherPet] = [700, 1_000_000_000];
  beforeEach(async () => {
    await misleadIndex(pet, otherPet);
    await atTestEnd(() => sql('REINDEX TABLE inventory_item'));
  });

  it('is found by an audit', async () => {
    for (const service of services) {
      const { result, finding } = await audit(service);
      const isFound: unknown = expect.stringMatching(
        /REINDEX.*; pets in the index: 1500, in the table: 1500, of which the index does not find 1$/,
      );
      expect([result, finding]).toEqual(['index', isFound]);
    }
    await expectExact(owner, fastOnes);
  });

  it('leads no update to the other pet', async () => {
    const state = async () => {
      const stock = 'SELECT array_agg((pet_id, quantity, status)::text ORDER BY pet_id) AS stock FROM inventory_item';
      const history = 'SELECT count(*) AS changes FROM stock_change WHERE changed_by IS NOT NULL';
      return [(await sql(stock)).rows, (await sql(history)).rows];
    };
    const before = await state();
    for (const { update } of services) {
      const updates = [
        update(pet, 12_345), // alone
        update(pet, 12_345, [['If-Match', '*']]),
        update(pet, 12_345, [['If-Match', '"available-1"']]),
        update(pet, 12_345, [['Idempotency-Key', `misled-${pet}`]]),
        update(pet, 12_345),
      ];
      const responses = await Promise.all(updates);
      expect(responses.map(({ status }) => status)).toEqual(updates.map(() => 404));
      expect((await Promise.all([update(pet, 1), update(otherPet, 1)])).map(({ status }) => status)).toEqual([
        404, 404,
      ]);
    }
    expect(await state()).toEqual(before);
  });
});

describe('the first audit after the index has lost pets', () => {
  it('finds that; the fast service then reads past the index, until an audit after REINDEX', async () => {
    await addPastIndex(5);
    await pastIndex();
    await atTestEnd(() => sql('REINDEX TABLE inventory_item'));
    for (const service of services) {
      const isShort = {
        result: 'index',
        finding: expect.stringMatching(
          /REINDEX.*index: 1500, in the table: 1505, of which the index does not find 5$/,
        ) as string,
      };
      expect(await audit(service)).toEqual(isShort);
    }
    await expectExact(owner, fastOnes);
    const patched = () => fastOnes.map(({ counts }) => counts.patches);
    const before = patched();
    await expectExact(owner, fastOnes);
    await sql('UPDATE inventory_item SET quantity = 3 WHERE pet_id = 5');
    await expectExact(owner, fastOnes);
    expect(patched()).toEqual(before);
    expect(await resultsOf(services)).toEqual(services.map(() => 'index'));
    await expectExact(owner, fastOnes);
    await sql('REINDEX TABLE inventory_item');
    await expectExact(owner, fastOnes); // another index cannot be compared
    expect(await resultsOf(services)).toEqual(services.map(() => 'equal'));
    await sql('UPDATE inventory_item SET quantity = 4 WHERE pet_id = 5');
    await expectExact(owner, services);
    expect(patched()).toEqual(before.map((count) => count + 1));
  });
});

describe('a reading that is under way when an audit ends', () => {
  /** Holds the next result of Prisma's method until the returned function is called. */
  function holdNext(service: TestService, method: '$queryRawUnsafe' | '$transaction') {
    const prisma = service.app.get(PrismaService);
    const send = prisma[method].bind(prisma) as (...args: unknown[]) => Promise<unknown>;
    const { promise: isReached, resolve: reach } = Promise.withResolvers<null>();
    const { promise: released, resolve: release } = Promise.withResolvers<null>();
    const spy = vi.spyOn(prisma, method).mockImplementation((async (...args: unknown[]) => {
      spy.mockRestore();
      const result = await send(...args);
      reach(null);
      await released;
      return result;
    }) as never);
    return { isReached, release: () => release(null) };
  }

  async function auditDuring(service: TestService, method: '$queryRawUnsafe' | '$transaction') {
    const held = holdNext(service, method);
    const list = service.list();
    await held.isReached;
    const ended = once(service.audits, 'end') as Promise<[AuditEnd]>;
    pace(service, 0);
    service.audits.beginIfDue();
    pace(service, NEVER_MS);
    const [{ result }] = await ended;
    held.release();
    return { result, text: (await list).text };
  }

  it('is not kept, and done anew, when it patches a list that the audit has replaced', async () => {
    await pretend(8);
    await sql('UPDATE inventory_item SET quantity = 9 WHERE pet_id = 1450');
    for (const service of fastOnes) {
      const { result, text } = await auditDuring(service, '$queryRawUnsafe');
      expect(result).toBe('different');
      expect(text).toContain('{"petId":5,"quantity":8,');
    }
    await expectExact(owner, services);
  });

  it('is not kept, and done anew, when it uses an index that lacks pets', async () => {
    await addPastIndex(1);
    await atTestEnd(() => sql('REINDEX TABLE inventory_item'));
    await sql('ALTER TABLE inventory_item DISABLE TRIGGER inventory_item_truncate_history');
    await sql('ALTER TABLE inventory_item ENABLE TRIGGER inventory_item_truncate_history'); // so that the stock is read whole
    for (const service of fastOnes) {
      const { result, text } = await auditDuring(service, '$transaction');
      expect(result).toBe('index');
      for (const each of [text, (await service.list()).text]) expect(each).toContain(`{"petId":${PETS + 1},`);
    }
    await sql('REINDEX TABLE inventory_item');
    await expectExact(owner, fastOnes);
    expect(await resultsOf(fastOnes)).toEqual(fastOnes.map(() => 'equal'));
  });
});

describe('a list that is patched after the snapshot of an audit', () => {
  it.each([
    ['equal', 'nothing is hidden'],
    ['different', 'a change is hidden'],
  ])('makes the audit no less %s when %s, and its change is not lost', async (expected) => {
    for (const service of fastOnes) {
      await refill(owner);
      await expectExact(owner, [service]);
      if (expected === 'different') await pretend(8);
      beforeStatement('DECLARE', async () => {
        await sql('UPDATE inventory_item SET quantity = 9 WHERE pet_id = 1450');
        expect((await service.list()).text).toContain('{"petId":1450,"quantity":9,');
      });
      expect((await audit(service)).result).toBe(expected);
      await expectExact(owner, [service]);
    }
  });
});

it('an audit ends its transaction, and so no session of a pooler', async () => {
  for (const service of services) {
    await service.list();
    const before = await postgres.database.sessions();
    expect((await audit(service)).result).toBe('equal');
    expect((await sql(`SELECT FROM pg_stat_activity WHERE state = 'idle in transaction'`)).rows).toEqual([]);
    expect(await postgres.database.sessions()).toEqual(expect.arrayContaining(before));
  }
});

it('an audit whose session ends reports what it has found, and the list is read whole', async () => {
  await refill(owner, 7_000); // the last of four statements fetches the rest
  await expectExact(owner, services);
  await pretend(8);
  for (const service of fastOnes) {
    const { readings } = service.counts;
    const end = `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE 'FETCH%' AND pid <> pg_backend_pid()`;
    beforeStatement('FETCH', () => sql(end), 4);
    expect(await audit(service)).toEqual({
      result: 'different',
      finding: expect.stringMatching(/^the kept list was wrong and is dropped; .*; pets: 1, .*"quantity":8,/) as string,
    });
    await expectExact(owner, [service]);
    expect(service.counts.readings).toBe(readings + 1);
  }
});

it('an audit of a list that is wrong in many places shows twenty of them', async () => {
  await sql(`BEGIN; SELECT set_config('inventory.recorded_in', pg_current_xact_id()::text, true);
    UPDATE inventory_item SET quantity = 1 WHERE pet_id % 5 = 0; COMMIT`);
  const shown = Array.from(
    { length: 20 },
    (_, at) => `${itemText(5 * at + 5, 5 * at + 5)} → ${itemText(5 * at + 5, 1)}`,
  );
  for (const service of fastOnes) {
    expect(await audit(service)).toEqual({
      result: 'different',
      finding: `the kept list was wrong and is replaced; find the cause (docs/alerts.md#inventorylistwrong); pets: 300, kept → true: ${shown.join(', ')}`,
    });
    await expectExact(owner, [service]);
  }
});

it('an audit needs no temporary file where the role has little work_mem and may have none', async () => {
  const database = await createDatabase();
  await database.fill(`SELECT n, 0, 'available' FROM generate_series(1, 20000) n`);
  await database.set('work_mem', '1MB');
  await database.set('temp_file_limit', '0');
  for (const service of await startEveryService({ databaseUrl: database.url })) {
    pace(service, NEVER_MS);
    await service.list();
    expect(await audit(service)).toEqual({ result: 'equal' });
  }
});

describe('a service with few connections', () => {
  it('serves lists, updates and readiness during an audit', async () => {
    const service = await startService({ settings: { DATABASE_POOL_SIZE: '1', REQUEST_DEADLINE_MS: '2500' } });
    await service.stock([1, 1]);
    await service.list();
    const { promise: released, resolve: release } = Promise.withResolvers<null>();
    const { promise: isReached, resolve: reach } = Promise.withResolvers<null>();
    beforeStatement('FETCH', () => {
      reach(null);
      return released;
    });
    const ended = audit(service);
    await isReached;
    const ready = await ask(service.port, { target: '/health/ready' });
    const answers = [ready, await service.update(1, 2), await service.list()];
    release(null);
    expect(answers.map(({ status }) => status)).toEqual([200, 200, 200]);
    expect(await ended).toEqual({ result: 'equal' });
  });

  it('serves lists while an audit gets no connection, which says so', async () => {
    const role = `audited_${randomBytes(8).toString('hex')}`;
    const database = await createDatabase();
    const url = new URL(database.url);
    Object.assign(url, { username: role, password: randomBytes(24).toString('hex') });
    await database.sql(`CREATE ROLE ${role} LOGIN PASSWORD '${url.password}' CONNECTION LIMIT 3
      IN ROLE pg_read_all_data, pg_write_all_data`);
    onTestFinished(async () => {
      await database.sql(`DROP ROLE ${role}`);
    });
    const service = await startService({ databaseUrl: url.href, settings: { DATABASE_POOL_SIZE: '2' } });
    await Promise.all([service.list(), service.list()]);
    await database.sql(`ALTER ROLE ${role} CONNECTION LIMIT 0`);
    expect(await audit(service)).toEqual({
      result: 'none',
      finding: expect.stringMatching(
        `^the list could not be audited: .*${role}.* \\(53300\\); raise the limit`,
      ) as string,
    });
    expect((await service.list()).status).toBe(200);
    await service.stop();
  });
});

describe('a list does not wait for an audit', () => {
  it('and an audit that does not get its locks is none', async () => {
    await expectExact(owner, services);
    const holder = await postgres.database.session('LOCK TABLE unrecorded_change');
    for (const service of services) {
      const log = vi.spyOn(service.app.get(Log), 'warn');
      onTestFinished(() => log.mockRestore());
      const ended = vi.fn();
      service.audits.once('end', ended);
      pace(service, 0);
      expect((await service.list()).status).toBe(200);
      pace(service, NEVER_MS);
      expect(ended).not.toHaveBeenCalled();
      await expect.poll(() => ended.mock.calls).toMatchObject([[{ result: 'none' }]]);
      expect(log.mock.lastCall).toEqual([
        expect.stringMatching(
          /^the list could not be audited: (another transaction holds|the database did not answer)/,
        ),
      ]);
    }
    await holder.end();
    expect(await resultsOf(services)).toEqual(services.map(() => 'equal'));
  });
});

it(
  `no audit finds a fault beside 100 updates a second, imports and DDL`,
  { timeout: 60_000 + AUDITS * 6_000 },
  async () => {
    const results = services.map((service) => {
      const { name, audits } = service;
      const ended = { name, equal: 0, different: 0, index: 0, none: 0, findings: [] as unknown[] };
      audits.on('end', ({ result, finding }: AuditEnd) => {
        ended[result]++;
        if (finding !== undefined) ended.findings.push(finding);
      });
      pace(service, 0);
      return ended;
    });
    onTestFinished(() => services.forEach((service) => pace(service, NEVER_MS)));
    const isOver = () => results.every(({ equal }) => equal >= AUDITS);
    const repeat = async (act: (n: number) => Promise<unknown>, pauseMs: number) => {
      for (let n = 0; !isOver(); n++) await Promise.all([act(n), pause(pauseMs)]); // how often it acts
    };
    const writer = await postgres.database.session();
    const DDL = [
      'ALTER TABLE inventory_item ADD note text; ALTER TABLE inventory_item DROP note',
      'BEGIN; ALTER TABLE inventory_item DISABLE TRIGGER USER; UPDATE inventory_item SET quantity = 1 WHERE pet_id = 9; ALTER TABLE inventory_item ENABLE TRIGGER USER; ALTER TABLE inventory_item ENABLE REPLICA TRIGGER inventory_item_replicated; COMMIT',
      'REINDEX TABLE inventory_item',
      'REINDEX TABLE CONCURRENTLY inventory_item',
      'VACUUM inventory_item',
      'SET session_replication_role = replica; UPDATE inventory_item SET quantity = 2 WHERE pet_id = 9; RESET session_replication_role',
      'CLUSTER inventory_item USING inventory_item_pkey',
      "INSERT INTO inventory_item SELECT n, 1, 'sold' FROM generate_series(5000, 10000) n; DELETE FROM inventory_item WHERE pet_id >= 5000",
    ];
    const file = (quantity: number) =>
      Array.from({ length: PETS }, (_, at) => `${at + 1},${quantity},available\n`).join('');
    await Promise.all([
      ...services.map(({ list }) => repeat(() => list(), 20)),
      repeat((n) => Promise.resolve(services[n % services.length]?.update((n % PETS) + 1, n)), 10),
      repeat((n) => writer.query(DDL[n % DDL.length] ?? '').catch(() => writer.query('ROLLBACK')), 400),
      repeat((n) => inventory(postgres.url, [...IMPORT_CSV, '--quiet'], CSV_HEADER + file(n)), 1_000),
    ]);
    for (const { name, different, index, none, findings } of results) {
      expect([name, different, index, findings]).toEqual([name, 0, 0, findings.slice(0, none)]);
    }
  },
);

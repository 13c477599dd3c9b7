import { execFileSync } from 'node:child_process';
import { renameSync, rmSync } from 'node:fs';
import { setImmediate as nextTurn, setTimeout as pause } from 'node:timers/promises';
import { PrismaPg } from '@prisma/adapter-pg';
import fc from 'fast-check';
import { beforeAll, beforeEach, describe, expect, inject, it, onTestFinished, vi } from 'vitest';
import { NotApplied, TooManyWaiting } from '../src/database/database-failure.ts';
import { PrismaService } from '../src/database/prisma.service.ts';
import { PrismaClient } from '../src/generated/prisma/client.ts';
import { PETS_PER_STATEMENT } from '../src/inventory/fast/list-cache.ts';
import { InventoryService } from '../src/inventory/inventory.service.ts';
import { StockList } from '../src/inventory/stock-list.ts';
import { refused, whole } from './support/answers.ts';
import { Database, createDatabase } from './support/database.ts';
import { startFaultyPostgres, startReplicated } from './support/postgres-server.ts';
import { TcpProxy } from '../faults/tcp-proxy.ts';
import { laterThan } from './support/later-than.ts';
import { IS_FAST, type TestService, startService } from './support/service.ts';

const MIN = -(2n ** 63n);
const MAX = 2n ** 63n - 1n;

describe('GET /v1/inventory', () => {
  let service: TestService;

  beforeAll(async () => {
    service = await startService();
    await service.sql('ALTER TABLE inventory_item DISABLE TRIGGER USER'); // without a history, for speed
  });
  beforeEach(async () => {
    await service.sql('DELETE FROM inventory_item');
  });

  const list = async () =>
    (await fetch(`${service.url}/v1/inventory`, { headers: { Authorization: `Bearer ${service.key}` } })).text();

  it('equals what findMany reads for any stock', async () => {
    const prisma = new PrismaClient({ adapter: new PrismaPg(service.databaseUrl) });
    const pet = fc.record({
      petId: fc.oneof(fc.bigInt(MIN, MAX), fc.bigInt(-3n, 3n), fc.constantFrom(MIN, MAX)),
      quantity: fc.oneof(fc.integer({ min: 0, max: 2147483647 }), fc.constantFrom(0, 2147483647)),
      status: fc.constantFrom('available' as const, 'pending' as const, 'sold' as const),
    });
    await fc.assert(
      fc.asyncProperty(fc.uniqueArray(pet, { selector: (each) => each.petId, maxLength: 40 }), async (stock) => {
        await prisma.inventoryItem.deleteMany();
        await prisma.inventoryItem.createMany({ data: stock });
        const items = await prisma.inventoryItem.findMany({ orderBy: { petId: 'asc' } });
        const exact = JSON.stringify(items, (_name, value: unknown) =>
          typeof value === 'bigint' ? JSON.rawJSON(String(value)) : value,
        );
        expect(await list()).toBe(exact);
      }),
      { numRuns: 25 },
    );
    await prisma.$disconnect();
  });

  it('ends with the greatest id where a statement reads as far as that', async () => {
    await service.sql(
      `INSERT INTO inventory_item SELECT ${MAX} - n, 1, 'sold' FROM generate_series(0, ${PETS_PER_STATEMENT - 1}) n`,
    );
    expect((await list()).match(/"petId":/g)).toHaveLength(PETS_PER_STATEMENT);
    expect(PETS_PER_STATEMENT).toBe(6 * 1_024); // docs/decisions/kept-list.md
  });

  it('holds 80,000 pets', async () => {
    await service.sql(
      `INSERT INTO inventory_item SELECT n * 9000000000000, n, 'pending' FROM generate_series(1, 80000) n`,
    );
    const text = await list();
    expect(text.match(/"petId":/g)).toHaveLength(80_000);
    expect(text.endsWith(',{"petId":720000000000000000,"quantity":80000,"status":"pending"}]')).toBe(true);
  });
});

describe.runIf(IS_FAST)('the list cache', () => {
  let service: TestService;
  let kept: InventoryService;
  let life: string;

  beforeAll(async () => {
    service = await startService();
    await service.stock([1, 1]);
    kept = service.app.get(InventoryService);
    life = String((await service.sql('SELECT present_server_life() AS life'))[0]?.['life']);
  });

  const presentTransactions = async () =>
    (await service.sql<{ now: string }>('SELECT pg_current_snapshot()::text AS now'))[0]?.now ?? '';
  const at = (life: string, transactions: string) =>
    kept.list({ snapshot: { life, transactions }, deadline: performance.now() + 2_500 });

  it('is reloaded after a restart of the server, even if the snapshot is the same', async () => {
    await at(life, await presentTransactions());
    const { readings } = kept.counts;
    await at('another', await presentTransactions());
    expect(kept.counts.readings).toBe(readings + 1);
  });

  it('is reloaded once for all waiting requests', async () => {
    await service.sql('UPDATE inventory_item SET quantity = quantity + 1');
    const transactions = await presentTransactions();
    const lists = await Promise.all(Array.from({ length: 20 }, async () => at(life, transactions)));
    expect(new Set(lists).size).toBe(1);
  });

  it('serves who waits with the snapshot that it has got meanwhile', async () => {
    const patchesFor = async () => {
      await service.sql('UPDATE inventory_item SET quantity = quantity + 1');
      const transactions = await presentTransactions();
      const { patches } = kept.counts;
      const under = at(life, transactions);
      await nextTurn();
      expect(await at(life, transactions)).toBe(await under);
      return kept.counts.patches - patches;
    };
    await expect.poll(patchesFor, { interval: 1 }).toBe(1); // another database of the server may have changed meanwhile
  });

  it.each([0, 1, 2])(
    'is brought up to date for all who wait when only call %i of them has its snapshot',
    async (place) => {
      await at(life, ''); // there is a kept list from now on
      await service.sql('UPDATE inventory_item SET quantity = quantity + 1');
      const transactions = await presentTransactions();
      const { readings, patches } = kept.counts;
      const under = at(life, transactions);
      await nextTurn();
      const calls: [string, string][] = [
        ['another', transactions],
        [life, ''],
      ];
      calls.splice(place, 0, [life, transactions]);
      const lists = await Promise.all(calls.map((call) => at(...call)));
      expect(lists.map((list) => list.plain)).toEqual(lists.map(() => lists[0]?.plain));
      await under;
      expect(kept.counts).toMatchObject({ readings, patches: patches + 2 });
    },
  );

  it('is brought up to date at the next attempt when one has failed', async () => {
    await at(life, '');
    const { readings, patches } = kept.counts;
    const sent = vi.spyOn(service.app.get(PrismaService), '$queryRawUnsafe');
    onTestFinished(() => sent.mockRestore());
    sent.mockRejectedValueOnce(new Error('Connection terminated unexpectedly'));
    await at(life, '');
    expect(kept.counts).toMatchObject({ readings, patches: patches + 1 });
  });

  it('lets MAX_WAITING_REQUESTS requests wait for one reading, and refuses another', async () => {
    const settings = { MAX_WAITING_REQUESTS: '2' };
    const { app } = await startService({ databaseUrl: service.databaseUrl, settings });
    const crowded = app.get(InventoryService);
    const lists = [1, 2, 3].map(() =>
      crowded.list({ snapshot: { life: null, transactions: '' }, deadline: performance.now() + 9_000 }),
    );
    const outcomes = await Promise.allSettled(lists);
    expect(outcomes.map(({ status }) => status)).toEqual(['fulfilled', 'fulfilled', 'rejected']);
    expect(outcomes[2]).toMatchObject({ reason: expect.any(TooManyWaiting) as unknown });
    expect(crowded.counts.readings).toBe(1);
  });

  it('is read by one statement when the stock is less than a statement may bring', async () => {
    const sent = vi.spyOn(service.app.get(PrismaService), '$queryRawUnsafe');
    onTestFinished(() => sent.mockRestore());
    await kept.list({ snapshot: { life: null, transactions: '' }, deadline: performance.now() + 9_000 });
    expect(sent).toHaveBeenCalledOnce();
  });

  it('is tried once without a lock, and fails then, when inventory_item is no table', async () => {
    await service.sql(
      'BEGIN; ALTER TABLE inventory_item RENAME TO kept_aside; CREATE TYPE inventory_item AS (pet_id bigint); COMMIT',
    );
    const undo = 'BEGIN; DROP TYPE inventory_item; ALTER TABLE kept_aside RENAME TO inventory_item; COMMIT';
    onTestFinished(() => service.sql(undo).then(() => undefined));
    const readings = vi.spyOn(service.app.get(PrismaService), '$transaction');
    onTestFinished(() => readings.mockRestore());
    const list = kept.list({ snapshot: { life: null, transactions: '' }, deadline: performance.now() + 9_000 });
    await expect(list).rejects.toThrow('42809'); // wrong_object_type
    expect(readings).toHaveBeenCalledTimes(2);
  });

  it('is not read again in the last 400 ms, in which the database has to begin at least', async () => {
    await service.sql('ALTER TABLE inventory_item RENAME TO kept_aside');
    onTestFinished(() => service.sql('ALTER TABLE kept_aside RENAME TO inventory_item').then(() => undefined));
    const readings = vi.spyOn(service.app.get(PrismaService), '$transaction');
    const timers = vi.spyOn(globalThis, 'setTimeout');
    const cleared = vi.spyOn(globalThis, 'clearTimeout');
    onTestFinished(() => void vi.restoreAllMocks());
    const list = kept.list({ snapshot: { life: null, transactions: '' }, deadline: performance.now() + 390 });
    await expect(list).rejects.toBeInstanceOf(NotApplied);
    expect(readings).toHaveBeenCalledOnce();
    const delays = timers.mock.calls.map(([, ms]) => ms);
    expect(delays).toContain(400);
    expect(cleared.mock.calls.flat()).toContain(timers.mock.results[delays.indexOf(400)]?.value);
  });
});

it('GET /v1/inventory that cannot be compressed is answered with 500', async () => {
  const service = await startService();
  const gzip = vi.spyOn(StockList.prototype, 'gzip').mockRejectedValueOnce(new Error('no memory'));
  onTestFinished(() => gzip.mockRestore());
  expect(whole(await service.list([['Accept-Encoding', 'gzip']]))).toEqual(refused.failed);
});

it('GET /v1/inventory that no other attempt could read is answered with 500 at once', async () => {
  const service = await startService();
  await service.sql('ALTER TABLE inventory_item RENAME quantity TO amount');
  const attempt = vi.fn();
  service.app.get(PrismaService).pool.on('acquire', attempt);
  expect(whole(await service.list())).toEqual(refused.failed);
  expect(attempt.mock.calls.length).toBeLessThan(4); // one may note the use of the key
});

const WAITING = `FROM pg_stat_activity
  WHERE datname = current_database() AND application_name = 'inventory pool' AND wait_event_type = 'Lock'`;

describe('GET /v1/inventory that waits for a transaction which replaces the table', () => {
  it.each([
    [
      'the new table from another schema',
      'CREATE SCHEMA staging; CREATE TABLE staging.inventory_item (LIKE inventory_item INCLUDING ALL)',
      `INSERT INTO staging.inventory_item VALUES (1, 50, 'sold')`,
      'CREATE SCHEMA old; ALTER TABLE inventory_item SET SCHEMA old',
      'ALTER TABLE staging.inventory_item SET SCHEMA public',
    ],
    [
      'the new column',
      'ALTER TABLE inventory_item ADD amount integer NOT NULL DEFAULT 0',
      'UPDATE inventory_item SET amount = 10 * quantity',
      'ALTER TABLE inventory_item RENAME quantity TO old',
      'ALTER TABLE inventory_item RENAME amount TO quantity',
    ],
  ])('gives the list of %s', async (_, prepare, ...statements) => {
    const service = await startService();
    await service.stock([1, 5, 'sold']);
    await service.sql(prepare);
    const swap = await service.database.session(...statements);
    const list = service.list();
    await expect.poll(() => service.sql(`SELECT ${WAITING}`), { interval: 5 }).toHaveLength(1);
    await swap.query('COMMIT');
    expect((await list).text).toBe('[{"petId":1,"quantity":50,"status":"sold"}]');
  });

  it('is read again when its session is cut', async () => {
    const service = await startService();
    const holder = await service.database.session('LOCK TABLE inventory_item');
    const list = service.list();
    const cut = `SELECT pg_terminate_backend(pid) ${WAITING}`;
    await expect.poll(() => service.sql(cut), { interval: 5 }).toHaveLength(1);
    await holder.query('COMMIT');
    expect((await list).text).toBe('[]');
  });
});

describe('GET /v1/inventory while another session locks a table of changes', () => {
  it.each(['stock_change', 'unrecorded_change'])(
    'is complete with %s locked, and the stock for writing',
    async (table) => {
      const service = await startService();
      await service.stock([1, 5]);
      await service.list();
      const holder = await service.database.session('UPDATE inventory_item SET quantity = 6');
      await holder.query(`COMMIT; BEGIN; LOCK TABLE ${table}; LOCK TABLE inventory_item IN EXCLUSIVE MODE`);
      expect((await service.list()).text).toBe('[{"petId":1,"quantity":6,"status":"available"}]');
    },
  );

  it.runIf(IS_FAST)('ends at its deadline although the database has told of the lock in time', async () => {
    const service = await startService();
    await service.list();
    const life = String((await service.sql('SELECT present_server_life() AS life'))[0]?.['life']);
    await service.database.session('LOCK TABLE stock_change; LOCK TABLE inventory_item');
    // A statement waits 500 ms for a lock.
    const list = service.app
      .get(InventoryService)
      .list({ snapshot: { life, transactions: '' }, deadline: performance.now() + 800 });
    await expect(list).rejects.toThrow('the database did not begin to respond in time');
  });
});

describe('GET /v1/inventory in another life of the server', () => {
  const withQuantity = (quantity: number) => `[{"petId":1,"quantity":${quantity},"status":"available"}]`;

  it.each(['server', 'backend', 'backend that unlogged tables survive'])(
    'gives no list from before the crash of a %s, although the snapshot reads the same',
    async (what) => {
      const postgres = await startFaultyPostgres();
      const { database } = postgres;
      const sql = database.sql.bind(database);
      const snapshot = async () => (await sql('SELECT pg_current_snapshot()::text AS now'))[0]?.['now'];
      // Nothing but this test may use up a transaction id or flush the log.
      await database.setSystem(`SET wal_writer_delay = '10s'`, 'SET autovacuum = off');
      if (what.includes('survive')) await sql('ALTER TABLE server_life_token SET LOGGED');
      const service = await startService({ databaseUrl: postgres.url });
      await service.stock([1, 7]);
      await service.list();
      await expect
        .poll(async () => (await sql('SELECT last_used_at FROM api_key'))[0]?.['last_used_at'])
        .not.toBeNull();
      await sql('CHECKPOINT');
      await sql('BEGIN; SELECT pg_current_xact_id(); ROLLBACK');
      expect((await service.list()).text).toBe(withQuantity(7));
      const before = await snapshot();

      if (what === 'server') {
        await postgres.crash();
        await postgres.restart();
      } else {
        // NaN fails; 0 would kill the whole process group of this test.
        const [{ pid } = { pid: NaN }] = await sql<{ pid: number }>(
          `SELECT pid FROM pg_stat_activity WHERE application_name LIKE 'inventory %' LIMIT 1`,
        );
        process.kill(pid, 'SIGKILL');
        await pause(200);
        await expect.poll(() => sql('SELECT 1').catch(() => []), { timeout: 10_000 }).toHaveLength(1);
      }
      await sql('UPDATE inventory_item SET quantity = 8');
      expect(await snapshot()).toBe(before); // the trap is set
      expect((await service.list()).text).toBe(withQuantity(8));
    },
  );

  it('rests on statistics that PostgreSQL keeps over a restart and resets after a crash', async () => {
    const postgres = await startFaultyPostgres();
    const reset = async () =>
      (await postgres.database.sql('SELECT stats_reset::text AS at FROM pg_stat_wal'))[0]?.['at'];
    const before = await reset();
    expect(before).toEqual(expect.any(String));
    await postgres.stop();
    await postgres.restart();
    expect(await reset()).toBe(before);
    await postgres.crash();
    await postgres.restart();
    expect(await reset()).not.toBe(before);
  });

  it.each(['a copy of itself', 'another one'])('gives no list of a database that was replaced by %s', async (what) => {
    const service = await startService();
    const { database } = service;
    const name = new URL(database.url).pathname.slice(1);
    /** Of the server, once the service has no session in the way. */
    const sql = (statement: string) =>
      vi.waitFor(async () => {
        await database.cutSessions().catch(() => undefined);
        await new Database(inject('postgresUrl')).sql(statement);
      }, 10_000);
    await service.stock([1, 7]);
    await service.list();
    await sql(`CREATE DATABASE ${name}_new TEMPLATE ${what === 'another one' ? inject('templateDatabase') : name}`);
    const copy = new Database(database.url.replace(name, `${name}_new`));
    if (what === 'another one') await copy.addKey(service.key);
    // This change is older than the kept list, which therefore would not ask for it.
    await copy.sql(`INSERT INTO inventory_item VALUES (1, 8, 'available')
      ON CONFLICT (pet_id) DO UPDATE SET quantity = excluded.quantity`);
    await database.sql(`UPDATE inventory_item SET quantity = 9`);
    expect((await service.list()).text).toBe(withQuantity(9));
    await sql(`ALTER DATABASE ${name} RENAME TO ${name}_old`);
    await sql(`ALTER DATABASE ${name}_new RENAME TO ${name}`);
    expect((await service.list()).text).toBe(withQuantity(8));
    await new Database(inject('postgresUrl')).sql(`DROP DATABASE ${name}_old WITH (FORCE)`);
  });

  it('gives no list of another server at the same address, although the snapshot reads the same', async () => {
    const postgres = await startFaultyPostgres();
    const { database, dataFolder } = postgres;
    const snapshot = async () => (await database.sql('SELECT pg_current_snapshot()::text AS now'))[0]?.['now'];
    await database.setSystem('SET autovacuum = off');
    const service = await startService({ databaseUrl: postgres.url });
    await service.stock([1, 7]);
    await service.list();
    await expect
      .poll(async () => (await database.sql('SELECT last_used_at FROM api_key'))[0]?.['last_used_at'])
      .not.toBeNull();
    await postgres.stop();
    execFileSync('cp', ['-a', dataFolder, `${dataFolder}-of-another`]);
    await postgres.restart();
    await database.sql('UPDATE inventory_item SET quantity = 9');
    expect((await service.list()).text).toBe(withQuantity(9)); // after a restart in good order, too
    const before = await snapshot();

    await postgres.stop();
    rmSync(dataFolder, { recursive: true });
    renameSync(`${dataFolder}-of-another`, dataFolder);
    await postgres.restart();
    await database.sql('UPDATE inventory_item SET quantity = 8');
    expect(await snapshot()).toBe(before); // the trap is set
    expect((await service.list()).text).toBe(withQuantity(8));
  });
});

describe('GET /v1/inventory from sessions that began while the database took no writes', () => {
  it.runIf(IS_FAST)('is kept once another session has named the life of the server', async () => {
    const { database, app, list } = await startService();
    await database.sql('DELETE FROM server_life_token');
    await database.set('default_transaction_read_only', 'on');
    await database.cutSessions();
    await list();
    await database.sql('BEGIN READ WRITE; INSERT INTO server_life_token DEFAULT VALUES; COMMIT');
    for (let again = 0; again < 3; again++) expect((await list()).text).toBe('[]');
    const { reuses, patches } = app.get(InventoryService).counts;
    expect(reuses + patches).toBeGreaterThan(0);
  });
});

describe('GET /v1/inventory over a bad network', () => {
  async function startBehindProxy(databaseUrl: string, REQUEST_DEADLINE_MS: string) {
    const network = new TcpProxy(databaseUrl);
    const service = await startService({ databaseUrl: await network.listen(), settings: { REQUEST_DEADLINE_MS } });
    return { network, service };
  }

  it('may take longer than its deadline while the database responds, and is of one moment', async () => {
    const database = await createDatabase();
    const { network, service } = await startBehindProxy(database.url, '4000');
    await service.list(); // opens connections
    await database.sql(`INSERT INTO inventory_item SELECT n, 0, 'sold' FROM generate_series(1, 40000) n`);
    network.delayAnswers(IS_FAST ? 600 : 120); // seven statements read the stock, or forty
    const reading = service.list();
    for (let quantity = 1; (await Promise.race([reading, pause(20)])) === undefined; quantity++)
      await database.sql(`UPDATE inventory_item SET quantity = ${quantity} WHERE pet_id IN (1, 40000)`);
    const { text } = await reading;
    const [, first, last] = /^\[{"petId":1,"quantity":(\d+),.+,"quantity":(\d+),"status":"sold"}\]$/.exec(text) ?? [];
    expect([first, text.length > 1e6]).toEqual([last, true]);
    const inventory = service.app.get(InventoryService);
    expect(inventory.counts.readings).toBe(2);
    if (!IS_FAST) return;
    const reading25s = vi.spyOn(service.app.get(PrismaService), '$transaction');
    // The database has 400 ms to begin at least, and 25 s to end.
    for (const [delayMs, leftMs] of [
      [20, 20],
      [700, 4_000],
    ] as const) {
      network.delayAnswers(delayMs);
      const read = () =>
        inventory.list({ snapshot: { life: null, transactions: '' }, deadline: performance.now() + leftMs });
      expect((await vi.waitFor(read, 20_000)).plain.length).toBeGreaterThan(1e6); // a busy machine may begin too late
    }
    expect(reading25s.mock.lastCall?.[1]).toMatchObject({ timeout: 25_000 }); // docs/interface.md
  });

  it.runIf(IS_FAST)('has no deadline any more once the database has told of too many changes', async () => {
    const database = await createDatabase();
    const { network, service } = await startBehindProxy(database.url, '9000');
    await service.list();
    await database.sql(`INSERT INTO inventory_item SELECT n, 0, 'sold' FROM generate_series(1, 5000) n`);
    const life = (await database.sql<{ life: string }>('SELECT server_life() AS life'))[0]?.life ?? null;
    network.delayAnswers(600);
    const inventory = service.app.get(InventoryService);
    const read = () => inventory.list({ snapshot: { life, transactions: '' }, deadline: performance.now() + 2_000 });
    const list = await vi.waitFor(read, 20_000); // a busy machine may begin too late
    expect(list.plain.length).toBeGreaterThan(1e5); // after five answers or more
  });

  it('ends at its deadline, although its statement may take longer, and another request more time', async () => {
    const { network, service } = await startBehindProxy((await createDatabase()).url, '2000');
    await service.list();
    network.silence();
    onTestFinished(() => network.speak());
    const sent = vi.spyOn(service.app.get(PrismaService), '$transaction');
    const lists = [15_000, 500].map((leftMs) =>
      service.app
        .get(InventoryService)
        .list({ snapshot: { life: null, transactions: '' }, deadline: performance.now() + leftMs })
        .catch(() => leftMs),
    );
    expect(await Promise.race([...lists, laterThan(500, 0)])).toBe(500); // a statement may take 1,600 ms
    if (IS_FAST) expect(sent).toHaveBeenCalledOnce();
    network.speak();
    await lists[0];
  });

  it('returns no list from before the network stood still during a reading', async () => {
    const postgres = await startFaultyPostgres();
    const sql = postgres.database.sql.bind(postgres.database);
    const { network, service } = await startBehindProxy(postgres.url, '1000');
    await service.stock([1, 0]);
    const holder = await postgres.database.session('LOCK TABLE inventory_item');
    const under = service.list();
    const reading = `SELECT FROM pg_stat_activity WHERE application_name = 'inventory pool' AND wait_event_type = 'Lock'`;
    await expect.poll(() => sql(reading), { interval: 5 }).toHaveLength(1);
    network.silence();
    onTestFinished(() => network.speak());
    await holder.end();
    expect((await under).status).toBe(503);
    await pause(2_000); // until Prisma has given up its ROLLBACK, too
    network.speak();
    for (let quantity = 1; quantity <= 5; quantity++) {
      await sql(`UPDATE inventory_item SET quantity = ${quantity}`);
      const text = expect.stringContaining(`"quantity":${quantity}`) as string;
      expect(await service.list()).toMatchObject({ status: 200, text });
    }
  });
});

describe.runIf(IS_FAST)('GET /v1/inventory on a standby', () => {
  const pets = (first: number, second: number) =>
    `[{"petId":1,"quantity":${first},"status":"available"},{"petId":2,"quantity":${second},"status":"sold"}]`;

  it('equals the table of the standby at every request, and stays exact after its promotion', async () => {
    const replicated = await startReplicated();
    const { primary, standby } = replicated;
    const upstream = await startService({ databaseUrl: primary.url });
    await upstream.stock([1, 5], [2, 6, 'sold']);
    await expect.poll(() => standby.sql('SELECT FROM api_key, inventory_item'), { timeout: 10_000 }).toHaveLength(2);
    const service = await startService({ databaseUrl: standby.url, key: upstream.key });
    const cache = service.app.get(InventoryService).counts;
    const list = async () => (await service.list()).text;
    const first = 'SELECT quantity FROM inventory_item WHERE pet_id = 1';
    for (let quantity = 10; quantity < 30; quantity++) {
      await list();
      expect((await upstream.update(1, quantity)).status).toBe(200);
      await expect.poll(() => standby.sql(first), { timeout: 10_000, interval: 5 }).toEqual([{ quantity }]);
      expect(await list()).toBe(pets(quantity, 6));
    }
    expect((await service.update(1, 3)).status).toBe(503);
    expect(cache.reuses + cache.patches).toBe(0);

    await standby.sql('SELECT pg_promote()');
    await expect.poll(async () => (await service.update(1, 3)).status, { timeout: 10_000 }).toBe(200);
    expect(await list()).toBe(pets(3, 6));
    for (const quantity of [7, 8]) {
      await standby.sql(`UPDATE inventory_item SET quantity = ${quantity} WHERE pet_id = 2`);
      expect(await list()).toBe(pets(3, quantity));
    }
    expect(cache.patches).toBeGreaterThan(0);
  });
});

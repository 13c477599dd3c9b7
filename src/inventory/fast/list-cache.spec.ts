import { setImmediate as nextTurn } from 'node:timers/promises';
import { beforeAll, beforeEach, describe, expect, it, onTestFinished, vi } from 'vitest';
import { TcpProxy } from '../../../test/support/tcp-proxy.ts';
import { type FaultyPostgres, startFaultyPostgres } from '../../../test/support/postgres-server.ts';
import { type TestService, startService } from '../../../test/support/service.ts';
import { readStock } from '../../../test/support/stock-lists.ts';
import { PrismaService } from '../../prisma.service.ts';
import { MAX_PET_ID } from '../item-limits.ts';

/** Its own, because changes in another database of a server change the snapshot, too. */
let postgres: FaultyPostgres;
let service: TestService;
let life: string;

beforeAll(async () => {
  postgres = await startFaultyPostgres();
  await postgres.database.setSystem('SET autovacuum = off');
  service = await startService({ databaseUrl: postgres.url, settings: { FAST: 'on' } });
  life = String((await service.sql('SELECT present_server_life() AS life'))[0]?.['life']);
});
beforeEach(async () => {
  await service.sql('TRUNCATE inventory_item');
  await service.stock([1, 1]);
});

const presentTransactions = async () =>
  (await service.sql<{ now: string }>('SELECT pg_current_snapshot()::text AS now'))[0]?.now ?? '';
const change = () => service.sql('UPDATE inventory_item SET quantity = quantity + 1');

/** The list of a request whose key check saw this. */
const at = (life: string | null, transactions: string, patienceMs = 9_000) =>
  service.inventory.list({ snapshot: { life, transactions }, deadline: performance.now() + patienceMs });

function watchStatements() {
  const sent = vi.spyOn(service.app.get(PrismaService), '$queryRawUnsafe');
  onTestFinished(() => sent.mockRestore());
  return sent;
}

describe('a kept list', () => {
  it('serves while the snapshot stays the same', async () => {
    const transactions = await presentTransactions();
    const list = await at(life, transactions);
    const { readings, patches, reuses } = service.counts;
    expect(await at(life, transactions)).toBe(list);
    expect(service.counts).toMatchObject({ readings, patches, reuses: reuses + 1 });
  });

  it('is read whole in another life of the server, even if the snapshot is the same', async () => {
    await at(life, await presentTransactions());
    const { readings } = service.counts;
    await at('another', await presentTransactions());
    expect(service.counts.readings).toBe(readings + 1);
  });

  it('is brought up to date once for all who wait', async () => {
    await at(life, '');
    await change();
    const transactions = await presentTransactions();
    const { readings, patches } = service.counts;
    const lists = await Promise.all(Array.from({ length: 20 }, () => at(life, transactions)));
    expect(new Set(lists).size).toBe(1);
    expect(service.counts).toMatchObject({ readings, patches: patches + 1 });
  });

  it('serves who waits with the snapshot that it has got meanwhile', async () => {
    await at(life, '');
    await change();
    const transactions = await presentTransactions();
    const { patches } = service.counts;
    const under = at(life, transactions);
    await nextTurn();
    expect(await at(life, transactions)).toBe(await under);
    expect(service.counts.patches).toBe(patches + 1);
  });

  it.each([0, 1, 2])(
    'is brought up to date for all who wait when only call %i of them has its snapshot',
    async (place) => {
      await at(life, '');
      await change();
      const transactions = await presentTransactions();
      const { readings, patches } = service.counts;
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
      expect(service.counts).toMatchObject({ readings, patches: patches + 2 });
    },
  );

  /** How far each clock goes on until the next list. */
  it.each([
    ['is brought up to date', 'within an hour', { dateMs: 3_599_000, uptimeMs: 3_599_000 }],
    ['is read whole', 'after an hour', { dateMs: 3_601_000, uptimeMs: 3_601_000 }],
    ['is read whole', 'after a sleep of two days', { dateMs: 172_800_000, uptimeMs: 1_000 }],
    ['is read whole', 'after an hour in which the clock was set back by one', { dateMs: 1_000, uptimeMs: 3_601_000 }],
    ['is read whole', 'when the clock was set back', { dateMs: -3_600_000, uptimeMs: 1_000 }],
  ])('%s %s', async (what, _, { dateMs, uptimeMs }) => {
    await at(life, '');
    const { readings, patches } = service.counts;
    const clocks = [
      vi.spyOn(Date, 'now').mockReturnValue(Date.now() + dateMs),
      vi.spyOn(performance, 'now').mockReturnValue(performance.now() + uptimeMs),
    ];
    onTestFinished(() => clocks.forEach((clock) => clock.mockRestore()));
    await at(life, '');
    const isWhole = what === 'is read whole';
    expect(service.counts).toMatchObject(
      isWhole ? { readings: readings + 1, patches } : { readings, patches: patches + 1 },
    );
  });

  it('is brought up to date at the next attempt when one has failed', async () => {
    await at(life, '');
    const { readings, patches } = service.counts;
    watchStatements().mockRejectedValueOnce(new Error('Connection terminated unexpectedly'));
    await at(life, '');
    expect(service.counts).toMatchObject({ readings, patches: patches + 1 });
  });

  it('begins with sessions that began while the database took no writes, once another one has named its life', async () => {
    const { counts, database, list } = await startService({ settings: { FAST: 'on' } });
    await database.sql('DELETE FROM server_life_token');
    await database.set('default_transaction_read_only', 'on');
    await database.cutSessions();
    await list();
    await database.sql('BEGIN READ WRITE; INSERT INTO server_life_token DEFAULT VALUES; COMMIT');
    for (let again = 0; again < 3; again++) await list();
    const { reuses, patches } = counts;
    expect(reuses + patches).toBeGreaterThan(0);
  });
});

describe('a whole reading', () => {
  it.each([
    [6 * 1_024, 1],
    [6 * 1_024 + 1, 2],
  ])('of %i pets takes %i statements', async (pets, statements) => {
    // Pet 1 is there.
    await service.database.fill(`SELECT ${MAX_PET_ID} - n, 1, 'sold' FROM generate_series(0, ${pets - 2}) n`);
    const sent = watchStatements();
    await readStock(service);
    expect(sent).toHaveBeenCalledTimes(statements);
  });

  it('ends at its deadline although the database has answered in time that the history is locked', async () => {
    const settings = { FAST: 'on', REQUEST_DEADLINE_MS: '2500' }; // a statement waits 500 ms for a lock
    const { inventory, list, database } = await startService({ databaseUrl: postgres.url, key: service.key, settings });
    await list();
    await database.session('LOCK TABLE stock_change; LOCK TABLE inventory_item');
    const late = inventory.list({ snapshot: { life, transactions: '' }, deadline: performance.now() + 800 });
    await expect(late).rejects.toThrow('the database did not begin to respond in time');
  });

  it('has no deadline any more once the database has found too many changes', async () => {
    const network = new TcpProxy(postgres.url);
    const settings = { DATABASE_URL: await network.listen(), FAST: 'on' };
    const slow = await startService({ databaseUrl: postgres.url, key: service.key, settings });
    await slow.list();
    await service.sql(`INSERT INTO inventory_item SELECT n, 0, 'sold' FROM generate_series(2, 5000) n`);
    network.delayAnswers(600);
    const read = () =>
      slow.inventory.list({ snapshot: { life, transactions: '' }, deadline: performance.now() + 2_000 });
    const list = await vi.waitFor(read, 20_000); // a busy machine may begin too late
    expect(list.plain.length).toBeGreaterThan(1e5); // after five answers or more
  });
});

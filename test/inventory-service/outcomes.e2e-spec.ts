import { once } from 'node:events';
import { type Socket, createServer } from 'node:net';
import { setTimeout as pause } from 'node:timers/promises';
import { beforeAll, beforeEach, describe, expect, inject, it, onTestFinished } from 'vitest';
import { TcpProxy } from '../support/tcp-proxy.ts';
import { PrismaService } from '../../src/prisma.service.ts';
import { laterThan } from '../support/later-than.ts';
import type { TestService } from '../support/service.ts';
import { withTrigger } from '../support/triggers.ts';
import { changesOf, setQuantity, stockOf } from '../support/updates.ts';
import { eachServiceBothWays } from './services.ts';

eachServiceBothWays(({ start, isPooled }) => {
  let service: TestService;
  /** Another process, with shorter limits and one connection for everything, so that an update waits for another. */
  let small: TestService;
  /** Another process, behind a network that can fail. */
  let remote: TestService;
  let network: TcpProxy;

  beforeAll(async () => {
    service = await start();
    const settings = { REQUEST_DEADLINE_MS: '2500' };
    small = await start({ databaseUrl: service.databaseUrl, settings: { ...settings, DATABASE_POOL_SIZE: '1' } });
    const behind = (url: string) => (network = new TcpProxy(url)).listen();
    remote = await start({ databaseUrl: service.databaseUrl, settings, behind });
  });
  beforeEach(async () => {
    await service.sql('DELETE FROM inventory_item');
    await service.stock([1, 1], [2, 2]);
  });

  it('each update that waits for the table ends at its deadline, and writes nothing later', async () => {
    const holder = await service.database.session('LOCK TABLE stock_change');
    const results = await Promise.all(
      Array.from({ length: 20 }, async (_, at) => {
        await pause(40 * at); // each waits with another deadline
        const patienceMs = 1_000 + 83 * at;
        const update = setQuantity(service, { requestId: 'late' }, patienceMs);
        return Promise.race([update, laterThan(patienceMs, { outcome: 'nothing' })]);
      }),
    );
    await holder.end();
    for (const { outcome } of results) expect(outcome).toBeOneOf(['service_unavailable', 'outcome_unknown']);
    expect(await setQuantity(service, { quantity: 7 })).toMatchObject({ outcome: 'done' });
    expect(await changesOf(service, 1)).toMatchObject([{ after: 7 }]);
  });

  it('an update that comes after its deadline is not sent', async () => {
    expect(await setQuantity(service, { quantity: 5 }, -1)).toEqual({ outcome: 'service_unavailable' });
    expect(await changesOf(service, 1)).toEqual([]);
  });

  it('an update that says that nothing was written is not committed after that', async () => {
    expect(await setQuantity(small, { quantity: 4 })).toMatchObject({ outcome: 'done' });
    await withTrigger(service, 'BEFORE INSERT ON stock_change', 'PERFORM pg_sleep(0.8); RETURN NEW;');
    // The plain service waits for this connection. So its transaction begins late, and Prisma's bound of it ends after
    // the deadline.
    const connection = await small.app.get(PrismaService).pool.connect();
    const updates = [1n, 2n].map((petId) => setQuantity(small, { petId, quantity: 5 }, 1_000));
    await pause(400); // so much later its transaction begins
    connection.release();
    const results = await Promise.all(updates);
    await pause(1_000); // what is committed late is committed by then; nothing shows that there is no more
    const written = (await stockOf(service)).map(({ quantity }) => quantity === 5);
    expect(results.map(({ outcome }, at) => outcome === 'service_unavailable' && written[at])).toEqual([false, false]);
    expect(await setQuantity(small, { quantity: 6 })).toMatchObject({ outcome: 'done' }); // with more time
  });

  it('an update is not applied while its id in the history is taken, and is done after that', async () => {
    const sequence = `pg_get_serial_sequence('stock_change', 'id')`;
    await service.sql(
      `INSERT INTO stock_change (pet_id, id, quantity_before, quantity_after, changed_by)
       SELECT 1, last + n, 0, 0, 'test' FROM (SELECT max(id) AS last FROM stock_change) AS newest, generate_series(1, 1000) n`,
    );
    const taken = setQuantity(small, { quantity: 5 }, 1_500);
    expect(await taken).toEqual({ outcome: 'service_unavailable' });
    expect(await stockOf(service)).toMatchObject([{ quantity: 1 }, { quantity: 2 }]);
    await service.sql(`SELECT setval(${sequence}, max(id)) FROM stock_change`);
    expect(await setQuantity(small, { quantity: 5 })).toMatchObject({ outcome: 'done' });
  });

  it('updates whose sessions are ended say whether they were written, and are written once at most', async () => {
    const holder = await service.database.session('LOCK TABLE stock_change'); // stops the statement itself, not one row of it
    const ended = Promise.all([1n, 2n].map((petId) => setQuantity(service, { petId, quantity: 100 })));
    const end = `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
      WHERE wait_event_type = 'Lock' AND datname = current_database()`;
    await expect.poll(async () => (await service.sql(end)).length).toBeGreaterThan(0);
    await holder.end();
    for (const [at, { outcome }] of (await ended).entries()) {
      const quantities = (await changesOf(service, at + 1)).map(({ after }) => after);
      expect([outcome, quantities]).toBeOneOf([
        ['done', [100]],
        ['outcome_unknown', [100]],
        ['outcome_unknown', []],
        ['service_unavailable', []],
      ]);
    }
    expect(await setQuantity(service, { quantity: 7 })).toMatchObject({ outcome: 'done' });
  });

  it('an update that PostgreSQL gets after its deadline does not undo a newer one', async () => {
    expect(await setQuantity(remote, { quantity: 5 })).toMatchObject({ outcome: 'done' });
    network.silence();
    onTestFinished(() => network.speak());
    const { outcome } = await setQuantity(remote, { quantity: 6 }, 1_500);
    expect(outcome).toBeOneOf(['service_unavailable', 'outcome_unknown']);
    expect(await setQuantity(service, { quantity: 7 })).toMatchObject({ outcome: 'done' });
    network.speak();
    expect(await setQuantity(remote, { quantity: 8 })).toMatchObject({ outcome: 'done' });
    expect(await changesOf(service, 1)).toMatchObject([{ after: 5 }, { after: 7 }, { after: 8 }]);
  });

  it('an update whose connection is cut after the commit is outcome_unknown, and is not repeated', async () => {
    expect(await setQuantity(remote, { quantity: 5 })).toMatchObject({ outcome: 'done' });
    network.cutBeforeAnswer(1);
    expect(await setQuantity(remote, { quantity: 6 })).toEqual({ outcome: 'outcome_unknown' });
    expect(await setQuantity(remote, { quantity: 7 })).toMatchObject({ outcome: 'done' });
    expect(await changesOf(service, 1)).toMatchObject([{ after: 5 }, { after: 6 }, { after: 7 }]);
  });

  // A pooler ends what a vanished service leaves.
  describe.skipIf(isPooled)('where the network fails', () => {
    /** A service on a network of its own, which has updated pet 1. */
    async function onNetwork(REQUEST_DEADLINE_MS: string) {
      const own = new TcpProxy(service.databaseUrl);
      const url = await own.listen();
      const cutOff = await start({
        databaseUrl: service.databaseUrl,
        settings: { REQUEST_DEADLINE_MS },
        behind: () => Promise.resolve(url),
      });
      expect(await setQuantity(cutOff, { quantity: 5 })).toMatchObject({ outcome: 'done' });
      return { own, port: Number(new URL(url).port), cutOff };
    }

    // PostgreSQL 15 and 16 wait until the kernel has found out that nobody is there, some 25 s.
    it.skipIf(inject('postgresMajor') < 17)(
      'an update whose last message PostgreSQL does not get locks its pet no longer than the service waits',
      async () => {
        const { own, cutOff } = await onNetwork('1000');
        own.withholdCommits();
        const { outcome } = await setQuantity(cutOff, { quantity: 6 }, 2_000);
        expect(outcome).toBeOneOf(['service_unavailable', 'outcome_unknown']);
        expect(await setQuantity(service, { quantity: 7 })).toMatchObject({ outcome: 'done' });
        expect(await changesOf(service, 1)).toMatchObject([{ after: 5 }, { after: 7 }]);
      },
    );

    it('an update whose answer is lost after it has waited for a held pet does not say that nothing was written', async () => {
      const { own, cutOff } = await onNetwork('2500');
      const holder = await service.database.session('SELECT FROM inventory_item WHERE pet_id = 1 FOR UPDATE');
      const update = setQuantity(cutOff, { quantity: 6 }, 1_500);
      await pause(500); // until it waits for the pet; its attempts come and go
      own.delayAnswers(3_000);
      await holder.end();
      const { outcome } = await update;
      const isWritten = (await changesOf(service, 1)).length > 1;
      expect(['outcome_unknown', 'service_unavailable']).toContain(outcome);
      expect([outcome, isWritten]).not.toEqual(['service_unavailable', true]);
    });

    it.each([
      ['is cut at its beginning', (socket: Socket) => void socket.once('data', () => socket.resetAndDestroy())],
      ['has not begun at the deadline', () => undefined],
    ])('an update whose session %s is not applied', async (_, answer) => {
      const { own, port, cutOff } = await onNetwork('2500');
      await own.close();
      const nobody = createServer(answer);
      onTestFinished(() => void nobody.close());
      await once(nobody.listen(port, '127.0.0.1'), 'listening');
      const result = await setQuantity(cutOff, { quantity: 6 }, 900);
      expect(result).toEqual({ outcome: 'service_unavailable' });
    });
  });
});

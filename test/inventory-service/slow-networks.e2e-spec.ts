import { setTimeout as pause } from 'node:timers/promises';
import { beforeAll, describe, expect, it, onTestFinished, vi } from 'vitest';
import type { StockList } from '../../src/inventory/list/stock-list.ts';
import { TcpProxy } from '../support/tcp-proxy.ts';
import { laterThan } from '../support/later-than.ts';
import type { TestService } from '../support/service.ts';
import { bodyOf, readStock } from '../support/stock-lists.ts';
import { listText } from '../support/stock.ts';
import { atTestEnd } from '../support/test-end.ts';
import { eachService } from './services.ts';

const PETS = 13_000;

const quantitiesOf = ({ plain }: StockList) =>
  bodyOf(plain)
    .toString()
    .match(/(?<="quantity":)\d+/g) ?? [];

eachService(({ start }) => {
  let network: TcpProxy;
  let service: TestService;

  beforeAll(async () => {
    const behind = (url: string) => {
      network = new TcpProxy(url);
      return network.listen();
    };
    service = await start({ behind, settings: { REQUEST_DEADLINE_MS: '2000' } });
    await service.list(); // opens connections
  });

  describe('a list over a slow network', () => {
    it('may take longer than its deadline while the database responds, is of one moment, and not from before its request', async () => {
      await service.database.fill(`SELECT n, 0, 'sold' FROM generate_series(1, ${PETS}) n`);
      await atTestEnd(() => service.sql('TRUNCATE inventory_item'));
      network.delayAnswers(250);
      onTestFinished(() => network.delayAnswers(0));
      let isRead = false as boolean;
      const reading = vi.waitFor(() => readStock(service, 1_500), 20_000); // a busy machine may begin too late
      void reading.finally(() => (isRead = true)).catch(() => undefined);
      const from = performance.now();
      const later: Promise<number>[] = [];
      for (let quantity = 1; !isRead; quantity++) {
        await service.sql(`UPDATE inventory_item SET quantity = ${quantity} WHERE pet_id IN (1, ${PETS})`);
        later.push(readStock(service, 25_000).then((list) => Number(quantitiesOf(list)[0]) - quantity));
        await pause(20); // how fast the pets change
      }
      const quantities = quantitiesOf(await reading);
      expect(performance.now() - from).toBeGreaterThan(1_500);
      expect([quantities.length, quantities[0]]).toEqual([PETS, quantities.at(-1)]);
      expect(Math.min(...(await Promise.all(later)))).toBeGreaterThanOrEqual(0);
    });

    it('shows what was committed while the key of another list was being checked', async () => {
      await service.stock([1, 0]);
      await service.list(); // is kept
      network.delayAnswers(120);
      onTestFinished(() => network.delayAnswers(0));
      const before = service.list();
      await pause(60); // its key is checked, but the answer is under way: nothing tells
      await service.sql('UPDATE inventory_item SET quantity = 1');
      expect((await service.list()).text).not.toContain('"quantity":0'); // on a busy machine, it may be 503
      await before;
    });
  });

  describe('a list while the network is silent', () => {
    it('fails at its deadline, and another one waits for its own', async () => {
      network.silence();
      onTestFinished(() => network.speak());
      const lists = [15_000, 500].map((patienceMs) => readStock(service, patienceMs).catch(() => patienceMs));
      expect(await Promise.race([...lists, laterThan(500, 'none')])).toBe(500); // a statement may take 1,600 ms
      network.speak();
      await lists[0];
    });

    it('is not from before the silence when it is asked for afterwards', async () => {
      await service.stock([1, 0]);
      const holder = await service.database.session('LOCK TABLE inventory_item');
      const under = service.list();
      await expect.poll(() => service.database.waitingForLocks(), { interval: 5 }).toBe(1);
      network.silence();
      onTestFinished(() => network.speak());
      await holder.end();
      expect((await under).status).toBe(503);
      await pause(2_500); // until Prisma has given up its ROLLBACK, too
      network.speak();
      for (let quantity = 1; quantity <= 5; quantity++) {
        await service.sql(`UPDATE inventory_item SET quantity = ${quantity}`);
        expect((await service.list()).text).toBe(listText([1, quantity]));
      }
    });
  });
});

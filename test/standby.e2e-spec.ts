import { describe, expect, it, onTestFinished } from 'vitest';
import { ListCache } from '../src/inventory/list-cache.ts';
import { startServiceOfTest } from './support/service.ts';
import { startReplicated } from './support/postgres-server.ts';

const pets = (first: number, second: number) =>
  `[{"petId":1,"quantity":${first},"status":"available"},{"petId":2,"quantity":${second},"status":"sold"}]`;

describe('GET /v1/inventory on a standby', { timeout: 60_000 }, () => {
  it('is the table of the standby at every request, and stays exact when that is promoted', async () => {
    const replicated = await startReplicated();
    onTestFinished(() => replicated.remove());
    const { primary, standby } = replicated;
    const upstream = await startServiceOfTest({ databaseUrl: primary.url });
    await upstream.stock([1, 5], [2, 6, 'sold']);
    await expect.poll(() => standby.sql('SELECT FROM api_key, inventory_item'), { timeout: 10_000 }).toHaveLength(2);
    const service = await startServiceOfTest({ databaseUrl: standby.url, key: upstream.key });
    const cache = service.app.get(ListCache);
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

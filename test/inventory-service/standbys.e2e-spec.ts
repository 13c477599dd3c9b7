import { expect, it } from 'vitest';
import { startReplicated } from '../support/postgres-server.ts';
import { startService } from '../support/service.ts';
import { listText } from '../support/stock.ts';
import { expectLists, startEveryService } from './services.ts';

it('lists on a standby equal its table at every request, and stay exact after its promotion', async () => {
  const { primary, standby } = await startReplicated();
  const upstream = await startService({ databaseUrl: primary.url });
  await upstream.stock([1, 5], [2, 6, 'sold']);
  await expect.poll(() => standby.sql('SELECT FROM api_key, inventory_item')).toHaveLength(2);
  const settings = { REQUEST_DEADLINE_MS: '2500' };
  const services = await startEveryService({ databaseUrl: standby.url, key: upstream.key, settings });
  const first = 'SELECT quantity FROM inventory_item WHERE pet_id = 1';
  for (let quantity = 10; quantity < 16; quantity++) {
    await Promise.all(services.map(({ list }) => list()));
    expect((await upstream.update(1, quantity)).status).toBe(200);
    await expect.poll(() => standby.sql(first), { interval: 5 }).toEqual([{ quantity }]);
    await expectLists(services, listText([1, quantity], [2, 6, 'sold']));
  }
  const refuse = services.map(async ({ name, counts, update }) => {
    expect([name, (await update(1, 3)).status]).toEqual([name, 503]);
    // Its snapshot does not change with every commit.
    expect([name, counts]).toMatchObject([name, { reuses: 0, patches: 0 }]);
  });
  await Promise.all(refuse);

  await standby.sql('SELECT pg_promote()');
  for (const { update } of services) await expect.poll(async () => (await update(1, 3)).status).toBe(200);
  await expectLists(services, listText([1, 3], [2, 6, 'sold']));
  for (const quantity of [7, 8]) {
    await standby.sql(`UPDATE inventory_item SET quantity = ${quantity} WHERE pet_id = 2`);
    await expectLists(services, listText([1, 3], [2, quantity, 'sold']));
  }
});

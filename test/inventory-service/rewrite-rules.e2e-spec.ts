import { randomUUID } from 'node:crypto';
import { beforeAll, expect, it } from 'vitest';
import type { TestService } from '../support/service.ts';
import { listText } from '../support/stock.ts';
import { atTestEnd } from '../support/test-end.ts';
import { setQuantity } from '../support/updates.ts';
import { eachService } from './services.ts';

eachService(({ start }) => {
  let service: TestService;

  beforeAll(async () => {
    service = await start();
  });

  it.each([
    ['nothing', 'UPDATE TO inventory_item DO INSTEAD NOTHING'],
    [
      'the table itself',
      'UPDATE TO inventory_item DO INSTEAD UPDATE inventory_item SET quantity = least(NEW.quantity, 9)',
    ],
    ['no history', 'INSERT TO stock_change DO INSTEAD NOTHING'],
  ])('no update is made while a rule writes %s', async (_, rule) => {
    await service.stock([1, 1], [2, 2]);
    await service.sql(`CREATE RULE most AS ON ${rule}`);
    const table = rule.includes('stock_change') ? 'stock_change' : 'inventory_item';
    await atTestEnd(() => service.sql(`DROP RULE most ON ${table}`));
    const [{ last } = {}] = await service.sql('SELECT max(id) AS last FROM stock_change');
    const from = performance.now();
    const answers = await Promise.all([
      service.update(1, 5),
      service.update(1, 5, [['If-Match', '"available-1"']]),
      service.update(2, 5, [['Idempotency-Key', randomUUID()]]),
    ]);
    expect(performance.now() - from).toBeLessThan(5_000); // not at the deadline, after 9 s
    expect(answers.map(({ status }) => status)).toEqual([503, 503, 503]);
    expect(JSON.parse(answers[0].text)).toMatchObject({ code: 'service_unavailable' });
    expect((await service.list()).text).toBe(listText([1, 1], [2, 2]));
    expect(await service.sql('SELECT FROM stock_change WHERE id > $1', [last])).toEqual([]);
    await service.sql(`ALTER TABLE ${table} DISABLE RULE most`);
    expect(await setQuantity(service, { quantity: 5 })).toMatchObject({ outcome: 'done' });
  });
});

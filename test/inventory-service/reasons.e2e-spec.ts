import { randomUUID } from 'node:crypto';
import { beforeAll, beforeEach, expect, it } from 'vitest';
import { replayed, updated, whole } from '../support/answers.ts';
import type { HeaderLines } from '../support/http-client.ts';
import type { TestService } from '../support/service.ts';
import { eachService } from './services.ts';

eachService(({ start }) => {
  let service: TestService;
  let last: unknown;

  beforeAll(async () => {
    service = await start();
  });
  beforeEach(async () => {
    await service.sql('DELETE FROM inventory_item');
    await service.stock([1, 1], [2, 2]);
    [{ last }] = (await service.sql('SELECT max(id) AS last FROM stock_change')) as [{ last: unknown }];
  });

  /** Since the test began, in their order. */
  const reasons = async () => {
    const rows = await service.sql('SELECT reason FROM stock_change WHERE id > $1 ORDER BY id', [last]);
    return rows.map(({ reason }) => reason);
  };
  const update = async (quantity: number, ...headers: HeaderLines) => whole(await service.update(1, quantity, headers));

  it('a repetition is recognised whatever its reason, and the first one stays', async () => {
    const key = ['Idempotency-Key', randomUUID()] as const;
    expect(await update(5, key, ['Change-Reason', 'return'])).toEqual(updated('1', 5));
    expect(await update(5, key, ['Change-Reason', 'adjustment'])).toEqual(replayed('1', 5));
    expect(await update(5, key)).toEqual(replayed('1', 5));
    expect(await reasons()).toEqual(['return']);
  });

  it('an update takes no reason from a setting, not even of all sessions', async () => {
    await service.database.set('inventory.reason', 'theirs');
    const fresh = await start({ databaseUrl: service.databaseUrl });
    expect(whole(await fresh.update(1, 5))).toEqual(updated('1', 5));
    expect(await reasons()).toEqual([null]);
  });
});

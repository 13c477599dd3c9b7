import { randomUUID } from 'node:crypto';
import { beforeAll, beforeEach, expect, it } from 'vitest';
import { replayed, updated, whole } from '../support/answers.ts';
import type { HeaderLines } from '../support/http-client.ts';
import type { TestService } from '../support/service.ts';
import { setQuantity } from '../support/updates.ts';
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

  it.each<[kind: string, headers: HeaderLines]>([
    ['alone', []],
    ['with If-Match', [['If-Match', '"available-1"']]],
    ['with an Idempotency-Key', [['Idempotency-Key', 'with-a-reason']]],
  ])('a Change-Reason is stored with the change: an update %s', async (_, headers) => {
    expect(await update(5, ...headers, ['Change-Reason', 'new-arrival'])).toEqual(updated('1', 5));
    expect(await update(6)).toEqual(updated('1', 6));
    expect(await reasons()).toEqual(['new-arrival', null]);
  });

  it.each([
    ['without a key', () => null],
    ['of which one has a key', () => randomUUID()],
  ])('the reason of each of several updates that arrive together is stored, %s', async (_, key) => {
    const requested = [
      { petId: 1n, quantity: 5, reason: 'NULL' },
      { petId: 1n, quantity: 6, reason: null },
      { petId: 1n, quantity: 7, reason: 'x'.repeat(64) },
      { petId: 2n, quantity: 8, reason: 'return', idempotencyKey: key() },
    ];
    await Promise.all(requested.map((each) => setQuantity(service, each)));
    const stored = await service.sql(
      'SELECT quantity_after AS quantity, reason FROM stock_change WHERE id > $1 ORDER BY quantity_after',
      [last],
    );
    expect(stored).toEqual(requested.map(({ quantity, reason }) => ({ quantity, reason })));
  });

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

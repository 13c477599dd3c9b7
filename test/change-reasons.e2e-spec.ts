import { randomUUID } from 'node:crypto';
import { beforeAll, beforeEach, describe, expect, it, onTestFinished } from 'vitest';
import { makeKey } from '../src/auth/api-key.format.ts';
import { InventoryService } from '../src/inventory/inventory.service.ts';
import { refused, replayed, updated, whole } from './support/answers.ts';
import type { HeaderLines } from './support/http-client.ts';
import { type TestService, startService } from './support/service.ts';

describe('PATCH /v1/inventory/:petId with a Change-Reason', () => {
  let service: TestService;
  let last: unknown;

  beforeAll(async () => {
    service = await startService();
  });
  beforeEach(async () => {
    await service.sql('RESET ALL; DELETE FROM inventory_item');
    await service.stock([1, 1], [2, 2], [3, 3]);
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
    ['with an Idempotency-Key', [['Idempotency-Key', randomUUID()]]],
  ])('stores the reason with the change: an update %s', async (_, headers) => {
    expect(await update(5, ...headers, ['Change-Reason', 'new-arrival'])).toEqual(updated('1', 5));
    expect(await update(6)).toEqual(updated('1', 6));
    expect(await reasons()).toEqual(['new-arrival', null]);
  });

  it.each([['several updates'], ['several updates, of which one has a key']])(
    'stores the reason of each of %s that share a statement',
    async (kind) => {
      const inventory = service.app.get(InventoryService);
      const others = { ifMatch: null, changedBy: 'key:test', requestId: 'r' };
      const asked = [
        { petId: 1n, quantity: 5, reason: 'NULL' },
        { petId: 1n, quantity: 6, reason: null },
        { petId: 1n, quantity: 7, reason: 'x'.repeat(64) },
        { petId: 2n, quantity: 8, reason: 'return' },
      ];
      const keyOf = (petId: bigint) => (petId === 2n && kind.includes('key') ? randomUUID() : null);
      const made = asked.map((each) =>
        inventory.setQuantity({ ...others, ...each, idempotencyKey: keyOf(each.petId) }, performance.now() + 5_000),
      );
      await Promise.all(made);
      const stored = await service.sql(
        'SELECT quantity_after AS quantity, reason FROM stock_change WHERE id > $1 ORDER BY quantity_after',
        [last],
      );
      expect(stored).toEqual(asked.map(({ quantity, reason }) => ({ quantity, reason })));
    },
  );

  it.each([
    ['is empty', ''],
    ['has 65 characters', 'x'.repeat(65)],
    ['has a space', 'new arrival'],
    ['has another character', 'r\xfcckgabe'],
    ['is quoted', '"return"'],
    ['is a list', 'return,adjustment'],
    ['is an API key', makeKey()],
    ['contains most of an API key', `key-${makeKey().slice(0, 40)}`],
  ])('returns 400, and writes nothing, when the reason %s', async (_, reason) => {
    expect(await update(5, ['Change-Reason', reason])).toEqual(refused.changeReason);
    expect(await reasons()).toEqual([]);
  });

  it('returns 400 when there are two reasons', async () => {
    expect(await update(5, ['Change-Reason', 'return'], ['Change-Reason', 'return'])).toEqual(refused.changeReason);
  });

  it('compares no reason of a repetition, which keeps the first one', async () => {
    const key = ['Idempotency-Key', randomUUID()] as const;
    expect(await update(5, key, ['Change-Reason', 'return'])).toEqual(updated('1', 5));
    expect(await update(5, key, ['Change-Reason', 'adjustment'])).toEqual(replayed('1', 5));
    expect(await update(5, key)).toEqual(replayed('1', 5));
    expect(await reasons()).toEqual(['return']);
  });

  it('takes no reason from a setting, not even of the sessions of all updates', async () => {
    const name = new URL(service.databaseUrl).pathname.slice(1);
    await service.sql(`ALTER DATABASE ${name} SET inventory.reason = 'theirs'`);
    onTestFinished(() => service.sql(`ALTER DATABASE ${name} RESET inventory.reason`).then(() => undefined));
    const fresh = await startService({ databaseUrl: service.databaseUrl });
    expect(whole(await fresh.update(1, 5))).toEqual(updated('1', 5));
    expect(await reasons()).toEqual([null]);
  });
});

describe('a change by SQL', () => {
  it.each([
    ['UPDATE', 'UPDATE inventory_item SET quantity = 9 WHERE pet_id = 1'],
    ['INSERT', `INSERT INTO inventory_item VALUES (2, 2, 'sold')`],
    ['DELETE', 'DELETE FROM inventory_item WHERE pet_id = 1'],
    ['TRUNCATE', 'TRUNCATE inventory_item'],
  ])('has the reason of its transaction: %s', async (_, statement) => {
    const service = await startService();
    await service.stock([1, 1]);
    const reason = 'SELECT reason FROM stock_change ORDER BY id DESC LIMIT 1';
    await service.sql(`BEGIN; SET LOCAL inventory.reason = 'count_2027'; ${statement}; COMMIT`);
    expect(await service.sql(reason)).toEqual([{ reason: 'count_2027' }]);
    await service.sql('DELETE FROM inventory_item WHERE pet_id = 2');
    await service.stock([1, 7]);
    expect(await service.sql(reason)).toEqual([{ reason: null }]);
    for (const value of ['two words', 'x'.repeat(65), makeKey()]) {
      const change = service.database.sql(`SET inventory.reason = '${value}'; ${statement}`);
      const error: unknown = await change.catch((failure: unknown) => failure);
      expect(error).toMatchObject({
        code: '22023',
        message: 'inventory.reason must be 1 to 64 of the characters A-Z, a-z, 0-9, _ and -, and no API key',
      });
      expect(JSON.stringify(error)).not.toContain(value);
    }
    const direct = service.sql(`INSERT INTO stock_change (pet_id, changed_by, reason) VALUES (1, 'test', 'a b')`);
    await expect(direct).rejects.toMatchObject({ constraint: 'stock_change_reason_check' });
  });
});

import { describe, expect, it } from 'vitest';
import { makeKey } from '../src/auth/api-key.format.ts';
import { startService } from './support/service.ts';

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

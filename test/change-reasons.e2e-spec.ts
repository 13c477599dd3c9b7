import type { Client } from 'pg';
import { beforeEach, describe, expect, it } from 'vitest';
import { makeKey } from '../src/keys/api-key-format.ts';
import { type Database, createDatabase } from './support/database.ts';

const CHANGES = [
  ['UPDATE', 'UPDATE inventory_item SET quantity = 9 WHERE pet_id = 1'],
  ['INSERT', `INSERT INTO inventory_item VALUES (2, 2, 'sold')`],
  ['DELETE', 'DELETE FROM inventory_item WHERE pet_id = 1'],
  ['TRUNCATE', 'TRUNCATE inventory_item'],
] as const;

describe('a change by SQL', () => {
  let database: Database;
  let session: Client;

  beforeEach(async () => {
    database = await createDatabase();
    session = await database.session();
    await database.stock([1, 1]);
  });

  it.each(CHANGES)('has the reason of its transaction, and a later one has none: %s', async (_, change) => {
    const newest = async () => (await database.sql('SELECT reason FROM stock_change ORDER BY id DESC LIMIT 1'))[0];
    await session.query(`BEGIN; SET LOCAL inventory.reason = 'count_2027'; ${change}; COMMIT`);
    expect(await newest()).toEqual({ reason: 'count_2027' });
    await session.query(`INSERT INTO inventory_item VALUES (3, 3, 'sold')`);
    expect(await newest()).toEqual({ reason: null });
  });

  it.each(CHANGES)(
    'is refused when its reason has another form, and the error does not show it: %s',
    async (_, change) => {
      for (const reason of ['two words', 'x'.repeat(65), makeKey()]) {
        await session.query(`SET inventory.reason = '${reason}'`);
        const error: unknown = await session.query(change).catch((failure: unknown) => failure);
        expect(error).toMatchObject({
          code: '22023',
          message: 'inventory.reason must be 1 to 64 of the characters A-Z, a-z, 0-9, _ and -, and no API key',
        });
        expect(JSON.stringify(error)).not.toContain(reason);
      }
    },
  );

  it('cannot be put into the history with such a reason', async () => {
    const direct = session.query(`INSERT INTO stock_change (pet_id, changed_by, reason) VALUES (1, 'test', 'a b')`);
    await expect(direct).rejects.toMatchObject({ constraint: 'stock_change_reason_check' });
  });
});

import { hash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { startService } from '../support/service.ts';

describe('the statements of 1.0.0 on the newest schema, beside the newest service', () => {
  it.each(['update', 'update-with-keys'])('keep the history complete and the lists exact: %s', async (update) => {
    const service = await startService();
    await service.stock([1, 5], [2, 6]);
    const old = await service.database.session();
    const run = async (statement: string, ...values: (string | null)[]) => {
      const text = readFileSync(`test/migrations/statements-1.0.0/${statement}.sql`, 'utf8');
      return (await old.query<unknown[]>({ text, values, rowMode: 'array' })).rows;
    };
    const before = (await service.list()).text;
    const digest = hash('sha256', service.key);
    const [[life, transactions, digestOfKey, , scopes, failure] = []] = await run('key-check', `{"\\\\x${digest}"}`);
    expect([digestOfKey, scopes, failure]).toEqual([digest, 'inventory:read inventory:write metrics:read', null]);
    const [[, witness, items, next] = []] = await run('next-items', String(life), '-9223372036854775808');
    expect([items, next]).toEqual([`,${before.slice(1, -1)}`, null]);

    const key = update === 'update' ? 'NULL' : 'once';
    const columns = ['{0}', '{1}', '{7}', '{NULL}', '{t}', '{NULL}', '{key:old}', '{request}', `{${key}}`];
    const lastMs = '9000000000000000';
    expect(await run(update, ...columns, lastMs, '1000')).toEqual([[0, 'done', 'available', 5]]);
    expect((await service.update(1, 8)).status).toBe(200);

    const item = '{"petId":1,"quantity":8,"status":"available"}';
    expect((await service.list()).text).toBe(`[${item},{"petId":2,"quantity":6,"status":"available"}]`);
    expect((await run('changes', String(transactions), String(life)))[0]?.slice(1)).toEqual([
      witness,
      [{ petId: '1', item }],
    ]);
    const history = await service.sql(
      `SELECT quantity_before, quantity_after, changed_by LIKE 'key:%' AS by_key FROM stock_change WHERE pet_id = 1 ORDER BY id`,
    );
    expect(history.map((change) => Object.values(change))).toEqual([
      [null, 5, false],
      [5, 7, true],
      [7, 8, true],
    ]);
  });
});

import { hash } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { listed, refused, updated, whole } from '../support/answers.ts';
import { type HeaderLines, type Question, ask } from '../support/http-client.ts';
import { type TestService, startService } from '../support/service.ts';
import { FIVE } from './raw-requests.ts';

const HEX_DIGITS = '0123456789abcdef';
/** As long as a bootstrap key may be, of every character that RFC 6750 allows. */
const KEY = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~+/=='.padStart(256, HEX_DIGITS);

let service: TestService;
let theList: ReturnType<typeof listed>;
beforeAll(async () => {
  service = await startService({ key: KEY });
  await service.stock([1, 7]);
  const { headers } = await service.list();
  theList = listed('[{"petId":1,"quantity":7,"status":"available"}]', headers['etag'] ?? '');
});
afterAll(() => service.stop());

const authorization = (...values: string[]) => values.map((value) => ['Authorization', value] as const);

async function list(headers: HeaderLines, question: Question = {}) {
  return whole(await ask(service.port, { target: '/v1/inventory', headers, ...question }));
}

function token(name: string): string {
  return `test_${name}_`.padEnd(40, '0') + name;
}

describe('GET /v1/inventory, the Authorization header', () => {
  it.each<[string, string]>([
    ['Authorization', `Bearer ${KEY}`],
    ['authorization', `bearer ${KEY}`],
    ['AUTHORIZATION', `bEaReR ${KEY}`],
    ['Authorization', `\t Bearer ${KEY} \t`],
  ])('lets in under %s, with the scheme in any case', async (name, value) => {
    expect(await list([[name, value]])).toEqual(theList);
  });

  it.each<[string, HeaderLines]>([
    ['no header', []],
    ['an empty one', authorization('')],
    ['the key alone', authorization(KEY)],
    ['Basic', authorization(`Basic ${KEY}`)],
    ['XBearer', authorization(`XBearer ${KEY}`)],
    ['Bearerx', authorization(`Bearerx ${KEY}`)],
    ['another header', [['X-API-Key', KEY]]],
    ['Proxy-Authorization', [['Proxy-Authorization', `Bearer ${KEY}`]]],
    ['a cookie', [['Cookie', `access_token=${KEY}; Authorization=Bearer ${KEY}`]]],
  ])('is missing: %s', async (_, headers) => {
    expect(await list(headers)).toEqual(refused.noKey);
  });

  it.each<[string, string]>([
    ['no token', 'Bearer'],
    ['two spaces', `Bearer  ${KEY}`],
    ['something behind', `Bearer ${KEY} x`],
    ['a list', `Bearer ${KEY}, Bearer ${KEY}`],
    ['quotes', `Bearer "${KEY}"`],
    ['a character short', `Bearer ${KEY.slice(0, -1)}`],
    ['a character long', `Bearer ${KEY}=`],
    ['other case', `Bearer ${KEY.toUpperCase()}`],
    ['an unknown key of our form', `Bearer psk_${'A'.repeat(48)}`],
    ['a key of 7,000 characters', `Bearer ${'x'.repeat(7_000)}`],
    ['characters that no key has', 'Bearer \xe4\xff{}\x7e"'],
    ['the hash of a key', `Bearer ${hash('sha256', KEY)}`],
  ])('has no good key: %s', async (_, value) => {
    expect(await list(authorization(value))).toEqual(refused.badKey);
  });

  it.each([
    ['good and bad', `Bearer ${KEY}`, 'Bearer x'],
    ['good twice', `Bearer ${KEY}`, `Bearer ${KEY}`],
    ['good and empty', `Bearer ${KEY}`, ''],
    ['Basic and good', 'Basic x', `Bearer ${KEY}`],
  ])('is refused when there are two: %s', async (_, ...values) => {
    expect(await list(authorization(...values))).toEqual(refused.badKey);
  });
});

describe('a key outside the Authorization header', () => {
  const form = [['Content-Type', 'application/x-www-form-urlencoded']] as const;
  const json = [['Content-Type', 'application/json']] as const;
  const update = { method: 'PATCH', target: '/v1/inventory/1' };

  it.each<[string, HeaderLines, Question]>([
    ['in the query', [], { target: `/v1/inventory?access_token=${encodeURIComponent(KEY)}` }],
    ['in the query of an update', json, { ...update, target: `${update.target}?access_token=${KEY}`, body: FIVE }],
    ['in a form', form, { ...update, body: `access_token=${encodeURIComponent(KEY)}` }],
    ['in JSON', json, { ...update, body: JSON.stringify({ access_token: KEY, quantity: 1 }) }],
    ['in the body of a read', json, { body: JSON.stringify({ access_token: KEY }) }],
    ['as user information', [], { target: `http://Bearer:x@inventory.test/v1/inventory` }],
  ])('is never looked at: %s', async (_, headers, question) => {
    expect(await list(headers, question)).toEqual(refused.noKey);
    expect(await service.sql('SELECT quantity FROM inventory_item')).toEqual([{ quantity: 7 }]);
  });
});

describe('a stored key', () => {
  it.each([
    ['expired', `UPDATE api_key SET expires_at = now() - interval '1 second'`],
    ['expired this moment', `UPDATE api_key SET expires_at = now()`],
    ['expired in the year 1', `UPDATE api_key SET expires_at = '0001-01-01'`],
    ['expired for ever', `UPDATE api_key SET expires_at = '-infinity'`],
    ['revoked', `UPDATE api_key SET revoked_at = now()`],
    ['revoked in the future of this clock', `UPDATE api_key SET revoked_at = now() + interval '1 hour'`],
    ['revoked and expired', `UPDATE api_key SET revoked_at = now(), expires_at = now()`],
    ['deleted', `DELETE FROM api_key`],
  ])('is refused from the first request after it is %s', async (name, statement) => {
    const key = token(name.replaceAll(' ', '_'));
    await service.addKey(key);
    expect(await list(authorization(`Bearer ${key}`))).toEqual(theList);
    await service.sql(`${statement} WHERE key_sha256 = sha256($1::bytea)`, [Buffer.from(key)]);
    expect(await list(authorization(`Bearer ${key}`))).toEqual(refused.badKey);
  });

  it.each(['inventory:read', 'inventory:write', 'metrics:read'])(
    'does what its scope %s allows and no more',
    async (scope) => {
      const key = token(scope.replace(':', '_'));
      await service.addKey(key, { scopes: [scope] });
      const headers: HeaderLines = [...authorization(`Bearer ${key}`), ['Content-Type', 'application/json']];
      const updateTo7 = { method: 'PATCH', target: '/v1/inventory/1', body: '{"quantity":7}' };
      expect(await list(headers)).toEqual(scope === 'inventory:read' ? theList : refused.forbidden('inventory:read'));
      expect(await list(headers, updateTo7)).toEqual(
        scope === 'inventory:write' ? updated('1', 7) : refused.forbidden('inventory:write'),
      );
    },
  );
});

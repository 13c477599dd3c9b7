import { hash } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { listed, refused, updated, whole } from '../support/answers.ts';
import { type HeaderLines, type Question, ask } from '../support/http-client.ts';
import { type TestService, startService } from '../support/service.ts';

const HEX_DIGITS = '0123456789abcdef';
/** As long as a bootstrap key may be, of every character that RFC 6750 allows. */
const KEY = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~+/=='.padStart(256, HEX_DIGITS);
const LIST = '[{"petId":1,"quantity":7,"status":"available"}]';

let service: TestService;
let entityTag: string;
beforeAll(async () => {
  service = await startService({ key: KEY });
  await service.stock([1, 7]);
  entityTag = (await list(authorization(`Bearer ${KEY}`))).headers['etag'] ?? '';
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
  it.each([['Bearer'], ['bearer'], ['BEARER'], ['bEaReR']])('lets in with the scheme written %s', async (scheme) => {
    expect(await list(authorization(`${scheme} ${KEY}`))).toEqual(listed(LIST, entityTag));
  });

  it.each([['Authorization'], ['authorization'], ['AUTHORIZATION']])('lets in under the name %s', async (name) => {
    expect(await list([[name, `Bearer ${KEY}`]])).toEqual(listed(LIST, entityTag));
  });

  it('may have spaces around its value', async () => {
    expect(await list(authorization(`\t Bearer ${KEY} \t`))).toEqual(listed(LIST, entityTag));
  });

  it.each<[string, HeaderLines]>([
    ['no header', []],
    ['an empty one', authorization('')],
    ['spaces', authorization('   ')],
    ['the key alone', authorization(KEY)],
    ['Basic', authorization(`Basic ${KEY}`)],
    ['XBearer', authorization(`XBearer ${KEY}`)],
    ['Bearerx', authorization(`Bearerx ${KEY}`)],
    ['a colon', authorization(`Bearer:${KEY}`)],
    ['another header', [['X-API-Key', KEY]]],
    ['Proxy-Authorization', [['Proxy-Authorization', `Bearer ${KEY}`]]],
    ['a cookie', [['Cookie', `access_token=${KEY}; Authorization=Bearer ${KEY}`]]],
    ['X-Forwarded-User', [['X-Forwarded-User', 'admin']]],
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
    ['percent-encoding', `Bearer ${encodeURIComponent(KEY)}`],
    ['Bearer twice', `Bearer Bearer ${KEY}`],
    ['an unknown key', `Bearer ${token('unknown')}`],
    ['an unknown key of our form', `Bearer psk_${'A'.repeat(48)}`],
    ['a short key', 'Bearer x'],
    ['a key of 7,000 characters', `Bearer ${'x'.repeat(7_000)}`],
    ['characters that no key has', 'Bearer \xe4\xff{}\x7e"'],
    ['SQL', "Bearer '||pg_sleep(5)||'"],
    ['the hash of a key', `Bearer ${hash('sha256', KEY)}`],
  ])('has no good key: %s', async (_, value) => {
    expect(await list(authorization(value))).toEqual(refused.badKey);
  });

  it.each([
    ['good and bad', `Bearer ${KEY}`, 'Bearer x'],
    ['bad and good', 'Bearer x', `Bearer ${KEY}`],
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
    ['in the query, raw', [], { target: `/v1/inventory?access_token=${KEY}` }],
    [
      'in the query of an update',
      json,
      { ...update, target: `/v1/inventory/1?access_token=${KEY}`, body: '{"quantity":1}' },
    ],
    ['in a form', form, { ...update, body: `access_token=${encodeURIComponent(KEY)}` }],
    ['in JSON', json, { ...update, body: JSON.stringify({ access_token: KEY, quantity: 1 }) }],
    ['in JSON, as a filter', json, { ...update, body: '{"access_token":{"not":"x"}}' }],
    ['in the body of a read', json, { body: JSON.stringify({ access_token: KEY }) }],
    ['as user information', [], { target: `http://Bearer:x@inventory.test/v1/inventory` }],
  ])('is never looked at: %s', async (_, headers, question) => {
    expect(await list(headers, question)).toEqual(refused.noKey);
    expect(await service.sql('SELECT quantity FROM inventory_item')).toEqual([{ quantity: 7 }]);
  });

  it('does no harm beside a good one', async () => {
    const target = '/v1/inventory?access_token=x';
    expect(await list(authorization(`Bearer ${KEY}`), { target })).toEqual(listed(LIST, entityTag));
  });
});

describe('a stored key', () => {
  it.each<[string, string[]]>([
    ['expired', ["now() - interval '1 second'", 'NULL']],
    ['expired this moment', ['now()', 'NULL']],
    ['revoked', ['NULL', 'now()']],
    ['revoked in the future of this clock', ['NULL', "now() + interval '1 hour'"]],
    ['revoked and expired', ['now()', 'now()']],
    ['expired in the year 1', ["'0001-01-01'", 'NULL']],
    ['expired for ever', ["'-infinity'", 'NULL']],
  ])('is refused like any other: %s', async (name, [expires, revoked]) => {
    const key = token(name.replaceAll(' ', '_'));
    await service.addKey(key);
    await service.sql(
      `UPDATE api_key SET expires_at = ${expires ?? ''}, revoked_at = ${revoked ?? ''} WHERE key_sha256 = sha256($1::bytea)`,
      [Buffer.from(key)],
    );
    expect(await list(authorization(`Bearer ${key}`))).toEqual(refused.badKey);
  });

  it('is refused from the first request after its revocation, and its deletion', async () => {
    for (const end of ['UPDATE api_key SET revoked_at = now()', 'DELETE FROM api_key']) {
      const key = token(end.slice(0, 3));
      await service.addKey(key);
      expect(await list(authorization(`Bearer ${key}`))).toEqual(listed(LIST, entityTag));
      await service.sql(`${end} WHERE key_sha256 = sha256($1::bytea)`, [Buffer.from(key)]);
      expect(await list(authorization(`Bearer ${key}`))).toEqual(refused.badKey);
    }
  });

  it('does what its scopes allow and no more', async () => {
    const cases = [
      [['inventory:read'], listed(LIST, entityTag), refused.forbidden('inventory:write')],
      [['inventory:write'], refused.forbidden('inventory:read'), updated('1', 7)],
      [['metrics:read'], refused.forbidden('inventory:read'), refused.forbidden('inventory:write')],
      [[], refused.forbidden('inventory:read'), refused.forbidden('inventory:write')],
    ] as const;
    for (const [scopes, toRead, toWrite] of cases) {
      const key = token(`scope_${scopes.join().replace(':', '_')}`);
      await service.addKey(key, { scopes });
      const headers: HeaderLines = [...authorization(`Bearer ${key}`), ['Content-Type', 'application/json']];
      expect(await list(headers)).toEqual(toRead);
      expect(await list(headers, { method: 'PATCH', target: '/v1/inventory/1', body: '{"quantity":7}' })).toEqual(
        toWrite,
      );
    }
  });
});

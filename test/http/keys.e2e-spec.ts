import { beforeAll, describe, expect, it, onTestFinished, vi } from 'vitest';
import { KeyCheck } from '../../src/keys/key-check.ts';
import { DeadlinePassed, NotApplied } from '../../src/lib/postgres/index.ts';
import { listed, refused, updated, whole } from '../support/answers.ts';
import { type HeaderLines, type Question, ask } from '../support/http-client.ts';
import { type TestService, startService } from '../support/service.ts';
import { listText } from '../support/stock.ts';
import { FIVE } from './raw-requests.ts';

const HEX_DIGITS = '0123456789abcdef';
/** As long as a bootstrap key may be, with every character that RFC 6750 allows. */
const KEY = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~+/=='.padStart(256, HEX_DIGITS);

let service: TestService;
let theList: ReturnType<typeof listed>;
beforeAll(async () => {
  service = await startService({ key: KEY, settings: { REQUEST_DEADLINE_MS: '9000' } });
  await service.stock([1, 7]);
  theList = listed(listText([1, 7]), (await service.list()).headers['etag'] ?? '');
});

const authorization = (...values: string[]) => values.map((value) => ['Authorization', value] as const);
const withKey = (key: string) => authorization(`Bearer ${key}`);

const update = { method: 'PATCH', target: '/v1/inventory/1' };

async function list(headers: HeaderLines, question: Question = {}) {
  return whole(await ask(service.port, { target: '/v1/inventory', headers, ...question }));
}

describe('GET /v1/inventory, the Authorization header', () => {
  it.each([
    ['authorization', `bearer ${KEY}`],
    ['AUTHORIZATION', `\t bEaReR ${KEY} \t`],
    ['Authorization', `Bearer  ${KEY}`],
    ['Authorization', `bearer${' '.repeat(7_000)}${KEY}`],
  ])('is accepted in any case, with spaces around it and before the key: %s', async (name, value) => {
    expect(await list([[name, value]])).toEqual(theList);
  });

  it.each<[string, HeaderLines]>([
    ['an empty value', authorization('')],
    ['the key alone', authorization(KEY)],
    ['XBearer', authorization(`XBearer ${KEY}`)],
    ['a tab instead of a blank', authorization(`Bearer\t${KEY}`)],
    ['two headers of other schemes', authorization('Basic x', 'Digest y')],
    ['Proxy-Authorization', [['Proxy-Authorization', `Bearer ${KEY}`]]],
    ['a cookie', [['Cookie', `access_token=${KEY}; Authorization=Bearer ${KEY}`]]],
  ])('counts as missing: %s', async (_, headers) => {
    expect(await list(headers)).toEqual(refused.noKey);
  });

  it.each<[string, ...values: string[]]>([
    ['no token', 'Bearer'],
    ['no token, and blanks', 'Bearer   '],
    ['a tab behind the blank', `Bearer \t${KEY}`],
    ['text behind the key', `Bearer ${KEY} x`],
    ['a list', `Bearer ${KEY}, Bearer ${KEY}`],
    ['a key without its last character', `Bearer ${KEY.slice(0, -1)}`],
    ['a key in another case', `Bearer ${KEY.toUpperCase()}`],
    ['an unknown key of the usual form', `Bearer psk_${'A'.repeat(48)}`],
    ['a key of 7,000 characters', `Bearer ${'x'.repeat(7_000)}`],
    ['characters that no key has', 'Bearer \xe4\xff{}\x7e"'],
    ['two headers, the first one good', `Bearer ${KEY}`, ''],
    ['two headers, the second one good', 'Basic x', `Bearer ${KEY}`],
  ])('is refused: %s', async (_, ...values) => {
    expect(await list(authorization(...values))).toEqual(refused.badKey);
  });
});

describe('a key outside the Authorization header', () => {
  const FORM = [['Content-Type', 'application/x-www-form-urlencoded']] as const;
  const JSON_TYPE = [['Content-Type', 'application/json']] as const;

  it.each<[string, HeaderLines, Question]>([
    ['the query of a list', [], { target: `/v1/inventory?access_token=${encodeURIComponent(KEY)}` }],
    ['the query of an update', JSON_TYPE, { ...update, target: `${update.target}?access_token=${KEY}`, body: FIVE }],
    ['a form', FORM, { ...update, body: `access_token=${encodeURIComponent(KEY)}` }],
    ['JSON', JSON_TYPE, { ...update, body: JSON.stringify({ access_token: KEY, quantity: 1 }) }],
    ['user information', [], { target: `http://Bearer:${encodeURIComponent(KEY)}@inventory.test/v1/inventory` }],
  ])('is ignored in %s', async (_, headers, question) => {
    expect(await list(headers, question)).toEqual(refused.noKey);
    expect(await service.sql('SELECT quantity FROM inventory_item')).toEqual([{ quantity: 7 }]);
  });
});

describe('a stored key', () => {
  it.each([
    ['expired', `UPDATE api_key SET expires_at = now()`],
    ['expired at -infinity', `UPDATE api_key SET expires_at = '-infinity'`],
    ['revoked', `UPDATE api_key SET revoked_at = now()`],
    ['with a revocation time in the future', `UPDATE api_key SET revoked_at = now() + interval '1 hour'`],
    ['deleted', `DELETE FROM api_key`],
  ])('is refused from the first request after it is %s', async (name, statement) => {
    for (const question of [{ method: 'GET' }, update]) {
      const key = `${question.method}_${name.replaceAll(' ', '_')}`.padStart(40, '0');
      await service.addKey(key, { id: key });
      expect(await list(withKey(key))).toEqual(theList);
      await service.sql(`${statement} WHERE key_sha256 = sha256($1::bytea)`, [Buffer.from(key)]);
      expect(await list(withKey(key), question)).toEqual(refused.badKey);
    }
  });

  it.each(['inventory:read', 'inventory:write', 'metrics:read'])('has only its scope: %s', async (scope) => {
    const key = scope.replace(':', '_').padStart(40, '0');
    await service.addKey(key, { scopes: [scope] });
    const headers: HeaderLines = [...withKey(key), ['Content-Type', 'application/json']];
    const updateTo7 = { ...update, body: '{"quantity":7}' };
    const mayRead = scope === 'inventory:read';
    const mayWrite = scope === 'inventory:write';
    expect(await list(headers)).toEqual(mayRead ? theList : refused.forbidden('inventory:read'));
    expect(await list(headers, updateTo7)).toEqual(mayWrite ? updated('1', 7) : refused.forbidden('inventory:write'));
  });

  it('notes its last use every ten minutes, and no use that was refused', async () => {
    const ids = ['revoked', 'used', 'later'];
    const use = (id: string) => list(withKey(id.padStart(40, '1')));
    for (const id of ids) await service.addKey(id.padStart(40, '1'), { id });
    const justUsed = () =>
      service.sql(`SELECT id FROM api_key WHERE id = ANY ($1) AND last_used_at > now() - interval '1 min'`, [ids]);
    await service.sql(`UPDATE api_key SET revoked_at = now() WHERE id = 'revoked'`);
    expect(await use('revoked')).toEqual(refused.badKey);
    expect(await use('used')).toEqual(theList);
    await expect.poll(justUsed).toEqual([{ id: 'used' }]);
    await service.sql(`UPDATE api_key SET last_used_at = '2020-01-01' WHERE id = 'used'`);
    const now = performance.now.bind(performance);
    const clock = vi.spyOn(performance, 'now');
    onTestFinished(() => clock.mockRestore());
    clock.mockImplementation(() => now() + 9 * 60_000);
    for (const id of ['used', 'later']) expect(await use(id)).toEqual(theList);
    await expect.poll(justUsed).toEqual([{ id: 'later' }]);
    clock.mockImplementation(() => now() + 10 * 60_000);
    expect(await use('used')).toEqual(theList);
    await expect.poll(justUsed).toHaveLength(2);
  });

  it('is let in while its use cannot be noted yet', async () => {
    const key = 'noted'.padStart(40, '0');
    await service.addKey(key, { id: 'noted' });
    const holder = await service.database.session(`SELECT FROM api_key WHERE id = 'noted' FOR UPDATE`);
    expect(await list(withKey(key))).toEqual(theList);
    await holder.query('COMMIT');
    const noted = `SELECT FROM api_key WHERE id = 'noted' AND last_used_at IS NOT NULL`;
    await expect.poll(() => service.sql(noted)).toHaveLength(1);
  });

  it('is let in when its use cannot be noted at all', async () => {
    const key = 'unnoted'.padStart(40, '0');
    await service.addKey(key);
    await service.sql('ALTER TABLE api_key ADD CONSTRAINT unused CHECK (last_used_at IS NULL) NOT VALID');
    onTestFinished(() => service.sql('ALTER TABLE api_key DROP CONSTRAINT unused').then(() => undefined));
    expect(await list(withKey(key))).toEqual(theList);
    expect(await list(withKey(KEY))).toEqual(theList); // an unhandled rejection of the UPDATE would fail the run by now
  });

  it('is checked again when PostgreSQL ends the session of its check', async () => {
    const holder = await service.database.session('LOCK TABLE api_key');
    const answer = list(withKey(KEY));
    const checks = `pg_stat_activity WHERE datname = current_database() AND application_name = 'inventory key check'
      AND wait_event_type = 'Lock'`;
    const end = `SELECT pg_terminate_backend(pid, 5000) AS ended FROM ${checks}`;
    await expect.poll(() => service.sql(end)).toEqual([{ ended: true }]);
    await holder.query('COMMIT');
    expect(await answer).toEqual(theList);
  });

  it('is not checked, and nothing is written, when the check hangs until the deadline', async () => {
    await service.database.session('LOCK TABLE api_key');
    const checked = service.app.get(KeyCheck).check('00', performance.now() + 300);
    await expect(checked).rejects.toBeInstanceOf(NotApplied);
    await expect(checked).rejects.toMatchObject({ cause: expect.any(DeadlinePassed) as unknown }); // not a later bound, such as lock_timeout
  });
});

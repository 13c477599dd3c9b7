import { beforeAll, describe, expect, it } from 'vitest';
import { type WholeAnswer, answer, refused, updated, whole } from '../support/answers.ts';
import { ask } from '../support/http-client.ts';
import { PATHS, allowAt } from '../support/paths.ts';
import { type TestService, startService } from '../support/service.ts';
import { listText } from '../support/stock.ts';

const LIST = allowAt('/v1/inventory');
const ITEM = allowAt('/v1/inventory/:petId');

let service: TestService;
beforeAll(async () => {
  service = await startService();
  await service.stock([1, 7]);
});

async function request(method: string, target: string, { withKey = true } = {}): Promise<WholeAnswer> {
  const headers = withKey ? { Authorization: `Bearer ${service.key}` } : {};
  return whole(await ask(service.port, { method, target, headers }));
}

describe('the path', () => {
  it.each([
    '/v1/inventory?',
    '/v1/inventory?limit=0&petId=2&petId=3&a[b]=c&__proto__[x]=1',
    '/v1/inventory?%',
    `/v1/inventory?${'x'.repeat(2_000)}`,
    'http://inventory.test/v1/inventory',
    'HTTPS://elsewhere.test:81/v1/inventory?x',
  ])('%s leads to the list', async (target) => {
    expect(await request('GET', target)).toMatchObject({ status: 200, body: listText([1, 7]) });
  });

  it.each([
    ...['/v1/pet/1', '/v1/pets', '/v1/store/order/1', '/v1/orders'], // pets and orders belong to other services
    ...['/v1', '/v2/inventory', '/inventory', '/v1/inventoryx', '/v1/inventory/1/2', '/health'], // other segments
    ...['/V1/inventory', '/v1/inventory;x=1', '/v1\\inventory', '/*', '/__proto__'], // other characters
    ...['/v1/inventory/', '/v1//inventory', '//v1/inventory', '/v1/inventory/1/', '/metrics/'], // more slashes
    ...['/v1/./inventory', '/v1/x/../inventory', '/docs/../v1/inventory', '/docs/..%2f..%2fpackage.json'], // dots
    ...['/v1/%69nventory', '/v1%2Finventory', '/v1/inventory%20', '/%', '/%FF'], // percent-encoding
    ...[
      'http://inventory.test/V1/inventory',
      'http://inventory.test//v1/inventory',
      'http://inventory.test/v1\\inventory',
      '/v1http://inventory.test/inventory',
    ],
  ])('%s leads nowhere', async (target) => {
    expect(await request('GET', target)).toEqual(refused.noRoute);
    expect(await request('PATCH', target, { withKey: false })).toEqual(refused.noRoute);
    expect(await request('OPTIONS', target)).toEqual(refused.noRoute);
  });

  it.each(['*', '/v1/inventory#x', 'http:///v1/inventory', 'http://?x', 'http://a/#', 'http://a\\b/v1', 'ftp://a/x'])(
    '%s is refused as malformed',
    async (target) => {
      expect(await request('GET', target)).toEqual(refused.target);
    },
  );

  it.each(['v1/inventory', '/a\tb', '/\xe4', '/v1/inventory/1\xa0'])('%j is refused by Node.js', async (target) => {
    expect(await request('GET', target)).toEqual(refused.target);
  });

  it('is refused when it is longer than 2,048 characters', async () => {
    const longest = '/'.padEnd(2_048, 'x');
    expect(await request('GET', longest)).toEqual(refused.noRoute);
    const headers = { X: 'x'.repeat(16_300) };
    expect(whole(await ask(service.port, { target: longest, headers }))).toEqual(refused.headersTooLarge);
    for (const length of [2_049, 9_000, 60_000, 200_000]) {
      expect(await request('GET', '/'.padEnd(length, 'x'))).toEqual(refused.targetTooLong);
    }
  });
});

describe('the petId in the path', () => {
  const setTo2 = async (petId: string) => whole(await service.update(petId, 2));

  it.each(['0', '-1', '9007199254740993', '9223372036854775807', '-9223372036854775808'])(
    'keeps every digit of %s in the request and the response',
    async (petId) => {
      await service.stock([petId, 1, 'pending']);
      expect(await setTo2(petId)).toEqual(updated(petId, 2, 'pending'));
      const rows = await service.sql('DELETE FROM inventory_item WHERE pet_id = $1 RETURNING quantity', [petId]);
      expect(rows).toEqual([{ quantity: 2 }]);
    },
  );

  it.each([
    ...['abc', '1.0', '1e3', '0x1', '+1', '01', '-01', '-0', '-', '1;x=1', '.'], // not canonical decimal
    ...['%201', '%31', '1%00', '%', '%D9%A1', '1%2F2'], // never decoded
    ...['9223372036854775808', '-9223372036854775809', '18446744073709551617', '9'.repeat(500)], // beyond 64 bits
  ])('is refused and changes nothing: %s', async (petId) => {
    expect(await setTo2(petId)).toEqual(refused.petId);
    expect(await service.sql('SELECT * FROM inventory_item')).toMatchObject([{ pet_id: '1', quantity: 7 }]);
  });
});

describe('the method', () => {
  const METHODS = ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'TRACE', 'PROPFIND', 'QUERY', 'PURGE', 'M-SEARCH'];
  const ALLOWED = [
    ...PATHS.map((path) => [path.replace(':petId', '1'), allowAt(path)] as const),
    ...['/v1/inventory/1?_method=PATCH', '/v1/inventory/%00'].map((path) => [path, ITEM] as const),
  ];
  const READ = ALLOWED.filter(([target, allow]) => allow.includes('GET') && target !== '/metrics');

  it.each(ALLOWED)('at %s is refused unless it is one of %s', async (target, allow) => {
    for (const method of METHODS.filter((each) => !allow.split(', ').includes(each))) {
      const expected = method === 'HEAD' ? { ...refused.method(allow), body: '' } : refused.method(allow);
      for (const withKey of [true, false]) expect(await request(method, target, { withKey }), method).toEqual(expected);
    }
  });

  it.each([
    ...ALLOWED,
    ['*', allowAt(...PATHS)],
    ...['http://inventory.test', 'http://inventory.test?x'].map((target) => [target, 'GET, HEAD, OPTIONS'] as const),
    ['http://inventory.test/v1/inventory', LIST],
  ] as const)('OPTIONS at %s needs no key and returns Allow: %s', async (target, allow) => {
    expect(await request('OPTIONS', target, { withKey: false })).toEqual(answer(204, { allow }));
  });

  it.each(READ)('HEAD returns the headers of GET without the body: %s', async (target) => {
    const headers = { Authorization: `Bearer ${service.key}` };
    const got = await ask(service.port, { target, headers });
    const head = await ask(service.port, { method: 'HEAD', target, headers });
    expect(whole(head)).toEqual({ ...whole(got), body: '' });
    expect(head.headers['content-length']).toBe(got.headers['content-length']);
    expect(head.headers['keep-alive']).toBe('timeout=65');
  });

  it('HEAD is refused as GET is', async () => {
    expect(await request('HEAD', '/v1/inventory', { withKey: false })).toEqual({ ...refused.noKey, body: '' });
    expect(await request('HEAD', '/nothing')).toEqual({ ...refused.noRoute, body: '' });
  });

  it.each(['get', 'Patch', 'FOO', 'GETX', 'M-', '!', 'G\0T', 'G\xc4T', 'get(', ' FOO', ''])(
    '%j is refused by Node.js',
    async (method) => {
      expect(await request(method, '/v1/inventory')).toEqual(refused.unknownMethod);
    },
  );

  it.each(['127.0.0.1:5432', '/v1/inventory'])('CONNECT to %s is refused', async (target) => {
    expect(await request('CONNECT', target)).toEqual(refused.connect);
  });

  it('cannot be overridden by a header', async () => {
    const headers = { 'X-HTTP-Method-Override': 'PATCH', 'X-Method-Override': 'PATCH' };
    const override = { method: 'POST', target: '/v1/inventory/1', headers };
    expect(whole(await ask(service.port, override))).toEqual(refused.method(ITEM));
  });
});

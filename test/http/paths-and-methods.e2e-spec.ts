import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type WholeAnswer, answer, refused, updated, whole } from '../support/answers.ts';
import { ask } from '../support/http-client.ts';
import { type TestService, startService } from '../support/service.ts';

const LIST = 'GET, HEAD, OPTIONS';
const ITEM = 'OPTIONS, PATCH';
const SERVICE = 'GET, HEAD, OPTIONS, PATCH';

let service: TestService;
beforeAll(async () => {
  service = await startService();
  await service.stock([1, 7]);
});
afterAll(() => service.stop());

async function request(method: string, target: string, { withKey = true } = {}): Promise<WholeAnswer> {
  const headers = withKey ? { Authorization: `Bearer ${service.key}` } : {};
  return whole(await ask(service.port, { method, target, headers }));
}

describe('the path', () => {
  it.each([
    '/v1/inventory?',
    '/v1/inventory?limit=0&petId=2&petId=3&a[b]=c&__proto__[x]=1',
    '/v1/inventory?%',
    '/v1/inventory?/../../x',
    `/v1/inventory?${'x'.repeat(2_000)}`,
    'http://inventory.test/v1/inventory',
    'http://elsewhere.test:81/v1/inventory?x',
    'HTTPS://elsewhere.test/v1/inventory',
  ])('%s is the list', async (target) => {
    const body = '[{"petId":1,"quantity":7,"status":"available"}]';
    expect(await request('GET', target)).toMatchObject({ status: 200, body });
  });

  async function expectNoRoute(target: string): Promise<void> {
    expect(await request('GET', target)).toEqual(refused.noRoute);
    expect(await request('PATCH', target, { withKey: false })).toEqual(refused.noRoute);
    expect(await request('OPTIONS', target)).toEqual(refused.noRoute);
  }

  it.each(['/v1', '/v2/inventory', '/inventory', '/v1/inventor', '/v1/inventoryx', '/v1/inventory/1/2', '/health'])(
    '%s is none: too much or too little of one',
    expectNoRoute,
  );

  it.each(['/V1/inventory', '/v1/inventory;x=1', '/v1/inventory.json', '/v1\\inventory', '/*', '/__proto__', '/.env'])(
    '%s is none: it is no other way to write one',
    expectNoRoute,
  );

  it.each(['/v1/inventory/', '/v1//inventory', '//v1/inventory', '/v1/inventory/1/', '/health/live/', '/metrics/'])(
    '%s is none: every slash counts',
    expectNoRoute,
  );

  it.each(['/v1/./inventory', '/v1/x/../inventory', '/docs/../v1/inventory', '/docs/..%2f..%2fpackage.json'])(
    '%s is none: dots are not resolved',
    expectNoRoute,
  );

  it.each(['/v1/%69nventory', '/v1%2Finventory', '/v1/inventory%20', '/v1/%2e%2e/v1/inventory', '/%', '/%zz', '/%FF'])(
    '%s is none: nothing is decoded',
    expectNoRoute,
  );

  it.each(['http://inventory.test/V1/inventory', 'http://inventory.test//v1/inventory', 'http://a/v1\\inventory'])(
    '%s is none: a host before it makes no difference',
    expectNoRoute,
  );

  it.each(['*', '/v1/inventory#x', '/#', 'http://', 'http:///v1/inventory', 'http://?x', 'http://a/#', 'ftp://a/x'])(
    '%s is malformed',
    async (target) => {
      expect([refused.target, refused.malformed]).toContainEqual(await request('GET', target));
    },
  );

  it.each(['v1/inventory', 'inventory.test:80', '/a\tb', '/a\x7fb', '/\xe4', '/v1/inventory/1\xa0'])(
    '%j is none that HTTP knows',
    async (target) => {
      expect(await request('GET', target)).toEqual(refused.malformed);
      expect(await request('PATCH', target)).toEqual(refused.malformed);
    },
  );

  it('of 2,048 characters is judged, a longer one is not', async () => {
    expect(await request('GET', '/'.padEnd(2_048, 'x'))).toEqual(refused.noRoute);
    for (const length of [2_049, 8_000, 9_000, 60_000]) {
      expect(await request('GET', '/'.padEnd(length, 'x'))).toEqual(refused.targetTooLong);
    }
  });
});

describe('the petId in the path', () => {
  const setTo2 = async (petId: string) => whole(await service.update(petId, 2));

  it.each(['0', '-1', '9007199254740993', '9223372036854775807', '-9223372036854775808'])(
    'keeps every digit of %s, in and out',
    async (petId) => {
      await service.stock([petId, 1, 'pending']);
      expect(await setTo2(petId)).toEqual(updated(petId, 2, 'pending'));
      const rows = await service.sql('DELETE FROM inventory_item WHERE pet_id = $1 RETURNING quantity', [petId]);
      expect(rows).toEqual([{ quantity: 2 }]);
    },
  );

  it('finds no pet beside the one that a double cannot tell from it', async () => {
    await service.stock(['9007199254740993', 1]);
    expect(await setTo2('9007199254740992')).toEqual(refused.noPet);
    await service.sql('DELETE FROM inventory_item WHERE pet_id = 9007199254740993');
  });

  const refusesPetId = async (petId: string) => {
    expect(await setTo2(petId)).toEqual(refused.petId);
  };

  it.each(['abc', '1.0', '1e3', '0x1', '+1', '01', '-01', '-0', '-', 'null', '1;x=1', '*', "1'", '.'])(
    'is refused when it is no canonical decimal: %s',
    refusesPetId,
  );

  it.each(['%201', '%31', '1%00', '%FF', '%', '%D9%A1', '1%2F2', '%2e%2e'])(
    'is refused as it stands, whatever it encodes: %s',
    refusesPetId,
  );

  it.each(['9223372036854775808', '-9223372036854775809', '18446744073709551617', '9'.repeat(500)])(
    'is refused when 64 bits do not hold it: %s',
    refusesPetId,
  );

  it('changes nothing when it is refused', async () => {
    expect(await service.sql('SELECT * FROM inventory_item')).toMatchObject([{ pet_id: '1', quantity: 7 }]);
  });
});

describe('the method', () => {
  const METHODS = ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'TRACE', 'PROPFIND', 'QUERY', 'PURGE', 'M-SEARCH'];

  const ALLOWED: [target: string, allow: string][] = [
    ['/v1/inventory', LIST],
    ['/v1/inventory/1?x=1', ITEM],
    ['/v1/inventory/%00', ITEM],
    ['/health/live', LIST],
    ['/health/ready', LIST],
    ['/openapi.json', LIST],
    ['/openapi.yaml', LIST],
    ['/docs', LIST],
    ['/metrics', LIST],
  ];

  it.each(ALLOWED)('at %s is one of %s, or refused', async (target, allow) => {
    for (const method of METHODS.filter((each) => !allow.split(', ').includes(each))) {
      const expected = refused.method(allow);
      const withoutBody = method === 'HEAD' ? { ...expected, body: '' } : expected;
      expect(await request(method, target), method).toEqual(withoutBody);
      expect(await request(method, target, { withKey: false }), method).toEqual(withoutBody);
    }
  });

  it.each([...ALLOWED, ['*', SERVICE], ['http://inventory.test/v1/inventory', LIST]])(
    'OPTIONS tells what %s takes, to whoever asks',
    async (target, allow) => {
      expect(await request('OPTIONS', target, { withKey: false })).toEqual(answer(204, { allow }));
    },
  );

  it.each(['/v1/inventory', '/health/live', '/health/ready', '/openapi.json', '/openapi.yaml', '/docs'])(
    'HEAD answers as GET does at %s, without the body',
    async (target) => {
      const headers = { Authorization: `Bearer ${service.key}` };
      const got = await ask(service.port, { target, headers });
      const head = await ask(service.port, { method: 'HEAD', target, headers });
      expect(whole(head)).toEqual({ ...whole(got), body: '' });
      expect(head.headers['content-length']).toBe(got.headers['content-length']);
    },
  );

  it('HEAD is refused as GET is', async () => {
    expect(await request('HEAD', '/v1/inventory', { withKey: false })).toEqual({ ...refused.noKey, body: '' });
    expect(await request('HEAD', '/nothing')).toEqual({ ...refused.noRoute, body: '' });
  });

  it.each(['FOO', 'get', 'GETT', 'GE', 'G\0T', '"GET"', 'PRI'])('%j is none that HTTP knows here', async (method) => {
    expect(await request(method, '/v1/inventory')).toEqual(refused.malformed);
  });

  it.each(['127.0.0.1:5432', '/v1/inventory'])('CONNECT to %s is refused', async (target) => {
    expect(await request('CONNECT', target)).toEqual(refused.connect);
  });

  it('cannot be overridden by a header or the query', async () => {
    const names = ['X-HTTP-Method-Override', 'X-HTTP-Method', 'X-Method-Override'];
    const headers = names.map((name) => [name, 'PATCH'] as const);
    const target = '/v1/inventory/1?_method=PATCH';
    expect(whole(await ask(service.port, { method: 'POST', target, headers }))).toEqual(refused.method(ITEM));
  });
});

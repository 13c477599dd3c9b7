import { beforeAll, describe, expect, it } from 'vitest';
import { PATHS, allowAt, methodsAt } from '../support/paths.ts';
import { startService, type TestService } from '../support/service.ts';

const SHOP = 'https://shop.example';
const PREFLIGHT = { method: 'OPTIONS', headers: { 'Access-Control-Request-Method': 'PATCH' } };

let service: TestService;
let closed: TestService;
beforeAll(async () => {
  service = await startService({ settings: { CORS_ORIGINS: `${SHOP},http://localhost:5173`, DOCS: 'off' } });
  closed = await startService();
});

/** The status and the headers that a page of `origin` gets. */
async function ask({ url, key }: TestService, path: string, origin: string, init: RequestInit = {}) {
  const headers = { Authorization: `Bearer ${key}`, ...(init.headers as object), Origin: origin };
  const { status, headers: answered } = await fetch(url + path, { ...init, headers });
  return { status, ...Object.fromEntries(answered) };
}

describe('CORS_ORIGINS', () => {
  it.each<[string, number, string, RequestInit]>([
    ['a list', 200, '/v1/inventory', {}],
    ['a request without a key', 401, '/v1/inventory', { headers: { Authorization: 'Bearer no' } }],
    ['an update', 400, '/v1/inventory/1', { method: 'PATCH' }],
    ['an unknown path', 404, '/v1/nothing', {}],
  ])('lets pages of its origins read the answer to %s', async (_, status, path, init) => {
    const answer = await ask(service, path, SHOP, init);
    expect(answer).toMatchObject({
      status,
      'access-control-allow-origin': SHOP,
      'access-control-expose-headers': 'ETag,Idempotent-Replayed,RateLimit,RateLimit-Policy,Retry-After,X-Request-Id',
      vary: status === 200 ? 'Origin, Accept-Encoding' : 'Origin',
      'x-content-type-options': 'nosniff',
    });
    expect(answer).not.toHaveProperty('access-control-allow-credentials');
  });

  it('answers a preflight request', async () => {
    expect(await ask(service, '/v1/inventory/1', SHOP, PREFLIGHT)).toMatchObject({
      status: 204,
      allow: allowAt('/v1/inventory/:petId'),
      'access-control-allow-origin': SHOP,
      'access-control-allow-methods': methodsAt(...PATHS).join(),
      'access-control-allow-headers':
        'Authorization,Change-Reason,Content-Type,Idempotency-Key,If-Match,If-None-Match,X-Request-Id',
      'access-control-max-age': '600',
    });
    expect(await ask(service, '/v1/nothing', SHOP, PREFLIGHT)).toMatchObject({ status: 404 });
  });

  it('lets pages of each of its origins read', async () => {
    const another = 'http://localhost:5173';
    expect(await ask(service, '/v1/inventory', another)).toHaveProperty('access-control-allow-origin', another);
  });

  it('lets no page read the refusal of a target that is too long', async () => {
    const refusal = await ask(service, `/v1/${'x'.repeat(3_000)}`, SHOP);
    expect(refusal).toMatchObject({ status: 414 });
    expect(refusal).not.toHaveProperty('access-control-allow-origin');
  });

  it('lets no page of another origin read anything, and no page at all when it is empty', async () => {
    for (const init of [{}, PREFLIGHT]) {
      const toOther = await ask(service, '/v1/inventory', 'https://other.example', init);
      const ofClosed = await ask(closed, '/v1/inventory', SHOP, init);
      expect({ ...toOther, ...ofClosed }).not.toHaveProperty('access-control-allow-origin');
    }
  });
});

describe('DOCS=off', () => {
  it.each(['/', '/docs', '/docs/swagger-ui-init.js', '/openapi.json'])('removes %s', async (path) => {
    const answer = await fetch(service.url + path, { redirect: 'manual' });
    expect([answer.status, await answer.json()]).toMatchObject([404, { code: 'not_found' }]);
  });
});

import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { startService, type TestService } from '../support/service.ts';

const SHOP = 'https://shop.example';
const OTHER = 'https://other.example';

let service: TestService;
let closed: TestService;

beforeAll(async () => {
  service = await startService({ settings: { CORS_ORIGINS: `${SHOP},http://localhost:5173`, DOCS: 'off' } });
  closed = await startService();
  await service.stock([1, 5]);
});
afterAll(() => Promise.all([service.stop(), closed.stop()]));

describe('CORS_ORIGINS', () => {
  async function ask({ url, key }: TestService, path: string, origin: string, init: RequestInit = {}) {
    const headers = { Authorization: `Bearer ${key}`, ...(init.headers as object), Origin: origin };
    const answer = await fetch(url + path, { ...init, headers });
    await answer.text();
    return { status: answer.status, header: (name: string) => answer.headers.get(name) };
  }
  const preflight = { method: 'OPTIONS', headers: { 'Access-Control-Request-Method': 'PATCH' } };

  it('lets the pages of an origin that it names read lists, updates and errors', async () => {
    const update = { method: 'PATCH', body: '{"quantity":1}', headers: { 'Content-Type': 'application/json' } };
    for (const [path, init, status] of [
      ['/v1/inventory', {}, 200],
      ['/v1/inventory', { headers: { Authorization: 'Bearer no' } }, 401],
      ['/v1/inventory/77', update, 404],
      ['/v1/nothing', {}, 404],
    ] as const) {
      const answer = await ask(service, path, SHOP, init);
      expect([answer.status, answer.header('access-control-allow-origin')]).toEqual([status, SHOP]);
      expect(answer.header('access-control-expose-headers')).toContain('ETag');
      expect(answer.header('access-control-allow-credentials')).toBeNull();
      expect(answer.header('vary')).toContain('Origin');
      expect(answer.header('x-content-type-options')).toBe('nosniff');
    }
    expect((await ask(service, '/v1/inventory', SHOP)).header('vary')).toBe('Origin, Accept-Encoding');
  });

  it('answers a preflight as it answers OPTIONS', async () => {
    const answer = await ask(service, '/v1/inventory/1', SHOP, preflight);
    expect([answer.status, answer.header('allow')]).toEqual([204, 'OPTIONS, PATCH']);
    expect(answer.header('access-control-allow-origin')).toBe(SHOP);
    expect(answer.header('access-control-allow-methods')).toBe('GET,HEAD,PATCH');
    expect(answer.header('access-control-allow-headers')).toContain('If-Match');
    expect((await ask(service, '/v1/nothing', SHOP, preflight)).status).toBe(404);
  });

  it('lets no other page read anything, and none where it names nobody', async () => {
    for (const init of [{}, preflight]) {
      const answers = [
        await ask(service, '/v1/inventory', OTHER, init),
        await ask(closed, '/v1/inventory', SHOP, init),
      ];
      for (const answer of answers) expect(answer.header('access-control-allow-origin')).toBeNull();
    }
  });
});

describe('DOCS=off', () => {
  it.each(['/', '/docs', '/docs/docs.js', '/openapi.json', '/openapi.yaml'])('has nothing at %s', async (path) => {
    const answer = await fetch(service.url + path, { redirect: 'manual' });
    expect([answer.status, await answer.json()]).toMatchObject([404, { code: 'not_found' }]);
  });
});

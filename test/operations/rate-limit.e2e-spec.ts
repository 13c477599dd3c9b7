import { expect, it } from 'vitest';
import { startService } from '../support/service.ts';

it('the rate limit refuses further requests of the same key in the same minute, and sends Retry-After', async () => {
  const limited = await startService({ settings: { RATE_LIMIT_PER_MINUTE: '3' } });
  const list = (key: string) => fetch(`${limited.url}/v1/inventory`, { headers: { Authorization: `Bearer ${key}` } });
  for (const left of [2, 1, 0]) {
    const { status, headers } = await list(limited.key);
    expect([status, headers.get('RateLimit-Policy')]).toEqual([200, '"key";q=3;w=60']);
    expect(headers.get('RateLimit')).toMatch(new RegExp(`^"key";r=${left};t=\\d+$`));
  }
  const refused = await list(limited.key);
  const message = 'The API key has made its 3 requests of this minute.';
  expect(await refused.json()).toEqual({ code: 'too_many_requests', message, status: 429 });
  expect(refused.headers.get('RateLimit-Policy')).toBe('"key";q=3;w=60');
  expect(refused.headers.get('RateLimit')).toBe(`"key";r=0;t=${refused.headers.get('Retry-After')}`);
  // A key that is refused has no count; a request that its scope refuses counts, too.
  for (let n = 0; n < 5; n++) expect((await list('nobody')).status).toBe(401);
  await limited.addKey('reads-metrics', { scopes: ['metrics:read'] });
  for (const status of [403, 403, 403, 429]) expect((await list('reads-metrics')).status).toBe(status);
  expect((await limited.update(1, -1)).status).toBe(429); // before its pet and its body are checked
});

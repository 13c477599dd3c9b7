import { describe, expect, it, onTestFinished, vi } from 'vitest';
import { startService } from '../support/service.ts';

describe('the rate limit', () => {
  const limitHeaders = ({ headers }: Response) => ['RateLimit-Policy', 'RateLimit'].map((name) => headers.get(name));

  it('refuses further requests of the same key in the same minute, and sends Retry-After', async () => {
    const limited = await startService({ settings: { RATE_LIMIT_PER_MINUTE: '3' } });
    const list = (key: string) => fetch(`${limited.url}/v1/inventory`, { headers: { Authorization: `Bearer ${key}` } });
    const start = performance.now();
    const clock = vi.spyOn(performance, 'now').mockReturnValue(start);
    onTestFinished(() => clock.mockRestore());
    for (const left of [2, 1, 0]) {
      const answer = await list(limited.key);
      expect([answer.status, ...limitHeaders(answer)]).toEqual([200, '"key";q=3;w=60', `"key";r=${left};t=60`]);
    }
    clock.mockReturnValue(start + 59_001);
    const refused = await list(limited.key);
    expect([refused.status, await refused.json()]).toEqual([
      429,
      { code: 'too_many_requests', message: 'The API key has made its 3 requests of this minute.', status: 429 },
    ]);
    expect([refused.headers.get('Retry-After'), limitHeaders(refused)[1]]).toEqual(['1', '"key";r=0;t=1']);
    for (const later of [60_000, 200_000]) {
      clock.mockReturnValue(start + later);
      expect(limitHeaders(await list(limited.key))[1]).toBe('"key";r=2;t=60');
    }
    // Each key has its own count, and a key that is refused has none.
    for (let n = 0; n < 5; n++) expect((await list('nobody')).status).toBe(401);
    await limited.addKey('another-api-key-that-may-read-and-write');
    expect((await list('another-api-key-that-may-read-and-write')).status).toBe(200);
    await limited.addKey('reads-metrics', { scopes: ['metrics:read'] }); // a request that its scope refuses counts, too
    for (const status of [403, 403, 403, 429]) expect((await list('reads-metrics')).status).toBe(status);
  });
});

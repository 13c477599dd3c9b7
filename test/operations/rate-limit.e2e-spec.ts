import { describe, expect, it, onTestFinished, vi } from 'vitest';
import { startService } from '../support/service.ts';

describe('the rate limit', () => {
  const limitHeaders = ({ headers }: Response) => ['RateLimit-Policy', 'RateLimit'].map((name) => headers.get(name));

  it('refuses further requests of the same key in the same minute, and sends Retry-After', async () => {
    const limited = await startService({ settings: { RATE_LIMIT_PER_MINUTE: '3' } });
    const list = (key: string) => fetch(`${limited.url}/v1/inventory`, { headers: { Authorization: `Bearer ${key}` } });
    for (const left of [2, 1, 0]) {
      const answer = await list(limited.key);
      const [policy, limit] = limitHeaders(answer);
      expect([answer.status, policy]).toEqual([200, '"key";q=3;w=60']);
      expect(limit).toMatch(new RegExp(`^"key";r=${left};t=(60|5\\d)$`));
    }
    const refused = await list(limited.key);
    expect([refused.status, await refused.json()]).toEqual([
      429,
      { code: 'too_many_requests', message: 'The API key has made its 3 requests of this minute.', status: 429 },
    ]);
    expect(refused.headers.get('Retry-After')).toMatch(/^(60|5\d)$/);
    expect(limitHeaders(refused)[1]).toMatch(/^"key";r=0;t=(60|5\d)$/);

    const now = performance.now.bind(performance);
    const clock = vi.spyOn(performance, 'now').mockImplementation(() => now() + 61_000);
    onTestFinished(() => clock.mockRestore());
    expect((await list(limited.key)).status).toBe(200);

    // Each key has its own count, and a key that is refused has none.
    for (let n = 0; n < 5; n++) expect((await list('nobody')).status).toBe(401);
    await limited.addKey('another-api-key-that-may-read-and-write');
    expect((await list('another-api-key-that-may-read-and-write')).status).toBe(200);
  });
});

import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { PrismaService } from '../../src/database/prisma.service.ts';
import { createKey } from '../../src/auth/api-key.store.ts';
import { type TestService, startService } from '../support/service.ts';

describe('the rate limit', () => {
  let limited: TestService;
  let free: TestService;

  beforeAll(async () => {
    limited = await startService({ settings: { RATE_LIMIT_PER_MINUTE: '3' } });
    free = await startService({ databaseUrl: limited.databaseUrl, key: limited.key });
  });
  afterAll(async () => {
    await free.stop();
    await limited.stop();
  });

  const list = ({ url }: TestService, key: string) =>
    fetch(`${url}/v1/inventory`, { headers: { Authorization: `Bearer ${key}` } });
  const limitHeaders = ({ headers }: Response) => ['RateLimit-Policy', 'RateLimit'].map((name) => headers.get(name));

  it('refuses what a key asks beyond it in a minute, and says when to come again', async () => {
    for (const left of [2, 1, 0]) {
      const answer = await list(limited, limited.key);
      const [policy, limit] = limitHeaders(answer);
      expect([answer.status, policy]).toEqual([200, '"key";q=3;w=60']);
      expect(limit).toMatch(new RegExp(`^"key";r=${left};t=(60|5\\d)$`));
    }
    const refused = await list(limited, limited.key);
    expect([refused.status, await refused.json()]).toEqual([
      429,
      { code: 'too_many_requests', message: 'The API key has made its 3 requests of this minute.', status: 429 },
    ]);
    expect(refused.headers.get('Retry-After')).toMatch(/^(60|5\d)$/);
    expect(limitHeaders(refused)[1]).toMatch(/^"key";r=0;t=(60|5\d)$/);
  });

  it('is each key’s own, and counts no request that was not let in', async () => {
    for (let n = 0; n < 5; n++) expect((await list(limited, 'nobody')).status).toBe(401);
    const { key } = await createKey(limited.app.get(PrismaService), {
      name: 'other',
      scopes: ['inventory:read'],
      expiresAt: null,
    });
    expect((await list(limited, key)).status).toBe(200);
  });

  it('is off by default', async () => {
    for (let n = 0; n < 10; n++) {
      const answer = await list(free, free.key);
      expect([answer.status, ...limitHeaders(answer)]).toEqual([200, null, null]);
    }
  });
});

import { IncomingMessage, ServerResponse } from 'node:http';
import { Socket } from 'node:net';
import { expect, it, onTestFinished, vi } from 'vitest';
import { readSettings } from '../settings.ts';
import { RateLimit } from './rate-limit.ts';

const START = 1_000_000.25;

/** What the client gets for a request at a time, in milliseconds from the start. */
function limit(perMinute: number, start = START) {
  const rateLimit = new RateLimit(
    readSettings({ DATABASE_URL: 'postgresql://localhost/stock', RATE_LIMIT_PER_MINUTE: String(perMinute) }),
  );
  const clock = vi.spyOn(performance, 'now');
  onTestFinished(() => clock.mockRestore());
  return (atMs: number, key = 'till') => {
    clock.mockReturnValue(start + atMs);
    const response = new ServerResponse(new IncomingMessage(new Socket()));
    try {
      rateLimit.charge(key, response);
    } catch (error) {
      return { ...(error as object), limit: response.getHeader('RateLimit') };
    }
    return response.getHeader('RateLimit');
  };
}

it('counts the requests of a minute from the first on, and those of each key by themselves', () => {
  const charge = limit(3);
  expect([0, 0.5, 59_999.5].map((atMs) => charge(atMs))).toEqual(['"key";r=2;t=60', '"key";r=1;t=60', '"key";r=0;t=1']);
  expect(charge(59_999.5, 'other')).toBe('"key";r=2;t=60');
  expect([60_000, 60_001].map((atMs) => charge(atMs))).toEqual(['"key";r=2;t=60', '"key";r=1;t=60']);
  const oddStart = 1_000_000.1; // rounding makes this minute a little longer; nobody must get t=61
  expect(oddStart + 60_000 - oddStart).toBeGreaterThan(60_000);
  expect(limit(3, oddStart)(0)).toBe('"key";r=2;t=60');
});

it('begins a new minute with the first request after a pause', () => {
  const charge = limit(3);
  expect([0, 200_000, 259_999].map((atMs) => charge(atMs))).toEqual([
    '"key";r=2;t=60',
    '"key";r=2;t=60',
    '"key";r=1;t=1',
  ]);
});

it('refuses what is beyond the limit, which takes nothing from the next minute', () => {
  const charge = limit(1);
  charge(0);
  const refused = (seconds: number) => ({
    code: 'too_many_requests',
    status: 429,
    headers: { 'Retry-After': String(seconds) },
    limit: `"key";r=0;t=${seconds}`,
  });
  expect([0, 1, 30_000, 59_001].map((atMs) => charge(atMs))).toEqual([60, 60, 30, 1].map(refused));
  expect(charge(60_000)).toBe('"key";r=0;t=60');
});

it('says nothing where there is no limit', () => {
  const charge = limit(0);
  for (let n = 0; n < 100; n++) expect(charge(n)).toBeUndefined();
});

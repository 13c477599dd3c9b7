import { describe, expect, it, onTestFinished, vi } from 'vitest';
import { DeadlinePassed, boundsOfRequest, byDeadline, leastTimeToSend, retryUntilDeadline } from './deadline.ts';

const always = () => true;

describe('boundsOfRequest', () => {
  it('leaves time between the bounds, so that the innermost one reports its own reason', () => {
    const bounds = { lock_timeout: 200, connectionTimeoutMillis: 400, statement_timeout: 600, query_timeout: 800 };
    expect(boundsOfRequest(1_000)).toEqual(bounds);
    expect(leastTimeToSend(1_000)).toBe(240); // a wait for a lock, and a busy database
  });
});

it('byDeadline says that the work may still take effect', async () => {
  vi.useFakeTimers();
  onTestFinished(() => void vi.useRealTimers());
  vi.advanceTimersByTime(1_000); // its clock begins at 0: a deadline would be the time that is left
  const message = 'deadline passed while the statement was under way';
  const late = byDeadline(performance.now() + 10, new Promise(() => undefined));
  const refused = expect(late).rejects.toMatchObject({ sent: true, message });
  vi.advanceTimersByTime(10);
  expect(vi.getTimerCount()).toBe(0);
  await refused;
});

it('byDeadline leaves no timer when the work is done', async () => {
  vi.useFakeTimers();
  onTestFinished(() => void vi.useRealTimers());
  expect(await byDeadline(performance.now() + 5_000, Promise.resolve('done'))).toBe('done');
  expect(vi.getTimerCount()).toBe(0);
});

describe('retryUntilDeadline', () => {
  it('repeats until an attempt succeeds', async () => {
    let attempts = 0;
    const attempt = () => (++attempts < 4 ? Promise.reject(new Error()) : Promise.resolve(attempts));
    expect(await retryUntilDeadline(performance.now() + 5_000, always, attempt)).toBe(4);
  });

  it('throws the last failure when no time is left for another attempt', async () => {
    let attempts = 0;
    const attempt = () => Promise.reject(new Error(`attempt ${++attempts}`));
    await expect(retryUntilDeadline(performance.now() + 100, always, attempt)).rejects.toThrow(/^attempt \d$/);
    expect(attempts).toBeGreaterThan(1);
  });

  it('keeps the failure before the attempt that the deadline ended, as its cause', async () => {
    const failures = [new Error('first'), new Error('second'), new DeadlinePassed({ sent: false })];
    const attempt = () => Promise.reject(failures.shift() ?? new Error('one too many'));
    const again = (failure: unknown) => !(failure instanceof DeadlinePassed);
    await expect(retryUntilDeadline(performance.now() + 5_000, again, attempt)).rejects.toMatchObject({
      message: 'deadline passed before anything was written',
      cause: { message: 'second' },
    });
  });

  it('does not repeat what must not be repeated', async () => {
    let attempts = 0;
    const attempt = () => Promise.reject(new Error(`attempt ${++attempts}`));
    await expect(retryUntilDeadline(performance.now() + 5_000, () => false, attempt)).rejects.toThrow('attempt 1');
  });
});

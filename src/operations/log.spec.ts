import { expect, it, onTestFinished, vi } from 'vitest';
import { isoTime } from './log.ts';

it('the time of a line is the present one, to the millisecond', () => {
  vi.useFakeTimers();
  onTestFinished(() => void vi.useRealTimers());
  const [first, second, last] = ['2026-01-02T03:04:05.006Z', '2026-01-02T03:04:05.078Z', '2026-12-31T23:59:59.999Z'];
  for (const time of [first, second, last, first]) {
    vi.setSystemTime(time); // at last the clock is set back
    expect(isoTime()).toBe(`,"time":"${time}"`);
  }
});

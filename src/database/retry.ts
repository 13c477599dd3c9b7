import { setTimeout as pause } from 'node:timers/promises';

const FIRST_PAUSE_MS = 10;
const LONGEST_PAUSE_MS = 250;

/**
 * Repeats an attempt that surely had no effect, with growing pauses (half of each random, so that callers
 * spread out), for as long as its deadline leaves time for another.
 *
 * @param deadline on the clock of `performance.now()`
 * @param again whether this failure may be followed by another attempt
 */
export async function untilDeadline<T>(
  deadline: number,
  again: (failure: unknown) => boolean,
  attempt: () => Promise<T>,
): Promise<T> {
  for (let pauseMs = FIRST_PAUSE_MS; ; pauseMs = Math.min(2 * pauseMs, LONGEST_PAUSE_MS)) {
    try {
      return await attempt();
    } catch (failure) {
      const waitMs = pauseMs * (0.5 + Math.random() / 2);
      if (!again(failure) || performance.now() + waitMs >= deadline) throw failure;
      await pause(waitMs);
    }
  }
}

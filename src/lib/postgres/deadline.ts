import { setTimeout as pause } from 'node:timers/promises';
import type pg from 'pg';

/** Shares of a deadline. Each is shorter than the next, so that the innermost bound reports its own reason. */
export function boundsOfRequest(deadlineMs: number) {
  const share = (percent: number) => Math.round((deadlineMs * percent) / 100);
  return {
    lock_timeout: share(20),
    /** Waiting for a free connection included. */
    connectionTimeoutMillis: share(40),
    /** Kept by PostgreSQL. */
    statement_timeout: share(60),
    /** Kept by the driver, for when PostgreSQL does not answer. */
    query_timeout: share(80),
  } satisfies pg.PoolConfig;
}

/** A write that is sent with less time than this could still wait for a lock at its deadline, its outcome unknown. */
export function leastTimeToSend(deadlineMs: number): number {
  return boundsOfRequest(deadlineMs).lock_timeout + 0.04 * deadlineMs;
}

/** A call reached its deadline. `sent`: what was sent for it may still take effect. */
export class DeadlinePassed extends Error {
  readonly sent: boolean;

  constructor({ sent }: { readonly sent: boolean }) {
    super(`deadline passed ${sent ? 'while the statement was under way' : 'before anything was written'}`);
    this.sent = sent;
  }
}

/** @throws DeadlinePassed; the work itself goes on, and has bounds of its own */
export async function byDeadline<T>(deadline: number, work: Promise<T>): Promise<T> {
  const { promise: late, reject } = Promise.withResolvers<never>();
  const timer = setTimeout(() => reject(new DeadlinePassed({ sent: true })), Math.max(0, deadline - performance.now()));
  try {
    return await Promise.race([work, late]);
  } finally {
    clearTimeout(timer);
  }
}

const FIRST_PAUSE_MS = 10;
const LONGEST_PAUSE_MS = 250;

/**
 * Repeats an attempt with growing pauses, half of each random so that callers spread out. The last failure before
 * DeadlinePassed becomes its cause.
 *
 * @param deadline on the clock of `performance.now()`, as every deadline
 */
export async function retryUntilDeadline<T>(
  deadline: number,
  again: (failure: unknown) => boolean,
  attempt: () => Promise<T>,
): Promise<T> {
  let answered: unknown;
  for (let pauseMs = FIRST_PAUSE_MS; ; pauseMs = Math.min(2 * pauseMs, LONGEST_PAUSE_MS)) {
    try {
      return await attempt();
    } catch (failure) {
      if (failure instanceof DeadlinePassed) failure.cause ??= answered;
      else answered = failure;
      const waitMs = pauseMs * (0.5 + Math.random() / 2);
      if (!again(failure) || performance.now() + waitMs >= deadline) throw failure;
      await pause(waitMs);
    }
  }
}

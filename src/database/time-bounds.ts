import type pg from 'pg';

/** Bounds on what a connection waits for, by the driver's names, in milliseconds. */
export type TimeBounds = Pick<
  pg.PoolConfig,
  'connectionTimeoutMillis' | 'lock_timeout' | 'statement_timeout' | 'query_timeout'
>;

/**
 * The bounds of everything that a request waits for, as shares of REQUEST_DEADLINE_MS: each is shorter than the one
 * around it, or the outer one would hide what the inner one tells.
 */
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
  } satisfies TimeBounds;
}

/**
 * What an update must have left until its deadline to be sent: the longest wait for its table's lock, and as much again
 * as a statement takes on a busy database. Sent later it could still be under way at the deadline.
 */
export function leastTimeToSend(deadlineMs: number): number {
  return boundsOfRequest(deadlineMs).lock_timeout + 0.04 * deadlineMs;
}

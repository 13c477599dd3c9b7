import { LONGEST_DEADLINE_MS } from '../../settings.ts';

/** What connections may take: times in milliseconds, and their number. Nobody has to tune them; tests lower them. */
export const LIMITS = {
  connections: 2_500, // at once: 512 MiB carry these at their worst, and no more
  headMs: 5_000, // receiving the head of a request
  // Receiving a whole request. It is longer than a deadline, so that a slow database is never taken for a slow client.
  requestMs: LONGEST_DEADLINE_MS + 1_000,
  idleMs: 65_000, // between two requests; longer than a balancer keeps its own connections, which is 60 s as a rule
  stalledMs: 30_000, // during a request or a response
};

export type Limits = Readonly<typeof LIMITS>;

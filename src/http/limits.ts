/** What connections may take: times in milliseconds, and their number. Nobody has to tune them; tests lower them. */
export const LIMITS = {
  /** Connections at once. More are closed as they come: 512 MiB carry these at their worst, and no more. */
  connections: 2_500,
  /** Receiving the head of a request. */
  headMs: 5_000,
  /** Receiving a whole request. */
  requestMs: 10_000,
  /** Idle between two requests; longer than a balancer keeps its own connections, which is 60 s as a rule. */
  idleMs: 65_000,
  /** Stalled during a request or a response. */
  stalledMs: 30_000,
};

export type Limits = Readonly<typeof LIMITS>;

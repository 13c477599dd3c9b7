/** How long a connection may take over what, in milliseconds. Nobody has to tune them; tests shorten them. */
export const LIMITS = {
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

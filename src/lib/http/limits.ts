/** What connections may take: times in milliseconds, and their number. Only `requestMs` depends on the service. */
export const LIMITS = {
  connections: 2_500, // at once: 512 MiB carry these at their worst, and no more
  headMs: 5_000, // receiving the head of a request
  requestMs: 10_000, // receiving a whole request; longer than a handler takes: else a body that is read late gets 408
  idleMs: 65_000, // between two requests; longer than a balancer keeps its own connections, which is 60 s as a rule
  stalledMs: 30_000, // during a request or a response
};

export type Limits = Readonly<typeof LIMITS>;

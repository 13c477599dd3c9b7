/** The bounds and amounts of a run. */
const full = {
  /** The bound on every answer. */
  answerWithinMs: 3_000,
  /** The bound on the first success after a fault. */
  recoveryWithinMs: 1_000,
  /**
   * During overload: the bound on the 99th percentile of the refusals, and the least share of the capacity to serve.
   */
  refusedWithinMs: 200,
  leastGoodput: 0.9,
  /** How often each fault is repeated. */
  rounds: 30,
  /** The longest outage, and the length of an overload. */
  faultMs: 30_000,
  /** The number of requests without a fault. */
  requests: 1_000_000,
  /** Updates that are repeated until they are answered. */
  updates: 200_000,
};

export type Size = Readonly<typeof full>;

/** Other programs may use the same processor. So only a full run, on demand, judges how fast the services are. */
const medium: Size = {
  answerWithinMs: 6_000,
  recoveryWithinMs: 10_000,
  refusedWithinMs: 2_000,
  leastGoodput: 0.5,
  rounds: 1,
  faultMs: 4_000,
  requests: 20_000,
  updates: 10_000,
};

export const SIZES = {
  full,
  /** For every change, in some two minutes. */
  medium,
} satisfies Record<string, Size>;

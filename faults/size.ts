const minute = 60_000;

/** How much of everything a run does. */
const normal = {
  /** The bound on every answer. */
  answerWithinMs: 3_000,
  /** Requests of the scenario without a fault. */
  operations: 200_000,
  /** Rounds of kill -9, of a service and of PostgreSQL. */
  kills: 30,
  /** Rounds of restarted, terminated and cut, and of one process of PostgreSQL killed. */
  interruptions: 10,
  /** How long PostgreSQL is down, and frozen. */
  outageMs: 30_000,
  lockMs: 10_000,
  drains: 20,
  overloadMs: 30_000,
  /** How often the usual load and the crowd's are measured in turn. */
  comparisons: 5,
  floodMs: 10_000,
  pipelines: 3_000,
  /** Updates while the records of TLS are damaged. */
  damagedUpdates: 200_000,
  soakMs: 2 * minute,
  /** Updates that are repeated until they are answered. */
  repeatedUpdates: 200_000,
  soakFaultEveryMs: 10_000,
  /** How long a disk is full, and every connection taken. */
  fullMs: 10_000,
  /** How long a million pets are served with little memory. */
  containedMs: 60_000,
};

export type Size = Readonly<typeof normal>;

const medium: Size = {
  answerWithinMs: 3_000,
  operations: 30_000,
  kills: 3,
  interruptions: 2,
  outageMs: 5_000,
  lockMs: 4_000,
  drains: 3,
  overloadMs: 4_000,
  comparisons: 1,
  floodMs: 2_000,
  pipelines: 1_000,
  damagedUpdates: 8_000,
  soakMs: 12_000,
  repeatedUpdates: 10_000,
  soakFaultEveryMs: 3_000,
  fullMs: 3_000,
  containedMs: 20_000,
};

export const SIZES = {
  /** With every `npm test`, where other tests want the same processor at the same time. */
  short: {
    ...medium,
    answerWithinMs: 6_000,
    drains: 1,
    pipelines: 200,
    damagedUpdates: 1_000,
    repeatedUpdates: 2_000,
  },
  /** With every change, in less than four minutes. */
  medium,
  normal,
  full: {
    ...normal,
    operations: 1_000_000,
    interruptions: 30,
    pipelines: 10_000,
    soakMs: 10 * minute,
    soakFaultEveryMs: 20_000,
  },
} satisfies Record<string, Size>;

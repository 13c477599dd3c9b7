/** How much of everything a run does. */
export interface Size {
  /** The bound on every answer. */
  readonly answerWithinMs: number;
  /** Requests of the scenario without a fault. */
  readonly operations: number;
  /** Rounds of kill -9, of a service and of PostgreSQL. */
  readonly kills: number;
  /** Rounds of restarted, terminated and cut, and of one process of PostgreSQL killed. */
  readonly interruptions: number;
  /** How long PostgreSQL is down, and frozen. */
  readonly outageMs: number;
  readonly lockMs: number;
  readonly drains: number;
  readonly overloadMs: number;
  /** How often the usual load and the crowd's are measured in turn. */
  readonly comparisons: number;
  readonly floodMs: number;
  readonly pipelines: number;
  /** Updates while the records of TLS are damaged. */
  readonly damagedUpdates: number;
  readonly soakMs: number;
  /** Updates that are repeated until they are answered. */
  readonly repeatedUpdates: number;
  readonly soakFaultEveryMs: number;
  /** How long a disk is full, and every connection taken. */
  readonly fullMs: number;
  /** How long a million pets are served with little memory. */
  readonly containedMs: number;
}

const minute = 60_000;

export const SIZES = {
  /** With every `npm test`. */
  short: {
    answerWithinMs: 6_000, // other tests want the same processor at the same time
    operations: 5_000,
    kills: 1,
    interruptions: 1,
    outageMs: 4_000,
    lockMs: 2_000,
    drains: 1,
    overloadMs: 2_000,
    comparisons: 1,
    floodMs: 1_000,
    pipelines: 200,
    damagedUpdates: 1_000,
    soakMs: 10_000,
    repeatedUpdates: 2_000,
    soakFaultEveryMs: 2_000,
    fullMs: 3_000,
    containedMs: 5_000,
  },
  /** With every change, in less than four minutes. */
  medium: {
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
  },
  normal: {
    answerWithinMs: 3_000,
    operations: 200_000,
    kills: 30,
    interruptions: 10,
    outageMs: 30_000,
    lockMs: 10_000,
    drains: 20,
    overloadMs: 30_000,
    comparisons: 5,
    floodMs: 10_000,
    pipelines: 3_000,
    damagedUpdates: 200_000,
    soakMs: 2 * minute,
    repeatedUpdates: 200_000,
    soakFaultEveryMs: 10_000,
    fullMs: 10_000,
    containedMs: 60_000,
  },
  full: {
    answerWithinMs: 3_000,
    operations: 1_000_000,
    kills: 30,
    interruptions: 30,
    outageMs: 30_000,
    lockMs: 10_000,
    drains: 20,
    overloadMs: 30_000,
    comparisons: 5,
    floodMs: 10_000,
    pipelines: 10_000,
    damagedUpdates: 200_000,
    soakMs: 10 * minute,
    repeatedUpdates: 200_000,
    soakFaultEveryMs: 20_000,
    fullMs: 10_000,
    containedMs: 60_000,
  },
} satisfies Record<string, Size>;

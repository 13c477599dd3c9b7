/** What became of a write; one that is `unknown` may take effect at any moment from its start on, or never. */
export type WriteOutcome = 'done' | 'refused' | 'unknown';

interface Cluster {
  readonly value: number;
  outcome?: WriteOutcome;
  writeStart: number;
  writeEnd: number;
  firstReadEnd: number;
  lastReadStart: number;
}

/** The time a value must have been (forward) or may have been (backward) in the register. */
interface Zone {
  readonly value: number;
  readonly from: number;
  readonly to: number;
}

/**
 * The history of one register whose writes all have different values, and the test whether some order explains it: each
 * operation at an instant between its start and its end, each read returning the latest write (P. Gibbons and E. Korach,
 * "Testing shared memories", 1997). What is kept is one cluster per value; n operations are tested in O(n log n).
 */
export class RegisterHistory {
  private readonly clusters = new Map<number, Cluster>();

  constructor(initial: number) {
    this.write(initial, -Infinity, -Infinity, 'done');
  }

  /** Adds a write; times are monotonic milliseconds, and no value is written twice. */
  write(value: number, start: number, end: number, outcome: WriteOutcome): void {
    const cluster = this.clusterOf(value);
    if (cluster.outcome) throw new RangeError(`value ${value} was written twice`);
    cluster.outcome = outcome;
    cluster.writeStart = start;
    cluster.writeEnd = outcome === 'done' ? end : Infinity;
  }

  /** Adds a read. It may come before its write does, since the write's answer may arrive later. */
  read(value: number, start: number, end: number): void {
    const cluster = this.clusterOf(value);
    cluster.firstReadEnd = Math.min(cluster.firstReadEnd, end);
    cluster.lastReadStart = Math.max(cluster.lastReadStart, start);
  }

  /** Everything no order of instants can explain, one sentence each; empty when the history is linearizable. */
  violations(): string[] {
    const found: string[] = [];
    const forward: Zone[] = [];
    const backward: Zone[] = [];
    for (const cluster of this.clusters.values()) {
      const { value, outcome, writeStart, writeEnd, firstReadEnd, lastReadStart } = cluster;
      const wasRead = firstReadEnd < Infinity;
      if (wasRead && outcome !== 'done' && outcome !== 'unknown') {
        found.push(`${value} was read at ${at(firstReadEnd)}, but its write was ${outcome ?? 'never sent'}`);
      } else if (firstReadEnd < writeStart) {
        found.push(`${value} was read by ${at(firstReadEnd)}, before its write began at ${at(writeStart)}`);
      } else {
        // A write that was never read and may not have happened becomes a zone without end, which nothing encloses.
        const firstEnd = Math.min(writeEnd, firstReadEnd);
        const lastStart = Math.max(writeStart, lastReadStart);
        if (firstEnd < lastStart) forward.push({ value, from: firstEnd, to: lastStart });
        else backward.push({ value, from: lastStart, to: firstEnd });
      }
    }
    forward.sort((one, other) => one.from - other.from);
    backward.sort((one, other) => one.from - other.from);
    return [...found, ...overlaps(forward), ...enclosed(backward, forward)];
  }

  private clusterOf(value: number): Cluster {
    const known = this.clusters.get(value);
    if (known) return known;
    const never = { writeStart: -Infinity, writeEnd: Infinity, firstReadEnd: Infinity, lastReadStart: -Infinity };
    const cluster = { value, ...never };
    this.clusters.set(value, cluster);
    return cluster;
  }
}

function overlaps(forward: readonly Zone[]): string[] {
  const found: string[] = [];
  let last: Zone | undefined;
  for (const zone of forward) {
    if (last && zone.from < last.to) found.push(`${describe(last)} and ${describe(zone)} at the same time`);
    last = zone;
  }
  return found;
}

/** Both lists rise by `from`: where forward zones do not overlap, only the last one begun before could enclose. */
function enclosed(backward: readonly Zone[], forward: readonly Zone[]): string[] {
  const found: string[] = [];
  let next = 0;
  let last: Zone | undefined;
  for (const zone of backward) {
    for (let candidate = forward[next]; candidate && candidate.from < zone.from; candidate = forward[++next]) {
      last = candidate;
    }
    if (last && zone.to < last.to) {
      found.push(`${zone.value} was held between ${at(zone.from)} and ${at(zone.to)}, but ${describe(last)}`);
    }
  }
  return found;
}

function describe(zone: Zone): string {
  return `${zone.value} was held from ${at(zone.from)} to ${at(zone.to)}`;
}

function at(time: number): string {
  return Number.isFinite(time) ? `${time.toFixed(3)} ms` : 'the beginning';
}

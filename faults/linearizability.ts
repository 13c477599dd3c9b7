/** When the operations on one value took place, as their clients saw it. */
interface Span {
  writeStart: number;
  firstReadEnd: number;
  /** Of the write and every read: the latest start and the earliest end. */
  lastStart: number;
  firstEnd: number;
}

/**
 * What clients saw of one register, each of whose writes has a value of its own. It is linearizable when each operation can
 * be given an instant between its start and its end, so that each read returns the latest write. The order of the writes is
 * known, so it is enough that no operation began after one of a later value had ended.
 */
export class RegisterHistory {
  private readonly spans = new Map<number, Span>();

  constructor(initial: number) {
    this.write(initial, -Infinity, -Infinity);
  }

  /** @param end monotonic milliseconds, as `start`; Infinity when nobody knows whether the write took place */
  write(value: number, start: number, end: number): void {
    this.spanOf(value).writeStart = start;
    this.add(value, start, end);
  }

  /** Adds a read, which may come before its write does. */
  read(value: number, start: number, end: number): void {
    const span = this.spanOf(value);
    span.firstReadEnd = Math.min(span.firstReadEnd, end);
    this.add(value, start, end);
  }

  /**
   * @param order every value that the register had, the first one first
   * @returns a sentence for each value that contradicts the order
   */
  violations(order: readonly number[]): string[] {
    const found: string[] = [];
    const held = new Set(order);
    for (const [value, { firstReadEnd }] of this.spans) {
      if (firstReadEnd < Infinity && !held.has(value)) found.push(`${value} was read, but the store never had it`);
    }
    let later = { value: NaN, end: Infinity };
    for (const value of order.toReversed()) {
      const { writeStart, firstReadEnd, lastStart, firstEnd } = this.spanOf(value);
      if (firstReadEnd < writeStart) found.push(`${value} was read before its write began`);
      if (later.end < lastStart) {
        found.push(`${value} was held at ${at(lastStart)}, but ${later.value} followed it by ${at(later.end)}`);
      }
      if (firstEnd < later.end) later = { value, end: firstEnd };
    }
    return found;
  }

  private add(value: number, start: number, end: number): void {
    const span = this.spanOf(value);
    span.lastStart = Math.max(span.lastStart, start);
    span.firstEnd = Math.min(span.firstEnd, end);
  }

  private spanOf(value: number): Span {
    const never = { writeStart: -Infinity, firstReadEnd: Infinity, lastStart: -Infinity, firstEnd: Infinity };
    const span = this.spans.get(value) ?? never;
    this.spans.set(value, span);
    return span;
  }
}

function at(time: number): string {
  return `${time.toFixed(1)} ms`;
}

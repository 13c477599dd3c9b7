import { channel } from 'node:diagnostics_channel';
import { TooManyWaiting } from './database-failure.js';
import { DeadlinePassed } from './deadline.js';

/** Told at the end of every batch. */
export interface BatchEnd {
  readonly name: string | undefined;
  readonly calls: number;
  readonly durationMs: number;
  readonly failed: boolean;
}
export const batchEnds = channel('inventory:batch-end');

interface Pending<Call, Result> {
  readonly call: Call;
  readonly deadline: number;
  readonly resolve: (result: Result) => void;
  readonly reject: (reason: unknown) => void;
}

/** So many calls always fit into one batch. */
const FEW_CALLS = 4;

/** A deadline is kept to within this. */
const SWEEP_INTERVAL_MS = 50;

/**
 * Lets calls that arrive while a database round trip is under way share the next one.
 *
 * An idle batcher flushes at the end of the event loop's turn, with the calls of this turn; no timer ever delays anything.
 * A call's result comes from a statement sent after the call, so shared reads stay linearizable. A batch that fails fails
 * its own calls only. At most one is in flight.
 */
export class Batcher<Call, Result> {
  #pending: Pending<Call, Result>[] = [];
  #inFlight: readonly Pending<Call, Result>[] = [];
  /** Whether a batch is under way, or leaves at the end of this turn. */
  #isBusy = false;
  #lastSize = 0;
  #sweeper: NodeJS.Timeout | undefined;

  /**
   * @param run sends one statement for all calls, until the first of their deadlines; resolves to the results in their order
   * @param options.maxCalls of one batch
   * @param options.maxWaiting one more is refused with {@link TooManyWaiting}
   * @param options.open connects where that is still to be done, before any call counts as sent
   * @param options.notSentWithinMs with less than this left a call is not sent, or its outcome might be left unknown
   * @param options.inHalves for batches that keep the database busy in proportion to their calls: at most half of the
   *   present calls, so that the service works on the others meanwhile
   * @param options.order calls with the same key keep their order; an exclusive one is the only one of its key in its batch
   * @param options.name what {@link batchEnds} calls it
   */
  constructor(
    private readonly run: (calls: readonly Call[], deadline: number) => Promise<readonly Result[]>,
    private readonly options: {
      readonly maxCalls: number;
      readonly maxWaiting: number;
      readonly open?: () => Promise<void> | undefined;
      readonly notSentWithinMs?: number;
      readonly inHalves?: boolean;
      readonly order?: (call: Call) => { readonly key: unknown; readonly exclusive: boolean };
      readonly name?: string;
    },
  ) {}

  /** @throws TooManyWaiting, but not for what has to be sent `always`; DeadlinePassed, or whatever the batch failed with */
  call(call: Call, deadline: number, always = false): Promise<Result> {
    if (this.#pending.length >= this.options.maxWaiting && !always) return Promise.reject(new TooManyWaiting());
    return new Promise<Result>((resolve, reject) => {
      this.#pending.push({ call, deadline, resolve, reject });
      if (this.#isBusy) return;
      this.#isBusy = true;
      setImmediate(() => void this.#flush());
    });
  }

  async #flush(): Promise<void> {
    this.#isBusy = this.#pending.length > 0;
    if (!this.#isBusy) return;
    this.#sweeper ??= setInterval(() => this.#sweep(), SWEEP_INTERVAL_MS).unref();
    const beganAt = performance.now();
    let batch: readonly Pending<Call, Result>[] | undefined;
    let results: readonly Result[] | undefined;
    let failure: unknown;
    try {
      const opening = this.options.open?.();
      if (opening) await opening;
      this.#expire(performance.now() + (this.options.notSentWithinMs ?? 0));
      batch = this.#inFlight = this.#take();
      const calls = batch.map(({ call }) => call);
      const earliest = Math.min(...batch.map(({ deadline }) => deadline));
      results = calls.length === 0 ? [] : await this.run(calls, earliest);
    } catch (reason) {
      failure = reason;
      batch ??= this.#pending.splice(0);
    }
    this.#inFlight = [];
    this.#lastSize = batch.length;
    if (batch.length > 0 && batchEnds.hasSubscribers) {
      const durationMs = performance.now() - beganAt;
      const end: BatchEnd = { name: this.options.name, calls: batch.length, durationMs, failed: !results };
      batchEnds.publish(end);
    }
    // Before the results are handed out, so that the database is at the next batch meanwhile.
    void this.#flush();
    batch.forEach((each, at) => {
      if (results) each.resolve(results[at] as Result);
      else each.reject(failure);
    });
  }

  /** Takes the next batch from the pending calls. */
  #take(): Pending<Call, Result>[] {
    const { order, inHalves } = this.options;
    const half = Math.max(FEW_CALLS, Math.ceil((this.#pending.length + this.#lastSize) / 2));
    const maxCalls = Math.min(this.options.maxCalls, inHalves ? half : Infinity);
    if (!order) return this.#pending.splice(0, maxCalls);
    const taken: Pending<Call, Result>[] = [];
    const left: Pending<Call, Result>[] = [];
    const keys = new Map<unknown, 'open' | 'closed'>();
    for (const each of this.#pending) {
      const { key, exclusive } = order(each.call);
      const state = keys.get(key);
      const fits = taken.length < maxCalls && (state === undefined || (state === 'open' && !exclusive));
      (fits ? taken : left).push(each);
      keys.set(key, fits && !exclusive ? 'open' : 'closed');
    }
    this.#pending = left;
    return taken;
  }

  /** Fails what is overdue. A settled promise ignores the batch's own result when that comes after all. */
  #sweep(): void {
    if (!this.#isBusy && this.#pending.length === 0) {
      clearInterval(this.#sweeper);
      this.#sweeper = undefined;
      return;
    }
    const now = performance.now();
    for (const each of this.#inFlight) if (each.deadline <= now) each.reject(new DeadlinePassed(true));
    this.#expire(now);
  }

  /** Fails pending calls with a deadline of up to this time. */
  #expire(time: number): void {
    if (this.#pending.every((each) => each.deadline > time)) return;
    for (const each of this.#pending) if (each.deadline <= time) each.reject(new DeadlinePassed(false));
    this.#pending = this.#pending.filter((each) => each.deadline > time);
  }
}

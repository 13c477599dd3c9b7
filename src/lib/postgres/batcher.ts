import { channel } from 'node:diagnostics_channel';
import { TooManyWaiting } from './outcomes.ts';
import { DeadlinePassed, byDeadline } from './deadline.ts';

export interface Batch {
  readonly name: string | undefined;
  /** What {@link batchCalls} published for each of its calls. */
  readonly calls: readonly object[];
  /** Before it connected, on the clock of `performance.now()`. */
  readonly beganAt: number;
}
/** The same `calls` as at its start. A batch that cannot connect has an end but no start. */
export interface BatchEnd extends Batch {
  readonly durationMs: number;
  /** Whether all of its calls failed. */
  readonly failed: boolean;
  /** Why the first call that failed did. */
  readonly reason?: unknown;
}
/** Publishes an object for each call, in the async context of its caller. */
export const batchCalls = channel('postgres:batch-call');
/** Publishes each {@link Batch}, which then runs with the stores that are bound to this channel. */
export const batchStarts = channel('postgres:batch-start');
/** Publishes each {@link BatchEnd}. */
export const batchEnds = channel('postgres:batch-end');

interface Pending<Call, Result> {
  readonly call: Call;
  readonly deadline: number;
  readonly promise: Promise<Result>;
  readonly resolve: (result: Result) => void;
  readonly reject: (reason: unknown) => void;
}

type Run<Call, Result> = (calls: readonly Call[], deadline: number) => Promise<readonly (Result | FailedCall)[]>;

interface BatcherOptions<Call> {
  /** In {@link Batch}. */
  readonly name?: string;
  readonly maxCalls: number;
  readonly maxWaiting: number;
  /** Connects if needed, before any call counts as sent. */
  readonly open?: () => Promise<unknown> | undefined;
  /** A call with less time left is not sent, because its outcome could become unknown. */
  readonly leastTimeLeftMs?: number;
  /** `run` ends by the deadline and says what became of each call; else the batcher fails what is under way. */
  readonly endsByDeadline?: boolean;
  /**
   * Settles when a call that is about to come may have arrived; undefined if none is. For calls that need another
   * batcher first: sent at once, a batch would just miss them, and each of two half batches costs a whole statement. A
   * batch waits once, and not long, because such a call may fail or hang.
   */
  readonly arriving?: () => Promise<unknown> | undefined;
  /** Calls with the same key keep their order; an exclusive one is the only one of its key in its batch. */
  readonly order?: (call: Call) => { readonly key: unknown; readonly exclusive: boolean };
}

const nextTurn = () => new Promise(setImmediate);

/** Stands for the result of one failed call in a batch that otherwise succeeded. */
export class FailedCall {
  readonly reason: unknown;

  constructor(reason: unknown) {
    this.reason = reason;
  }
}

/** No batch waits longer for calls that are about to join. */
const LONGEST_WAIT_MS = 50;

/**
 * Lets calls that arrive during a database round trip share the next one. If no batch is under way, the calls of this
 * turn of the event loop are sent together when the turn ends. Shared reads stay linearizable: each result is of a
 * statement sent after the call.
 */
export class Batcher<Call, Result> {
  readonly #run: Run<Call, Result>;
  readonly #options: BatcherOptions<Call>;
  #pending: Pending<Call, Result>[] = [];
  #inFlight: readonly Pending<Call, Result>[] = [];
  /** Whether a batch is under way, or leaves at the end of this turn. */
  #isBusy = false;
  #timer: NodeJS.Timeout | undefined;
  #timerEndsAt = Infinity;

  /**
   * @param run sends one statement for all calls, until the first of their deadlines; resolves to the results in their
   *   order, or a {@link FailedCall} in the place of one
   */
  constructor(run: Run<Call, Result>, options: BatcherOptions<Call>) {
    this.#run = run;
    this.#options = options;
  }

  /** @throws TooManyWaiting unless `evenIfFull`; DeadlinePassed, or the failure of the batch */
  submit(call: Call, deadline: number, options?: { readonly evenIfFull: boolean }): Promise<Result> {
    if (this.#pending.length >= this.#options.maxWaiting && !options?.evenIfFull)
      return Promise.reject(new TooManyWaiting());
    const { promise, resolve, reject } = Promise.withResolvers<Result>();
    const pending = { call, deadline, promise, resolve, reject };
    batchCalls.publish(pending);
    this.#pending.push(pending);
    this.#watch(deadline);
    if (!this.#isBusy) {
      this.#isBusy = true;
      setImmediate(() => void this.#flush());
    }
    return promise;
  }

  /** The result of the first such call that is under way or waits; undefined if there is none. */
  first(isSuch: (call: Call) => boolean): Promise<Result> | undefined {
    const such = ({ call }: Pending<Call, Result>) => isSuch(call);
    return (this.#inFlight.find(such) ?? this.#pending.find(such))?.promise;
  }

  async #flush(): Promise<void> {
    this.#isBusy = this.#pending.length > 0;
    if (!this.#isBusy) return;
    const arriving = this.#options.arriving?.();
    if (arriving) {
      await byDeadline(performance.now() + LONGEST_WAIT_MS, arriving).catch(() => undefined);
      await nextTurn();
    }
    const beganAt = performance.now();
    let batch: readonly Pending<Call, Result>[] | undefined;
    let results: readonly (Result | FailedCall)[];
    try {
      const opening = this.#options.open?.();
      if (opening) await opening;
      this.#expire(performance.now() + (this.#options.leastTimeLeftMs ?? 0));
      batch = this.#inFlight = this.#take();
      const calls = batch.map(({ call }) => call);
      const earliest = Math.min(...batch.map(({ deadline }) => deadline));
      const start: Batch = { name: this.#options.name, calls: batch, beganAt };
      results = calls.length > 0 ? await batchStarts.runStores(start, this.#run, undefined, calls, earliest) : [];
      if (results.length !== calls.length)
        throw new Error(`a batch of ${calls.length} calls has ${results.length} results`);
    } catch (reason) {
      batch ??= this.#pending.splice(0);
      results = batch.map(() => new FailedCall(reason));
    }
    this.#inFlight = [];
    if (batch.length > 0 && batchEnds.hasSubscribers) {
      const durationMs = performance.now() - beganAt;
      const failures = results.filter((result) => result instanceof FailedCall);
      const failed = failures.length === batch.length;
      const reason = failures[0]?.reason;
      const end: BatchEnd = { name: this.#options.name, calls: batch, beganAt, durationMs, failed, reason };
      batchEnds.publish(end);
    }
    // With `arriving`, the next batch waits two turns: clients answer these results with new requests, and those are
    // read first.
    if (this.#options.arriving)
      void nextTurn()
        .then(nextTurn)
        .then(() => this.#flush());
    else void this.#flush();
    batch.forEach((each, at) => {
      const result = results[at];
      if (result instanceof FailedCall) each.reject(result.reason);
      else each.resolve(result as Result);
    });
  }

  #take(): Pending<Call, Result>[] {
    const { order, maxCalls } = this.#options;
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

  /** One timer for all deadlines. It is seldom set anew: a later call mostly has a later deadline. */
  #watch(deadline: number): void {
    if (deadline >= this.#timerEndsAt) return;
    clearTimeout(this.#timer);
    this.#timerEndsAt = deadline;
    this.#timer = setTimeout(() => this.#failOverdue(), Math.max(0, deadline - performance.now())).unref();
  }

  /** A settled promise ignores a later result of its batch. */
  #failOverdue(): void {
    const now = performance.now();
    this.#timerEndsAt = Infinity;
    const inFlight = this.#options.endsByDeadline ? [] : this.#inFlight;
    for (const each of inFlight) if (each.deadline <= now) each.reject(new DeadlinePassed({ sent: true }));
    this.#expire(now);
    for (const { deadline } of [...inFlight, ...this.#pending]) if (deadline > now) this.#watch(deadline);
  }

  /** Fails pending calls with a deadline of up to this time. */
  #expire(time: number): void {
    if (this.#pending.every((each) => each.deadline > time)) return;
    for (const each of this.#pending) if (each.deadline <= time) each.reject(new DeadlinePassed({ sent: false }));
    this.#pending = this.#pending.filter((each) => each.deadline > time);
  }
}

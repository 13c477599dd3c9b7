import { channel } from 'node:diagnostics_channel';
import { TooManyWaiting } from './outcomes.ts';
import { DeadlinePassed } from './deadline.ts';

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
  readonly failed: boolean;
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
   * batch waits once, until the next sweep at most, because such a call may fail or hang.
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

/** A deadline is kept to within this. No batch waits longer for calls that are about to join. */
const SWEEP_INTERVAL_MS = 50;

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
  /** Ends the wait for calls that are about to come. */
  #endWait: () => void = () => undefined;
  #sweeper: NodeJS.Timeout | undefined;

  /**
   * @param run sends one statement for all calls, until the first of their deadlines; resolves to the results in their
   *   order, or a {@link FailedCall} in the place of one
   */
  constructor(run: Run<Call, Result>, options: BatcherOptions<Call>) {
    this.#run = run;
    this.#options = options;
  }

  /** @throws TooManyWaiting unless `evenIfFull`; DeadlinePassed, or the failure of the batch */
  call(call: Call, deadline: number, how?: { readonly evenIfFull: boolean }): Promise<Result> {
    if (this.#pending.length >= this.#options.maxWaiting && !how?.evenIfFull)
      return Promise.reject(new TooManyWaiting());
    const { promise, resolve, reject } = Promise.withResolvers<Result>();
    const pending = { call, deadline, promise, resolve, reject };
    batchCalls.publish(pending);
    this.#pending.push(pending);
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
    this.#sweeper ??= setInterval(() => this.#sweep(), SWEEP_INTERVAL_MS).unref();
    const arriving = this.#options.arriving?.();
    if (arriving) await this.#untilArrived(arriving);
    const beganAt = performance.now();
    let batch: readonly Pending<Call, Result>[] | undefined;
    let results: readonly (Result | FailedCall)[] | undefined;
    let failure: unknown;
    try {
      const opening = this.#options.open?.();
      if (opening) await opening;
      this.#expire(performance.now() + (this.#options.leastTimeLeftMs ?? 0));
      batch = this.#inFlight = this.#take();
      const calls = batch.map(({ call }) => call);
      const earliest = Math.min(...batch.map(({ deadline }) => deadline));
      const start: Batch = { name: this.#options.name, calls: batch, beganAt };
      const ran = calls.length > 0 ? await batchStarts.runStores(start, this.#run, undefined, calls, earliest) : [];
      if (ran.length !== calls.length) throw new Error(`a batch of ${calls.length} calls has ${ran.length} results`);
      results = ran;
    } catch (reason) {
      failure = reason;
      batch ??= this.#pending.splice(0);
    }
    this.#inFlight = [];
    if (batch.length > 0 && batchEnds.hasSubscribers) {
      const durationMs = performance.now() - beganAt;
      const failed = results?.every((result) => result instanceof FailedCall) ?? true;
      const end: BatchEnd = { name: this.#options.name, calls: batch, beganAt, durationMs, failed };
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
      const result = results ? results[at] : new FailedCall(failure);
      if (result instanceof FailedCall) each.reject(result.reason);
      else each.resolve(result as Result);
    });
  }

  async #untilArrived(arriving: Promise<unknown>): Promise<void> {
    const swept = new Promise<void>((resolve) => (this.#endWait = resolve));
    await Promise.race([arriving.catch(() => undefined), swept]);
    await nextTurn();
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

  /** Fails overdue calls. A settled promise ignores a later result of its batch. */
  #sweep(): void {
    if (!this.#isBusy) {
      clearInterval(this.#sweeper);
      this.#sweeper = undefined;
      return;
    }
    this.#endWait();
    const now = performance.now();
    if (!this.#options.endsByDeadline)
      for (const each of this.#inFlight) if (each.deadline <= now) each.reject(new DeadlinePassed({ sent: true }));
    this.#expire(now);
  }

  /** Fails pending calls with a deadline of up to this time. */
  #expire(time: number): void {
    if (this.#pending.every((each) => each.deadline > time)) return;
    for (const each of this.#pending) if (each.deadline <= time) each.reject(new DeadlinePassed({ sent: false }));
    this.#pending = this.#pending.filter((each) => each.deadline > time);
  }
}

import { channel } from 'node:diagnostics_channel';
import { NotApplied } from './not-applied.js';

/** Told at the end of every trip that has a name, to whoever subscribes. */
export interface BatchEnd {
  readonly trip: string;
  readonly calls: number;
  readonly durationMs: number;
  readonly failed: boolean;
}
export const batchEnds = channel('inventory:batch-end');

/** More calls are waiting than the service is willing to keep; nothing was sent. */
export class TooManyWaiting extends NotApplied {
  override message = 'too many calls wait for the database';
}

/** A call reached its deadline. `sent` tells whether a statement for it may still take effect. */
export class DeadlinePassed extends Error {
  readonly sent: boolean;
  constructor(sent: boolean) {
    super(`deadline passed ${sent ? 'while the statement was under way' : 'before a statement was sent'}`);
    this.sent = sent;
  }
}

interface Waiting<Call, Answer> {
  readonly call: Call;
  readonly deadline: number;
  sent: boolean;
  resolve: (answer: Answer) => void;
  reject: (reason: unknown) => void;
}

/** So many calls always fit on one trip. */
const FEW_CALLS = 4;

/** How often overdue calls are looked for. A deadline is kept to within this. */
const SWEEP_INTERVAL_MS = 50;

/**
 * Lets calls that arrive while a database round trip is under way share the next one.
 *
 * An idle round trip leaves at the end of the event loop's turn, with calls that this turn brought; no timer ever delays
 * anything. A call's answer comes from a statement sent after the call, so shared reads stay linearizable; a
 * trip that fails fails its own calls only. At most one is under way.
 */
export class Batcher<Call, Answer> {
  #waiting: Waiting<Call, Answer>[] = [];
  #underWay: readonly Waiting<Call, Answer>[] = [];
  /** Calls of the trip before. */
  #justArrived = 0;
  #departure: NodeJS.Immediate | undefined;
  #isOpening = false;
  #sweeper: NodeJS.Timeout | undefined;

  /**
   * @param run sends one statement for all calls; answers in the order of the calls
   * @param options.maxCalls most calls on one trip
   * @param options.maxWaiting most calls that wait; one more is refused with {@link TooManyWaiting}
   * @param options.open makes the way free where it is not, before any call counts as sent; when it fails, so do all who wait
   * @param options.notSentWithinMs a call with less than this left until its deadline is not sent any more, so that the
   *   deadline does not meet it under way and leave its outcome unknown; default 0
   * @param options.inHalves for trips that keep the database busy in proportion to their calls: at most half of those who
   *   are about travel together, so that the service is at work on the others meanwhile
   * @param options.queue calls of the same queue keep their order, and one that goes alone shares its trip with no
   *   other of its queue
   * @param options.name what {@link batchEnds} calls it
   */
  constructor(
    private readonly run: (calls: readonly Call[]) => Promise<readonly Answer[]>,
    private readonly options: {
      readonly maxCalls: number;
      readonly maxWaiting: number;
      readonly open?: () => Promise<void> | undefined;
      readonly notSentWithinMs?: number;
      readonly inHalves?: boolean;
      readonly queue?: (call: Call) => { readonly of: unknown; readonly alone: boolean };
      readonly name?: string;
    },
  ) {}

  /**
   * @param deadline on the clock of `performance.now()`
   * @throws TooManyWaiting, DeadlinePassed, or whatever the trip failed with
   */
  call(call: Call, deadline: number): Promise<Answer> {
    if (this.#waiting.length >= this.options.maxWaiting) return Promise.reject(new TooManyWaiting());
    return new Promise<Answer>((resolve, reject) => {
      this.#waiting.push({ call, deadline, sent: false, resolve, reject });
      this.#departSoon();
    });
  }

  #departSoon(): void {
    if (this.#underWay.length > 0 || this.#isOpening || this.#waiting.length === 0) return;
    this.#departure ??= setImmediate(() => {
      this.#departure = undefined;
      this.#depart();
    });
  }

  #depart(): void {
    if (this.#waiting.length === 0) return;
    this.#sweeper ??= setInterval(() => this.#sweep(), SWEEP_INTERVAL_MS).unref();
    const opening = this.options.open?.();
    if (!opening) {
      this.#leave();
      return;
    }
    const beganAt = performance.now();
    this.#isOpening = true;
    void opening
      .catch((reason: unknown) => {
        this.#tell(this.#waiting.length, beganAt, true);
        for (const each of this.#waiting.splice(0)) each.reject(reason);
      })
      .then(() => {
        this.#isOpening = false;
        this.#leave();
      });
  }

  #leave(): void {
    this.#dismiss(performance.now() + (this.options.notSentWithinMs ?? 0));
    const travellers = this.#board();
    if (travellers.length === 0) return;
    this.#underWay = travellers;
    for (const each of travellers) each.sent = true;
    const departedAt = performance.now();
    this.run(travellers.map((each) => each.call)).then(
      (answers) => {
        this.#tell(travellers.length, departedAt, false);
        this.#arrive(travellers, (each, at) => each.resolve(answers[at] as Answer));
      },
      (reason: unknown) => {
        this.#tell(travellers.length, departedAt, true);
        this.#arrive(travellers, (each) => each.reject(reason));
      },
    );
  }

  #arrive(
    travellers: readonly Waiting<Call, Answer>[],
    settle: (each: Waiting<Call, Answer>, at: number) => void,
  ): void {
    this.#underWay = [];
    this.#justArrived = travellers.length;
    // Before its answers are passed on, so that the database is at the next trip meanwhile.
    this.#depart();
    travellers.forEach(settle);
  }

  #tell(calls: number, departedAt: number, failed: boolean): void {
    const { name: trip } = this.options;
    if (trip === undefined || !batchEnds.hasSubscribers) return;
    batchEnds.publish({ trip, calls, durationMs: performance.now() - departedAt, failed } satisfies BatchEnd);
  }

  /** Takes the next trip's calls from those that wait. */
  #board(): Waiting<Call, Answer>[] {
    const { queue, inHalves } = this.options;
    const maxCalls = Math.min(this.options.maxCalls, inHalves ? this.#half() : Infinity);
    if (!queue) return this.#waiting.splice(0, maxCalls);
    const aboard: Waiting<Call, Answer>[] = [];
    const left: Waiting<Call, Answer>[] = [];
    const queues = new Map<unknown, 'open' | 'closed'>();
    for (const each of this.#waiting) {
      const { of, alone } = queue(each.call);
      const state = queues.get(of);
      const boards = aboard.length < maxCalls && (state === undefined || (state === 'open' && !alone));
      (boards ? aboard : left).push(each);
      queues.set(of, boards && !alone ? 'open' : 'closed');
    }
    this.#waiting = left;
    return aboard;
  }

  #half(): number {
    return Math.max(FEW_CALLS, Math.ceil((this.#waiting.length + this.#justArrived) / 2));
  }

  /** Fails what is overdue. A settled promise ignores the trip's own answer when that comes after all. */
  #sweep(): void {
    if (this.#underWay.length === 0 && this.#waiting.length === 0) {
      clearInterval(this.#sweeper);
      this.#sweeper = undefined;
      return;
    }
    const now = performance.now();
    const overdue = (each: Waiting<Call, Answer>) => each.deadline <= now;
    for (const each of this.#underWay.filter(overdue)) each.reject(new DeadlinePassed(true));
    this.#dismiss(now);
  }

  /** Fails those that wait with a deadline of up to this time. */
  #dismiss(time: number): void {
    if (this.#waiting.every((each) => each.deadline > time)) return;
    for (const each of this.#waiting) if (each.deadline <= time) each.reject(new DeadlinePassed(false));
    this.#waiting = this.#waiting.filter((each) => each.deadline > time);
  }
}

import { AsyncLocalStorage } from 'node:async_hooks';
import { setTimeout as pause } from 'node:timers/promises';
import fc from 'fast-check';
import { describe, expect, it, onTestFinished, vi } from 'vitest';
import { type Batch, type BatchEnd, Batcher, batchCalls, batchEnds, batchStarts } from './batcher.ts';
import { TooManyWaiting } from './outcomes.ts';
import { DeadlinePassed } from './deadline.ts';

const NEVER = Number.POSITIVE_INFINITY;

/** Waits some turns: the results of a batch are passed on, and the next batch is sent. */
async function eventLoopTurns(): Promise<void> {
  for (let turn = 0; turn < 5; turn++) await new Promise(setImmediate);
}

/** Runs batches, each until the test ends it. */
class Stage {
  /** The calls of each batch that was sent. */
  readonly batches: (readonly number[])[] = [];
  #end: ((fails: boolean) => void) | undefined;

  run = (calls: readonly number[]): Promise<string[]> => {
    if (this.#end) throw new Error('two batches are under way');
    const batch = this.batches.push(calls) - 1;
    return new Promise((resolve, reject) => {
      this.#end = (fails) => {
        this.#end = undefined;
        if (fails) reject(new Error(`batch ${batch} failed`));
        else resolve(calls.map((call) => `${call}@${batch}`));
      };
    });
  };

  get isBusy(): boolean {
    return this.#end !== undefined;
  }

  succeed(): void {
    this.#end?.(false);
  }

  async end(fails = false): Promise<void> {
    this.#end?.(fails);
    await eventLoopTurns();
  }
}

describe('Batcher', () => {
  it('sends the calls of a turn of the event loop at its end if no batch is under way', async () => {
    const stage = new Stage();
    const batcher = new Batcher(stage.run, { maxCalls: 10, maxWaiting: 10 });
    void batcher.submit(1, NEVER);
    await new Promise<void>((resolve) => process.nextTick(resolve));
    void batcher.submit(2, NEVER);
    await new Promise(setImmediate);
    expect(stage.batches).toEqual([[1, 2]]);
  });

  it('sends the next batch before it passes on the results of the last one', async () => {
    const stage = new Stage();
    const batcher = new Batcher(stage.run, { maxCalls: 10, maxWaiting: 10 });
    const batchesAtResult = batcher.submit(1, NEVER).then(() => stage.batches.length);
    await eventLoopTurns();
    void batcher.submit(2, NEVER);
    await stage.end();
    expect(await batchesAtResult).toBe(2);
  });

  it('waits for calls that are about to join, once, and leaves a turn after they are here', async () => {
    const stage = new Stage();
    const arrivals: PromiseWithResolvers<undefined>[] = [];
    const arriving = vi.fn(() => {
      const arrival = Promise.withResolvers<undefined>();
      arrivals.push(arrival);
      return arrival.promise;
    });
    const batcher = new Batcher(stage.run, { maxCalls: 10, maxWaiting: 10, arriving });
    void batcher.submit(1, NEVER);
    for (let turn = 0; turn < 5; turn++) await eventLoopTurns();
    expect(stage.batches).toEqual([]);
    void arrivals[0]?.promise.then(() => batcher.submit(2, NEVER));
    arrivals[0]?.resolve(undefined);
    await eventLoopTurns();
    expect(stage.batches).toEqual([[1, 2]]);
    expect(arriving).toHaveBeenCalledTimes(1);
  });

  it.each(['fails', 'hangs'])('sends a batch although what it waits for %s', async (how) => {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'performance'] });
    onTestFinished(() => void vi.useRealTimers());
    const stage = new Stage();
    const arriving = () => (how === 'fails' ? Promise.reject(new Error()) : new Promise<void>(() => undefined));
    const batcher = new Batcher(stage.run, { maxCalls: 10, maxWaiting: 10, arriving });
    void batcher.submit(1, NEVER);
    await eventLoopTurns();
    if (how === 'hangs') {
      vi.advanceTimersByTime(49);
      await eventLoopTurns();
      expect(stage.batches).toEqual([]);
      vi.advanceTimersByTime(1);
      await eventLoopTurns();
    }
    expect(stage.batches).toEqual([[1]]);
  });

  it('passes on results before the next batch, which leaves two turns later, if calls may be about to join', async () => {
    const stage = new Stage();
    const arriving = vi.fn(() => undefined);
    const batcher = new Batcher(stage.run, { maxCalls: 10, maxWaiting: 10, arriving });
    const result = batcher.submit(1, NEVER);
    await new Promise(setImmediate);
    void batcher.submit(2, NEVER);
    stage.succeed();
    expect(await result).toBe('1@0');
    await new Promise(setImmediate);
    void batcher.submit(3, NEVER);
    expect(stage.batches).toEqual([[1]]);
    await new Promise(setImmediate);
    expect(stage.batches).toEqual([[1], [2, 3]]);
  });

  it('finds the first call of a kind that is under way or waits, until it has its result', async () => {
    const stage = new Stage();
    const batcher = new Batcher(stage.run, { maxCalls: 1, maxWaiting: 10 });
    for (const call of [1, 2, 4]) void batcher.submit(call, NEVER);
    await eventLoopTurns();
    const isEven = (call: number) => call % 2 === 0;
    const [underWay, waiting] = [batcher.first(() => true), batcher.first(isEven)];
    expect(batcher.first((call) => call > 9)).toBeUndefined();
    await stage.end();
    await stage.end();
    expect([await underWay, await waiting]).toEqual(['1@0', '2@1']);
    const last = batcher.first(isEven);
    await stage.end();
    expect(await last).toBe('4@2');
    expect(batcher.first(isEven)).toBeUndefined();
  });

  it('sends every call once, in a later batch, and fails only the calls of a failed batch', async () => {
    const queueOf = (call: number) => call % 4;
    const isExclusive = (call: number) => call % 8 > 3;
    /** A call of one of four queues, exclusive or not, or whether the batch under way ends by failing. */
    const step = fc.oneof(fc.nat(7), fc.boolean());
    const property = fc.asyncProperty(
      fc.array(step, { maxLength: 60 }),
      fc.integer({ min: 1, max: 5 }),
      fc.constantFrom(
        undefined,
        () => undefined,
        () => Promise.resolve(),
      ),
      async (steps, maxCalls, arriving) => {
        const stage = new Stage();
        const order = (call: number) => ({ key: queueOf(call), exclusive: isExclusive(call) });
        const batcher = new Batcher(stage.run, { maxCalls, maxWaiting: NEVER, order, ...(arriving && { arriving }) });
        const calls: { call: number; batchesBefore: number; outcome: Promise<string> }[] = [];
        for (const each of steps) {
          if (typeof each === 'number') {
            const call = calls.length * 8 + each;
            const batchesBefore = stage.batches.length;
            const outcome = batcher.submit(call, NEVER).catch((error: unknown) => (error as Error).message);
            calls.push({ call, batchesBefore, outcome });
          } else {
            await eventLoopTurns();
            await stage.end(each);
          }
        }
        await eventLoopTurns();
        while (stage.isBusy) await stage.end();

        const sent = stage.batches.flat();
        expect(sent).toHaveLength(calls.length);
        for (const { call, batchesBefore, outcome } of calls) {
          const batch = stage.batches.findIndex((aboard) => aboard.includes(call));
          expect(batch).toBeGreaterThanOrEqual(batchesBefore);
          expect([`${call}@${batch}`, `batch ${batch} failed`]).toContain(await outcome);
        }
        for (const aboard of stage.batches) {
          expect(aboard.length).toBeLessThanOrEqual(maxCalls);
          for (const call of aboard.filter(isExclusive)) {
            expect(aboard.filter((other) => queueOf(other) === queueOf(call))).toEqual([call]);
          }
        }
        for (const queue of [0, 1, 2, 3]) {
          const inOrder = calls.map(({ call }) => call).filter((call) => queueOf(call) === queue);
          expect(sent.filter((call) => queueOf(call) === queue)).toEqual(inOrder);
        }
      },
    );
    await fc.assert(property, { numRuns: 500 });
  });

  it('sends calls that arrive during a batch in the next one, and refuses calls beyond maxWaiting', async () => {
    const stage = new Stage();
    const batcher = new Batcher(stage.run, { maxCalls: 10, maxWaiting: 2 });
    const first = batcher.submit(1, NEVER);
    await eventLoopTurns();
    const waiting = [batcher.submit(2, NEVER), batcher.submit(3, NEVER)];
    await expect(batcher.submit(4, NEVER)).rejects.toBeInstanceOf(TooManyWaiting);
    waiting.push(batcher.submit(5, NEVER, { evenIfFull: true }));
    await stage.end();
    await stage.end();
    expect(await Promise.all([first, ...waiting])).toEqual(['1@0', '2@1', '3@1', '5@1']);
  });

  it('fails a call at its deadline, says whether it was sent, and never sends it later', async () => {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'performance'] });
    onTestFinished(() => void vi.useRealTimers());
    const stage = new Stage();
    const batcher = new Batcher(stage.run, { maxCalls: 10, maxWaiting: 10 });
    const deadline = performance.now() + 60;
    const calls = [batcher.submit(1, deadline)];
    await eventLoopTurns();
    void batcher.submit(4, NEVER);
    calls.push(batcher.submit(2, deadline));
    const outcomes = Promise.allSettled(calls);
    vi.advanceTimersByTime(100);
    expect(await outcomes).toMatchObject([
      { reason: new DeadlinePassed({ sent: true }) },
      { reason: new DeadlinePassed({ sent: false }) },
    ]);
    await stage.end();
    expect(stage.batches).toEqual([[1], [4]]);
    await stage.end();
    const late = expect(batcher.submit(3, performance.now() + 60)).rejects.toEqual(new DeadlinePassed({ sent: true }));
    await eventLoopTurns();
    vi.advanceTimersByTime(100);
    await late;
  });

  it('has one timer, for the earliest deadline of its calls', async () => {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'performance'] });
    onTestFinished(() => void vi.useRealTimers());
    const stage = new Stage();
    const batcher = new Batcher(stage.run, { maxCalls: 1, maxWaiting: 100 });
    const startedAt = performance.now();
    const failed: number[] = [];
    for (const dueInMs of [500, 600, 700, 400, NEVER])
      void batcher.submit(dueInMs, startedAt + dueInMs).catch(() => failed.push(dueInMs));
    await eventLoopTurns();
    for (const dueInMs of [400, 500, 600, 700]) {
      expect(vi.getTimerCount()).toBe(1);
      vi.advanceTimersToNextTimer();
      await eventLoopTurns();
      expect(performance.now() - startedAt).toBe(dueInMs);
      expect(failed.at(-1)).toBe(dueInMs);
    }
    expect(vi.getTimerCount()).toBe(0); // the last call has no deadline
  });

  it('leaves it to the batch to say what became of a call at its deadline, if the batch ends by then', async () => {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'performance'] });
    onTestFinished(() => void vi.useRealTimers());
    const stage = new Stage();
    const batcher = new Batcher(stage.run, { maxCalls: 1, maxWaiting: 10, endsByDeadline: true });
    const result = batcher.submit(1, performance.now() + 100);
    await eventLoopTurns();
    vi.advanceTimersByTime(200);
    await stage.end();
    expect(await result).toBe('1@0');
  });

  it('fails all calls of a batch that has fewer results than calls', async () => {
    const batcher = new Batcher(() => Promise.resolve(['only one']), { maxCalls: 2, maxWaiting: 2 });
    const both = await Promise.allSettled([batcher.submit(1, NEVER), batcher.submit(2, NEVER)]);
    const reason = new Error('a batch of 2 calls has 1 results');
    expect(both).toEqual([1, 2].map(() => ({ status: 'rejected', reason })));
  });

  it('publishes how many calls a batch had, how many milliseconds it took, and whether and why it failed', async () => {
    const ends: BatchEnd[] = [];
    const note = (end: unknown) => void ends.push(end as BatchEnd);
    batchEnds.subscribe(note);
    onTestFinished(() => batchEnds.unsubscribe(note));
    const run = (calls: readonly number[]) => (calls.includes(2) ? Promise.reject(new Error('no')) : pause(50, calls));
    const batcher = new Batcher(run, { maxCalls: 10, maxWaiting: 10, name: 'slow' });
    await expect(batcher.submit(0, performance.now())).rejects.toEqual(new DeadlinePassed({ sent: false })); // no batch
    await batcher.submit(1, NEVER);
    await expect(batcher.submit(2, NEVER)).rejects.toThrow();
    const number = expect.any(Number) as number;
    const end = { name: 'slow', calls: [expect.anything()], beganAt: number, durationMs: number };
    expect(ends).toEqual([
      { ...end, failed: false },
      { ...end, failed: true, reason: new Error('no') },
    ]);
    expect(ends[0]?.durationMs).toBeGreaterThan(40);
  });

  it('publishes each call in the context of its caller, and runs each batch in one of its own', async () => {
    const context = new AsyncLocalStorage<unknown>();
    const callers = new WeakMap<object, unknown>();
    const note = (call: unknown) => void callers.set(call as object, context.getStore());
    batchCalls.subscribe(note);
    batchStarts.bindStore(context, (batch) => (batch as Batch).calls.map((call) => callers.get(call)));
    onTestFinished(() => {
      batchCalls.unsubscribe(note);
      batchStarts.unbindStore(context);
    });
    const run = (calls: readonly number[]) =>
      pause(
        1,
        calls.map(() => context.getStore()),
      );
    const batcher = new Batcher(run, { maxCalls: 2, maxWaiting: 10 });
    const results = ['a', 'b', 'c'].map((caller, at) => context.run(caller, () => batcher.submit(at, NEVER)));
    expect(await Promise.all(results)).toEqual([['a', 'b'], ['a', 'b'], ['c']]);
  });

  it('counts no call as sent while it connects', async () => {
    const open = () => new Promise<void>(() => undefined);
    const batcher = new Batcher(new Stage().run, { maxCalls: 10, maxWaiting: 10, open });
    await expect(batcher.submit(1, performance.now() + 60)).rejects.toEqual(new DeadlinePassed({ sent: false }));
  });

  it('fails all that wait when it cannot connect', async () => {
    const open = vi.fn(() => eventLoopTurns().then(() => Promise.reject(new Error('refused'))));
    const batcher = new Batcher(new Stage().run, { maxCalls: 1, maxWaiting: 10, open });
    const failures = await Promise.allSettled([batcher.submit(1, NEVER), batcher.submit(2, NEVER)]);
    expect(failures).toMatchObject([{ reason: { message: 'refused' } }, { reason: { message: 'refused' } }]);
    expect(open).toHaveBeenCalledTimes(1);
  });

  it('sends no call with too little time left, and no empty batch', async () => {
    const stage = new Stage();
    const batcher = new Batcher(stage.run, { maxCalls: 10, maxWaiting: 10, leastTimeLeftMs: 30_000 });
    await expect(batcher.submit(1, performance.now() + 25_000)).rejects.toEqual(new DeadlinePassed({ sent: false }));
    void batcher.submit(2, NEVER);
    await eventLoopTurns();
    expect(stage.batches).toEqual([[2]]);
  });

  it('sends no call that has too little time left after it connected, and counts the time of connecting', async () => {
    const ends: BatchEnd[] = [];
    const note = (end: unknown) => void ends.push(end as BatchEnd);
    batchEnds.subscribe(note);
    onTestFinished(() => batchEnds.unsubscribe(note));
    const run = vi.fn((calls: readonly number[]) => Promise.resolve(calls));
    const open = () => pause(100);
    const batcher = new Batcher(run, { maxCalls: 10, maxWaiting: 10, open, leastTimeLeftMs: 30_000 });
    const outcomes = await Promise.allSettled([
      batcher.submit(1, performance.now() + 30_050),
      batcher.submit(2, NEVER),
    ]);
    expect(outcomes).toMatchObject([{ reason: new DeadlinePassed({ sent: false }) }, { value: 2 }]);
    expect(run.mock.calls).toEqual([[[2], NEVER]]);
    expect(ends[0]?.durationMs).toBeGreaterThan(90);
  });

  it('bounds a statement by the first of the deadlines of its calls', async () => {
    const run = (calls: readonly number[], deadline: number) => Promise.resolve(calls.map(() => deadline));
    const batcher = new Batcher(run, { maxCalls: 10, maxWaiting: 10 });
    const first = performance.now() + 5_000;
    const bounds = [NEVER, first, NEVER].map((deadline) => batcher.submit(1, deadline));
    expect(await Promise.all(bounds)).toEqual([first, first, first]);
  });
});

import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { Batcher } from './batcher.js';
import { DeadlinePassed, TooManyWaiting } from './database-failure.js';

const NEVER = Number.POSITIVE_INFINITY;

/** A batch under the test's control: it stays under way until it is told how it ends. */
class Stage {
  readonly batches: { calls: readonly number[]; sentAt: number; end: (fails: boolean) => void }[] = [];
  underWay = 0;
  mostUnderWay = 0;
  clock = 0;

  run = (calls: readonly number[]): Promise<string[]> => {
    const batch = this.batches.length;
    this.mostUnderWay = Math.max(this.mostUnderWay, ++this.underWay);
    return new Promise((resolve, reject) => {
      const end = (fails: boolean) => {
        this.underWay--;
        if (fails) reject(new Error(`batch ${batch} failed`));
        else resolve(calls.map((call) => `${call}@${batch}`));
      };
      this.batches.push({ calls, sentAt: ++this.clock, end });
    });
  };
}

/** In the property: the queue is `call % 4`, and half of each queue's calls go alone. */
const isExclusive = (call: number) => call % 8 > 3;

/** Two turns of the event loop: a batch that has ended is told, and the next one has left. */
const settled = async () => {
  await new Promise(setImmediate);
  await new Promise(setImmediate);
};

describe('Batcher', () => {
  it('sends a call in the same turn of the event loop when idle', async () => {
    const stage = new Stage();
    void new Batcher(stage.run, { maxCalls: 10, maxWaiting: 10 }).call(1, NEVER);
    await new Promise(setImmediate);
    expect(stage.batches.map((batch) => batch.calls)).toEqual([[1]]);
  });

  it('leaves again before the results of the batch before are passed on', async () => {
    const stage = new Stage();
    const batcher = new Batcher(stage.run, { maxCalls: 10, maxWaiting: 10 });
    const batchesAtResult = batcher.call(1, NEVER).then(() => stage.batches.length);
    await settled();
    void batcher.call(2, NEVER);
    stage.batches[0]?.end(false);
    expect(await batchesAtResult).toBe(2);
  });

  it('takes in halves at most half of those who are about', async () => {
    const stage = new Stage();
    const batcher = new Batcher(stage.run, { maxCalls: 100, maxWaiting: 100, inHalves: true });
    for (let call = 0; call < 20; call++) void batcher.call(call, NEVER);
    for (let batch = 0; batch < 5; batch++) {
      await settled();
      stage.batches[batch]?.end(false);
    }
    await settled();
    expect(stage.batches.map((batch) => batch.calls.length)).toEqual([10, 10]);
    for (let call = 0; call < 5; call++) void batcher.call(call, NEVER);
    await settled();
    expect(stage.batches.at(-1)?.calls).toHaveLength(5);
  });

  it('results every call from a batch sent after it, once, and fails only the calls of a failed batch', async () => {
    const step = fc.oneof(
      fc.record({ do: fc.constant('call' as const), mark: fc.integer({ min: 0, max: 7 }) }),
      fc.record({ do: fc.constant('end' as const), fails: fc.boolean() }),
    );
    await fc.assert(
      fc.asyncProperty(
        fc.array(step, { maxLength: 60 }),
        fc.integer({ min: 1, max: 5 }),
        fc.boolean(),
        async (...of) => {
          const [steps, maxCalls, inHalves] = of;
          const stage = new Stage();
          const batcher = new Batcher<number, string>(stage.run, {
            maxCalls,
            maxWaiting: NEVER,
            inHalves,
            order: (call) => ({ key: call % 4, exclusive: isExclusive(call) }),
          });
          const calls: { call: number; madeAt: number; outcome?: string }[] = [];
          const endOldest = async (fails: boolean) => {
            stage.batches[stage.batches.length - 1]?.end(fails);
            await settled();
          };
          for (const each of steps) {
            if (each.do === 'call') {
              const made: (typeof calls)[number] = { call: calls.length * 8 + each.mark, madeAt: ++stage.clock };
              calls.push(made);
              batcher.call(made.call, NEVER).then(
                (answer) => (made.outcome = `answer ${answer}`),
                (error: unknown) => (made.outcome = (error as Error).message),
              );
            } else {
              await settled();
              if (stage.underWay > 0) await endOldest(each.fails);
            }
          }
          await settled();
          while (stage.underWay > 0) await endOldest(false);

          expect(stage.mostUnderWay).toBeLessThanOrEqual(1);
          for (const { call, madeAt, outcome } of calls) {
            const batches = [...stage.batches.entries()].filter(([, batch]) => batch.calls.includes(call));
            expect(batches).toHaveLength(1);
            const [[number, batch]] = batches as [(typeof batches)[0]];
            expect(batch.sentAt).toBeGreaterThan(madeAt);
            expect([`answer ${call}@${number}`, `batch ${number} failed`]).toContain(outcome);
          }
          for (const { calls: aboard } of stage.batches) {
            expect(aboard.length).toBeLessThanOrEqual(maxCalls);
            for (const call of aboard.filter(isExclusive)) {
              expect(aboard.filter((other) => other % 4 === call % 4)).toEqual([call]);
            }
          }
          // Calls of the same queue keep their order.
          const departed = stage.batches.flatMap((batch) => batch.calls);
          for (const mark of [0, 1, 2, 3]) {
            const marked = departed.filter((call) => call % 4 === mark);
            expect(marked).toEqual(marked.toSorted((a, b) => a - b));
          }
        },
      ),
      { numRuns: 500 },
    );
  });

  it('gathers what arrives under way into the next batch, and refuses one more than may wait', async () => {
    const stage = new Stage();
    const batcher = new Batcher(stage.run, { maxCalls: 10, maxWaiting: 2 });
    const taken = [batcher.call(1, NEVER)];
    await settled();
    taken.push(...[2, 3].map((call) => batcher.call(call, NEVER)));
    await expect(batcher.call(4, NEVER)).rejects.toBeInstanceOf(TooManyWaiting);
    stage.batches[0]?.end(false);
    await settled();
    stage.batches[1]?.end(false);
    expect(await Promise.all(taken)).toEqual(['1@0', '2@1', '3@1']);
  });

  it('fails an overdue call within its deadline, says whether it was sent, and does not send it any more', async () => {
    const stage = new Stage();
    const batcher = new Batcher(stage.run, { maxCalls: 10, maxWaiting: 10 });
    const startedAt = performance.now();
    const first = batcher.call(1, startedAt + 60);
    await settled();
    const [sent, unsent] = await Promise.allSettled([first, batcher.call(2, startedAt + 60)]);
    expect(performance.now() - startedAt).toBeLessThan(300);
    expect(sent).toMatchObject({ reason: new DeadlinePassed(true) });
    expect(unsent).toMatchObject({ reason: new DeadlinePassed(false) });
    stage.batches[0]?.end(false);
    await settled();
    expect(stage.batches).toHaveLength(1);
  });
});

import { setTimeout as sleep } from 'node:timers/promises';
import { quantile } from '../measures.ts';
import { openLoad } from '../open-load.ts';
import { atLeast, atMost, Stage, type Scenarios } from '../stage.ts';

/**
 * Each response of the database comes late, and few requests may wait for it. So the database is the limit, not the
 * processor, which the load shares with the services.
 */
const DATABASE_DELAY_MS = 50;
const MAX_WAITING_REQUESTS = '16';
const CAPACITY_MS = 2_000;

export const OVERLOAD: Scenarios = {
  /** Offers ten times as many updates as the services can make, from clients that do not wait for each other. */
  overload: async (world) => {
    await using stage = await Stage.open(world, { proxied: true, settings: { MAX_WAITING_REQUESTS } });
    for (const proxy of stage.proxies) proxy.delayAnswers(DATABASE_DELAY_MS);
    const peak = Math.max(await capacity(stage, 64), await capacity(stage, 256));

    const served: number[] = [];
    const refused: number[] = [];
    let wrong = 0;
    let quantity = 1_000_000;
    const startedAt = performance.now();
    const tally = await openLoad(
      stage.services.map(({ port }) => port),
      10 * peak,
      world.size.faultMs,
      () => ({
        method: 'PATCH',
        target: `/v1/inventory/${world.random.pick(stage.petIds)}`,
        headers: { authorization: `Bearer ${stage.apiKey}`, 'content-type': 'application/json' },
        body: `{"quantity":${++quantity}}`,
      }),
      (answer, durationMs) => {
        if (answer?.status === 200) served.push(durationMs);
        else if (answer?.status === 503) refused.push(durationMs);
        else if (wrong++ < 5) world.note(`answered ${answer ? `${answer.status} ${answer.text}` : 'not at all'}`);
      },
    );
    const goodput = served.length / ((performance.now() - startedAt) / 1_000);
    await sleep(1_000);
    const afterwards = stage.startLoad({ workers: 4, updateShare: 1, conditionalShare: 0 });
    await sleep(1_000);
    await afterwards.stop();
    world.note(
      `peak ${peak.toFixed(0)}/s, ${tally.due} requests offered, ${refused.length} refused; ` +
        `served ${goodput.toFixed(0)}/s, p99 ${quantile(served, 0.99).toFixed(0)} ms`,
    );
    return [
      atLeast('goodput against peak', goodput / peak, world.size.leastGoodput, '×'),
      atMost('requests not sent', tally.notSent, tally.due / 100),
      atMost('p99 of the refusals', quantile(refused, 0.99), world.size.refusedWithinMs, 'ms'),
      atMost('answers neither 200 nor 503', wrong, 0),
      atMost('not served a second after', afterwards.unserved, 0),
    ];
  },
};

/** The served updates a second of this number of workers. */
async function capacity(stage: Stage, workers: number): Promise<number> {
  const load = stage.startLoad({ workers, updateShare: 1, conditionalShare: 0 });
  await sleep(500);
  const servedBefore = load.served;
  await sleep(CAPACITY_MS);
  const perSecond = (load.served - servedBefore) / (CAPACITY_MS / 1_000);
  await load.stop();
  return perSecond;
}

import { setTimeout as sleep } from 'node:timers/promises';
import type { LoadOptions } from '../load.ts';
import { atMost, found, madeWrong, Stage, type Figure, type Scenarios, type World } from '../stage.ts';

/** Enough that some of the repeated lists are out of date, however busy the machine is. */
const STALE_REQUESTS = 2_000;

/** No fault: every answer is judged. */
export const TRUTH: Scenarios = {
  'no-fault': (world) => undisturbed(world, 100, {}, world.size.requests),

  /** A list that takes longer to read than a request to be let in: a request must not join a reading that began before it. */
  'long-list': (world) => undisturbed(world, 5_000, { workers: 16, updateShare: 0.8 }, world.size.requests / 20),

  /** A control: services that give out a list again for 20 ms, as a cache with a time-to-live does, must be found out. */
  'control-stale-list': async (world) => {
    const right = 'const kept = this.#keptAt(snapshot);';
    const wrong = `const isFresh = Date.now() < this.freshUntil;
      if (!isFresh) this.freshUntil = Date.now() + 20;
      const kept = isFresh ? this.#kept?.list : this.#keptAt(snapshot);`;
    await using stage = await Stage.open(world, { settings: madeWrong('inventory/list-cache.js', right, wrong) });
    stage.startLoad();
    const { evidence } = stage;
    while (evidence.requests < STALE_REQUESTS) await sleep(50);
    return found(await stage.verdict(), 'violations');
  },
};

async function undisturbed(
  world: World,
  pets: number,
  options: Partial<LoadOptions>,
  requests: number,
): Promise<Figure[]> {
  await using stage = await Stage.open(world, { pets });
  const load = stage.startLoad({ ...options, petIds: stage.petIds.slice(0, 100) });
  const { evidence } = stage;
  const startedAt = performance.now();
  while (evidence.requests < requests && evidence.violations === 0) await sleep(50);
  const perSecond = (1_000 * evidence.requests) / (performance.now() - startedAt);
  const figures = await stage.verdict();
  world.note(`${perSecond.toFixed(0)} requests a second, with their judgement`);
  return [...figures, atMost('connections refused', load.refusedConnections, 0)];
}

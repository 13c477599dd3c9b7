import { setTimeout as sleep } from 'node:timers/promises';
import type { LoadOptions } from '../load.ts';
import { atLeast, atMost, madeWrong, Stage, type Figure, type World } from '../stage.ts';

/** No fault: two processes, 64 workers, 100 pets. */
export function noFault(world: World): Promise<Figure[]> {
  return undisturbed(world, 100, {}, world.size.operations);
}

/** A list that takes longer to read than a request to be let in: a request must not join a reading that began before it. */
export function longList(world: World): Promise<Figure[]> {
  return undisturbed(world, 5_000, { workers: 16, updateShare: 0.8 }, world.size.operations / 20);
}

async function undisturbed(
  world: World,
  pets: number,
  options: Partial<LoadOptions>,
  operations: number,
): Promise<Figure[]> {
  await using stage = await Stage.open(world, { pets });
  const load = stage.load({ ...options, petIds: stage.petIds.slice(0, 100) });
  const { evidence } = stage;
  const startedAt = performance.now();
  load.start();
  while (evidence.requests < operations && evidence.violations === 0) await sleep(50);
  await load.stop();
  const perSecond = (1_000 * evidence.requests) / (performance.now() - startedAt);
  const { figures } = await stage.verdict();
  world.note(`${perSecond.toFixed(0)} operations a second, with their judgement`);
  return [
    ...figures,
    atLeast('operations', evidence.requests, operations),
    atMost('connections lost or refused', evidence.lostConnections + load.refusedConnections, 0),
  ];
}

/** Enough that some of the repeated lists are out of date, however busy the machine is. */
const STALE_REQUESTS = 2_000;
const STALE_WITHIN_MS = 8_000;

/** A control: services that give out a list again for 20 ms, as a cache with a time-to-live does, must be found out. */
export async function staleListControl(world: World): Promise<Figure[]> {
  const right = 'const kept = this.#keptAt(snapshot);';
  const wrong = `const isFresh = Date.now() < this.freshUntil;
    if (!isFresh) this.freshUntil = Date.now() + 20;
    const kept = isFresh ? this.#kept?.list : this.#keptAt(snapshot);`;
  await using stage = await Stage.open(world, { settings: madeWrong('inventory/list-cache.js', right, wrong) });
  const load = stage.load();
  load.start();
  const deadline = performance.now() + STALE_WITHIN_MS;
  while (stage.evidence.requests < STALE_REQUESTS && performance.now() < deadline) await sleep(50);
  await load.stop();
  await stage.verdict();
  return [atLeast('stale reads found', stage.evidence.violations, 1)];
}

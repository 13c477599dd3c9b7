import { setTimeout as sleep } from 'node:timers/promises';
import type { LoadOptions } from '../load.ts';
import { atLeast, atMost, Stage, type Figure, type World } from '../stage.ts';
import { StaleList } from '../stale-list.ts';

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
  const stage = await Stage.open(world, { pets });
  try {
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
  } finally {
    await stage.close();
  }
}

/** Enough that some of the repeated lists are out of date, however busy the machine is. */
const STALE_REQUESTS = 2_000;
const STALE_WITHIN_MS = 8_000;

/** A control: the second service is hidden behind something that repeats lists for a while, and must be found out. */
export async function staleListControl(world: World): Promise<Figure[]> {
  const stage = await Stage.open(world);
  const [honest, hidden] = stage.services;
  if (!honest || !hidden) throw new RangeError('two services are needed');
  const stale = await StaleList.before(hidden, 20);
  try {
    const load = stage.load({}, [honest, stale]);
    load.start();
    const deadline = performance.now() + STALE_WITHIN_MS;
    while (stage.evidence.requests < STALE_REQUESTS && performance.now() < deadline) await sleep(50);
    await load.stop();
    await stage.verdict();
    return [atLeast('stale reads found', stage.evidence.violations, 1)];
  } finally {
    await stale.close();
    await stage.close();
  }
}

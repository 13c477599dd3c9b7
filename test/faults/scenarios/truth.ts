import { setTimeout as sleep } from 'node:timers/promises';
import { atLeast, atMost, Stage, type Figure, type World } from '../stage.ts';
import { StaleList } from '../stale-list.ts';

/** No fault: two processes, 64 workers, 100 pets. */
export async function noFault(world: World): Promise<Figure[]> {
  const stage = await Stage.open(world);
  try {
    const load = stage.load();
    const startedAt = performance.now();
    load.start();
    while (stage.evidence.requests < world.size.operations && stage.evidence.violations === 0) await sleep(50);
    await load.stop();
    const seconds = (performance.now() - startedAt) / 1_000;
    const { figures } = await stage.verdict();
    const { evidence } = stage;
    return [
      ...figures,
      atLeast('operations', evidence.requests, world.size.operations),
      atLeast('operations a second', evidence.requests / seconds, 1),
      atMost('connections lost or refused', evidence.lostConnections + load.refusedConnections, 0),
    ];
  } finally {
    await stage.close();
  }
}

/** A control: the second service is hidden behind something that repeats lists for a while, and must be found out. */
export async function staleListControl(world: World): Promise<Figure[]> {
  const stage = await Stage.open(world);
  const [honest, hidden] = stage.services;
  if (!honest || !hidden) throw new RangeError('two services are needed');
  const stale = await StaleList.before(hidden, 20);
  try {
    const load = stage.load({}, [honest, stale]);
    load.start();
    await sleep(800);
    await load.stop();
    await stage.verdict();
    return [atLeast('stale reads found', stage.evidence.violations, 1)];
  } finally {
    await stale.close();
    await stage.close();
  }
}

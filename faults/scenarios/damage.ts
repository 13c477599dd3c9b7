import { setTimeout as sleep } from 'node:timers/promises';
import { atLeast, Stage, type Scenarios } from '../stage.ts';

/** The share of damaged chunks between a service and PostgreSQL. A session lives for some dozen statements. */
const DAMAGED_SHARE = 0.02;

/** Flips bits and cuts records of TLS between the services and PostgreSQL, before and after commits. */
export const DAMAGE: Scenarios = {
  'damaged-tls': async (world) => {
    await using stage = await Stage.open(world, { proxied: true, tls: true });
    await damage(stage, world.size.updates);
    const figures = await stage.verdict();
    return [
      ...figures,
      atLeast('chunks damaged', stage.damagedChunks, 1),
      atLeast('unknown outcomes that took place', stage.appliedUnknown, 1),
    ];
  },
};

async function damage(stage: Stage, updates: number): Promise<void> {
  const { database, proxies, world } = stage;
  stage.defer(() => database.setSystem('RESET fsync'));
  // Nothing crashes here. With fsync, the disk would take most of the time.
  await database.setSystem('SET fsync = off');
  for (const proxy of proxies) proxy.damageChunks(DAMAGED_SHARE, world.random);
  stage.startLoad({ workers: 4, updateShare: 0, thinkTimeMs: 50 });
  const load = stage.startLoad({ updateShare: 1, conditionalShare: 0.3 });
  while (load.served + load.unserved < updates) await sleep(50);
}

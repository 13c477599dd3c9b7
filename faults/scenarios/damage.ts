import { setTimeout as sleep } from 'node:timers/promises';
import { atLeast, Stage, type Scenarios } from '../stage.ts';

/** Of all chunks between a service and PostgreSQL, so that a session lives for some dozen statements. */
const DAMAGED_SHARE = 0.02;

/** So many that some are hit after their commit. */
const MANY_UPDATES = 4_000;

/** Bits turned over and records cut between the services and PostgreSQL, which speak TLS: before a commit and after it. */
export const DAMAGE: Scenarios = {
  'damaged-tls': async (world) => {
    const { updates } = world.size;
    await using stage = await Stage.open(world, { proxied: true, tls: true });
    await damage(stage, updates);
    const figures = await stage.verdict();
    // Of a short run's few damaged chunks none may lie behind a commit.
    const leastApplied = updates < MANY_UPDATES ? 0 : 1;
    return [
      ...figures,
      atLeast('chunks damaged', stage.damagedChunks, 1),
      atLeast('unknown outcomes that took place', stage.appliedUnknown, leastApplied),
    ];
  },
};

async function damage(stage: Stage, updates: number): Promise<void> {
  const { database, proxies, world } = stage;
  stage.defer(() => database.setSystem('RESET fsync'));
  // Nothing crashes here, and the disk would take most of the time.
  await database.setSystem('SET fsync = off');
  for (const proxy of proxies) proxy.damageChunks(DAMAGED_SHARE, world.random);
  stage.startLoad({ workers: 4, updateShare: 0, thinkTimeMs: 50 });
  const load = stage.startLoad({ updateShare: 1, conditionalShare: 0.3 });
  while (load.served + load.unserved < updates) await sleep(50);
}

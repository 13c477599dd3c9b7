import { setTimeout as sleep } from 'node:timers/promises';
import { atLeast, found, madeWrong, Stage, type Scenarios } from '../stage.ts';

/** Of all chunks between a service and PostgreSQL, so that a session lives for some dozen statements. */
const DAMAGED_SHARE = 0.02;

/** Enough that some of them are hit after their commit. */
const CONTROL_UPDATES = 4_000;

/** Bits turned over and records cut between the services and PostgreSQL, which speak TLS: before a commit and after it. */
export const DAMAGE: Scenarios = {
  'damaged-tls': async (world) => {
    const { updates } = world.size;
    await using stage = await Stage.open(world, { proxied: true, tls: true });
    await damage(stage, updates);
    const figures = await stage.verdict();
    // Of a short run's few damaged chunks none may lie behind a commit.
    const leastApplied = updates < CONTROL_UPDATES ? 0 : 1;
    return [
      ...figures,
      atLeast('chunks damaged', stage.damagedChunks, 1),
      atLeast('unknown outcomes that took place', stage.appliedUnknown, leastApplied),
    ];
  },

  /** A control: services that take any error of TLS for a connection that could not be made write updates twice. */
  'control-read-by-code': async (world) => {
    const head = 'export function outcomeOf(error) {';
    const byCode = `${head} if (/^ERR_SSL_/.test(error?.code)) return 'not_applied';`;
    const settings = madeWrong('database/database-failure.js', head, byCode);
    await using stage = await Stage.open(world, { proxied: true, tls: true, settings });
    await damage(stage, CONTROL_UPDATES);
    return found(await stage.verdict(), 'violations');
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

import { setTimeout as sleep } from 'node:timers/promises';
import { atLeast, madeWrong, Stage, type Scenarios, type World } from '../stage.ts';

/** Of all chunks between a service and PostgreSQL, so that a session lives for some dozen statements. */
const DAMAGED_SHARE = 0.02;

/** Enough that some of them are hit after their commit. */
const CONTROL_UPDATES = 4_000;

/** Bits turned over and records cut between the services and PostgreSQL, which speak TLS: before a commit and after it. */
export const DAMAGE: Scenarios = {
  'damaged-tls': async (world) => {
    const { updates } = world.size;
    const { figures, damaged, appliedUnknown } = await damage(world, updates);
    return [
      ...figures,
      atLeast('chunks damaged', damaged, 1),
      // Of a short run's few damaged chunks none may lie behind a commit.
      atLeast('unknown outcomes that took place', appliedUnknown, updates < CONTROL_UPDATES ? 0 : 1),
    ];
  },

  /** A control: services that take any error of TLS for a connection that could not be made write updates twice. */
  'control-read-by-code': async (world) => {
    const head = 'export function outcomeOf(error) {';
    const byCode = `${head} if (/^ERR_SSL_/.test(error?.code)) return 'not_applied';`;
    const settings = madeWrong('database/database-failure.js', head, byCode);
    const { writtenTwice } = await damage(world, CONTROL_UPDATES, settings);
    return [atLeast('updates found that were written twice', writtenTwice, 1)];
  },
};

async function damage(world: World, least: number, settings: Record<string, string> = {}) {
  await using stage = await Stage.open(world, { proxied: true, tls: true, settings });
  const { database, evidence } = stage;
  stage.defer(() => database.setSystem('RESET fsync'));
  // Nothing crashes here, and the disk would take most of the time.
  await database.setSystem('SET fsync = off');
  for (const proxy of stage.proxies) proxy.damageChunks(DAMAGED_SHARE, world.random);
  const load = stage.startLoad({ updateShare: 0.95, conditionalShare: 0.3 });
  let updates = 0;
  load.onExchange(({ operation }) => {
    if (operation.kind === 'update') updates++;
  });
  while (updates < least) await sleep(50);
  const { figures, state } = await stage.verdict();
  return {
    figures,
    damaged: stage.damagedChunks,
    appliedUnknown: evidence.appliedUnknown(state),
    writtenTwice: evidence.broken('written twice'),
  };
}

import { setTimeout as sleep } from 'node:timers/promises';
import { atLeast, madeWrong, Stage, type Figure, type StageOptions, type World } from '../stage.ts';

/** Of all chunks between a service and PostgreSQL, so that a session lives for some dozen statements. */
const DAMAGED_SHARE = 0.02;

/** Enough that some of them are hit after their commit. */
const CONTROL_UPDATES = 4_000;

/** Bits turned over and records cut between the services and PostgreSQL, which speak TLS: before a commit and after it. */
export async function damagedTls(world: World): Promise<Figure[]> {
  const { figures, updates, appliedUnknown } = await damage(world, world.size.damagedUpdates);
  return [
    ...figures,
    atLeast('updates', updates, world.size.damagedUpdates),
    // Of a short run's few damaged chunks none may lie behind a commit.
    atLeast('unknown outcomes that took place', appliedUnknown, world.size.damagedUpdates < CONTROL_UPDATES ? 0 : 1),
  ];
}

/** A control: services that take any error of TLS for a connection that could not be made write updates twice. */
export async function readByCodeControl(world: World): Promise<Figure[]> {
  const head = 'export function outcomeOf(error) {';
  const byCode = `${head} if (/^ERR_SSL_/.test(error?.code)) return 'not_applied';`;
  const { violations } = await damage(world, CONTROL_UPDATES, madeWrong('database/database-failure.js', head, byCode));
  return [atLeast('wrong verdicts found', violations, 1)];
}

async function damage(world: World, least: number, settings: StageOptions['settings'] = {}) {
  await using stage = await Stage.open(world, { proxied: true, tls: true, settings });
  const { database } = stage;
  stage.defer(() => database.setSystem('RESET fsync'));
  // Nothing crashes here, and the disk would take most of the time.
  await database.setSystem('SET fsync = off');
  const load = stage.load({ updateShare: 0.95, conditionalShare: 0.3 });
  let updates = 0;
  load.onExchange(({ operation }) => {
    if (operation.kind === 'update') updates++;
  });
  for (const proxy of stage.proxies) proxy.damageChunks(DAMAGED_SHARE, world.random);
  const startedAt = performance.now();
  load.start();
  while (updates < least) await sleep(50);
  await load.stop();
  const { figures, state } = await stage.verdict();
  const damaged = stage.proxies.reduce((sum, proxy) => sum + proxy.damaged, 0);
  world.note(
    `${damaged} chunks damaged, ${((1_000 * updates) / (performance.now() - startedAt)).toFixed(0)} updates/s`,
  );
  const { evidence } = stage;
  return { figures, updates, violations: evidence.violations, appliedUnknown: evidence.appliedUnknown(state) };
}

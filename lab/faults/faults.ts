import { setTimeout as sleep } from 'node:timers/promises';
import type { Stage } from './stage.ts';

export type Fault = (stage: Stage) => Promise<void> | void;

const BRIEFLY_MS = 1_000;

/** Each fault is over when it resolves. The first service lives through all of them. */
export const FAULTS = {
  'cut-before-answer': async ({ proxies }) => {
    for (const proxy of proxies) proxy.cutBeforeAnswer(2);
    await sleep(100);
  },
  'cut-connections': ({ proxies }) => {
    for (const proxy of proxies) proxy.cut();
  },
  'silent-connections': async ({ proxies, world }) => {
    for (const proxy of proxies) proxy.silence();
    await sleep(world.random.between(BRIEFLY_MS, Math.min(4_000, world.size.faultMs)));
    for (const proxy of proxies) proxy.speak();
  },
  'terminate-sessions': ({ database }) => database.cutSessions(),
  'locked-row': async ({ database, petIds, world }) => {
    const release = await database.lockRow(world.random.pick(petIds));
    await sleep(BRIEFLY_MS);
    await release();
  },
  'freeze-postgres': async ({ world }) => {
    world.postgres.freeze();
    await sleep(world.random.between(BRIEFLY_MS, world.size.faultMs));
    world.postgres.thaw();
  },
  'restart-postgres': async ({ world }) => {
    await world.postgres.stop();
    await world.postgres.restart();
  },
  'kill-postgres': async ({ world }) => {
    await world.postgres.crash();
    await sleep(world.random.between(0, world.size.faultMs));
    await world.postgres.restart();
  },
  'kill-service': async ({ services }) => {
    const service = services[1];
    await service?.kill();
    service?.start();
    await service?.becomesReady();
  },
} satisfies Record<string, Fault>;

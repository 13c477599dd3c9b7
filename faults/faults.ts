import { setTimeout as sleep } from 'node:timers/promises';
import type { Stage } from './stage.ts';

export type Fault = (stage: Stage) => Promise<void> | void;

const BRIEFLY_MS = 1_000;

/** What happens now and then, and is over when it resolves. The first service lives through all of it. */
export const FAULTS = {
  'cut before the answer': async ({ proxies }) => {
    for (const proxy of proxies) proxy.cutBeforeAnswer(2);
    await sleep(100);
  },
  'cut connections': ({ proxies }) => {
    for (const proxy of proxies) proxy.cut();
  },
  'silent network': (stage) => silence(stage, BRIEFLY_MS),
  'terminate sessions': ({ database }) => database.cutSessions(),
  'locked row': async ({ database, petIds, world }) => {
    const release = await database.lockRow(world.random.pick(petIds));
    await sleep(BRIEFLY_MS);
    await release();
  },
  'freeze PostgreSQL': async ({ world }) => {
    world.postgres.freeze();
    await sleep(BRIEFLY_MS);
    world.postgres.thaw();
  },
  'restart PostgreSQL': async ({ world }) => {
    await world.postgres.stop();
    await world.postgres.restart();
  },
  'kill PostgreSQL': async ({ world }) => {
    await world.postgres.crash();
    await sleep(world.random.between(0, 300));
    await world.postgres.restart();
  },
  'kill a service': async ({ services }) => {
    const service = services[1];
    await service?.kill();
    service?.start();
    await service?.becomesReady();
  },
} satisfies Record<string, Fault>;

export async function silence({ proxies }: Stage, forMs: number): Promise<void> {
  for (const proxy of proxies) proxy.silence();
  await sleep(forMs);
  for (const proxy of proxies) proxy.speak();
}

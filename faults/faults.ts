import { setTimeout as sleep } from 'node:timers/promises';
import type { Stage } from './stage.ts';

export type Fault = (stage: Stage) => Promise<void> | void;

const BRIEFLY_MS = 1_000;

/** What happens now and then, and is over when it resolves. The first service lives through all of it. */
export const FAULTS = {
  'kill a service': async ({ services }) => {
    const service = services[1];
    await service?.kill();
    service?.start();
    await service?.becomesReady();
  },
  'kill PostgreSQL': async ({ world }) => {
    await world.postgres.crash();
    await world.postgres.restart();
  },
  'restart PostgreSQL': async ({ world }) => {
    await world.postgres.stop();
    await world.postgres.restart();
  },
  'freeze PostgreSQL': async ({ world }) => {
    world.postgres.freeze();
    await sleep(BRIEFLY_MS);
    world.postgres.thaw();
  },
  'terminate sessions': ({ database }) => database.cutSessions(),
  'cut connections': ({ proxies }) => {
    for (const proxy of proxies) proxy.cut();
  },
  'cut before the answer': ({ proxies }) => {
    for (const proxy of proxies) proxy.cutBeforeAnswer(1);
  },
  'silent network': (stage) => silence(stage, BRIEFLY_MS),
  'locked row': async ({ database, petIds, world }) => {
    const release = await database.lockRow(world.random.pick(petIds));
    await sleep(BRIEFLY_MS);
    await release();
  },
} satisfies Record<string, Fault>;

export async function silence({ proxies }: Stage, forMs: number): Promise<void> {
  for (const proxy of proxies) proxy.silence();
  await sleep(forMs);
  for (const proxy of proxies) proxy.speak();
}

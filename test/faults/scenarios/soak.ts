import { setTimeout as sleep } from 'node:timers/promises';
import { quantile, recovery } from '../measures.ts';
import { atMost, Stage, type Figure, type World } from '../stage.ts';

type Fault = (stage: Stage) => Promise<void> | void;

const BRIEFLY_MS = 1_500;

/** Everything that happens now and then. The first service lives through all of it, so that its growth can be told. */
const FAULTS: Record<string, Fault> = {
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
  'terminate sessions': async ({ database }) => {
    await database.terminateSessions();
  },
  'cut connections': ({ proxies }) => {
    for (const proxy of proxies) proxy.cut();
  },
  'cut before the answer': ({ proxies }) => {
    for (const proxy of proxies) proxy.cutBeforeAnswer(1);
  },
  'silent network': async ({ proxies }) => {
    for (const proxy of proxies) proxy.silence();
    await sleep(BRIEFLY_MS);
    for (const proxy of proxies) proxy.speak();
  },
  'locked row': async ({ database, petIds, world }) => {
    const release = await database.lockRow(world.random.pick(petIds));
    await sleep(BRIEFLY_MS);
    await release();
  },
};

/** Load for minutes, with a fault every now and then. */
export async function soak(world: World): Promise<Figure[]> {
  const { random, size } = world;
  const stage = await Stage.open(world, { proxied: true });
  const [survivor] = stage.services;
  if (!survivor) throw new RangeError('a service is needed');
  try {
    const load = stage.load({ thinkTimeMs: 20 });
    load.start();
    const samples: { residentMb: number; descriptors: number }[] = [];
    const startedAt = performance.now();
    let slowest = 0;
    for (let at = size.soakFaultEveryMs; at < size.soakMs; at += size.soakFaultEveryMs) {
      await sleep(Math.max(0, startedAt + at - performance.now()));
      samples.push({ residentMb: survivor.residentMb(), descriptors: survivor.openDescriptors() });
      const [name, fault] = random.pick(Object.entries(FAULTS));
      world.note(`${(at / 1_000).toFixed(0)} s: ${name}, after ${JSON.stringify(samples.at(-1))}`);
      await fault(stage);
      slowest = Math.max(slowest, await recovery(load, stage.services));
    }
    await sleep(size.soakFaultEveryMs / 2);
    samples.push({ residentMb: survivor.residentMb(), descriptors: survivor.openDescriptors() });
    await load.stop();
    const { figures } = await stage.verdict();
    const middle = samples.slice(Math.floor(samples.length / 4), Math.ceil(samples.length / 2));
    const late = samples.slice(Math.floor((samples.length * 3) / 4));
    const memory = (some: typeof samples) =>
      quantile(
        some.map((sample) => sample.residentMb),
        0.5,
      );
    const descriptors = (some: typeof samples) =>
      quantile(
        some.map((sample) => sample.descriptors),
        0.5,
      );
    return [
      ...figures,
      atMost('first success after a fault', slowest, 1_000, 'ms'),
      atMost('memory grown, second to last quarter', memory(late) - memory(middle), 20, 'MB'),
      atMost('descriptors grown', descriptors(late) - descriptors(middle), 3),
    ];
  } finally {
    await stage.close();
  }
}

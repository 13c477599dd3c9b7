import { setTimeout as sleep } from 'node:timers/promises';
import { FAULTS } from '../faults.ts';
import { quantile } from '../measures.ts';
import { atMost, SMALL_YOUNG_GENERATION, Stage, type Scenarios } from '../stage.ts';

const WARM_UP_MS = 3_000;

/** One fault and then another. */
export const SOAK: Scenarios = {
  /** Each once, in a random order and with little load: what every test run can afford. */
  'every-fault': async (world) => {
    await using stage = await Stage.open(world, { proxied: true });
    stage.startLoad({ workers: 16, thinkTimeMs: 5 });
    for (const [name, fault] of world.random.shuffled(Object.entries(FAULTS))) {
      await sleep(100);
      await fault(stage);
      world.note(`${name}: served again after ${(await stage.recovery()).toFixed(0)} ms`);
    }
    return await stage.verdict();
  },

  /** Load for minutes, with a fault every now and then. */
  soak: async (world) => {
    const { random, size } = world;
    await using stage = await Stage.open(world, { proxied: true, nodeOptions: SMALL_YOUNG_GENERATION });
    const { service: survivor } = stage;
    const load = stage.startLoad({ thinkTimeMs: 20 });
    await sleep(WARM_UP_MS);
    await load.stop();
    const descriptorsBefore = survivor.openDescriptors();
    load.start();
    const residentMb: number[] = [];
    const startedAt = performance.now();
    for (let at = size.soakFaultEveryMs; at < size.soakMs; at += size.soakFaultEveryMs) {
      await sleep(Math.max(0, startedAt + at - performance.now()));
      residentMb.push(survivor.residentMb());
      const [name, fault] = random.pick(Object.entries(FAULTS));
      world.note(`${(at / 1_000).toFixed(0)} s: ${name}, at ${survivor.residentMb().toFixed(0)} MB`);
      await fault(stage);
      await stage.recovery();
    }
    await sleep(size.soakFaultEveryMs / 2);
    residentMb.push(survivor.residentMb());
    await load.stop();
    await sleep(500);
    const descriptorsAfter = survivor.openDescriptors();
    const figures = await stage.verdict();
    const early = residentMb.slice(Math.floor(residentMb.length / 4), Math.ceil(residentMb.length / 2));
    const late = residentMb.slice(Math.floor((residentMb.length * 3) / 4));
    return [
      ...figures,
      atMost('memory grown, second to last quarter', quantile(late, 0.5) - quantile(early, 0.5), 50, 'MB'),
      atMost('descriptors grown', descriptorsAfter - descriptorsBefore, 5),
    ];
  },
};

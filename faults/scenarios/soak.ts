import { setTimeout as sleep } from 'node:timers/promises';
import { FAULTS } from '../faults.ts';
import { quantile } from '../measures.ts';
import { atMost, SMALL_YOUNG_GENERATION, Stage, type Scenarios } from '../stage.ts';

const WARM_UP_MS = 3_000;

export const SOAK: Scenarios = {
  /** Load for minutes, with a random fault at fixed intervals. */
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

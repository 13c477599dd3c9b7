import { setTimeout as sleep } from 'node:timers/promises';
import { FAULTS } from '../faults.ts';
import { atLeast, atMost, Stage, type Scenarios } from '../stage.ts';

const FAULT_EVERY_MS = 2_000;
const HOPELESS_AFTER_MS = 30 * 60_000;

export const REPETITION: Scenarios = {
  /** Each update carries a key and is repeated through all faults until it is answered. It takes place exactly once. */
  'repeated-updates': async (world) => {
    await using stage = await Stage.open(world, { proxied: true });
    const { evidence } = stage;
    const load = stage.startLoad({ keyedShare: 1, updateShare: 0.95 });
    let replays = 0;
    load.onExchange(({ outcome }) => {
      if ('headers' in outcome && 'idempotent-replayed' in outcome.headers) replays++;
    });
    const faults = Object.values(FAULTS); // the first one commits updates and cuts off their answers
    const hopelessAt = performance.now() + HOPELESS_AFTER_MS;
    for (let played = 0; evidence.done < world.size.updates || replays === 0; played++) {
      if (performance.now() > hopelessAt) break;
      await sleep(FAULT_EVERY_MS);
      await faults[played % faults.length]?.(stage);
    }
    await load.stop();
    const figures = await stage.verdict();
    return [
      ...figures,
      atLeast('updates acknowledged', evidence.done, world.size.updates),
      atMost('left unknown', evidence.unknown, 0),
      atLeast('repetitions answered from the history', replays, 1),
    ];
  },
};

import { setTimeout as sleep } from 'node:timers/promises';
import { FAULTS, type Fault } from '../faults.ts';
import { atLeast, Stage, type Figure, type Scenarios, type StageOptions, type World } from '../stage.ts';

/** Each fault alone, and all of them in turn, again and again under load. */
export const INTERRUPTIONS: Scenarios = {
  ...Object.fromEntries(
    Object.entries(FAULTS).map(([name, fault]) => [name, (world: World) => interrupt(world, { [name]: fault })]),
  ),
  'every-fault': (world) => interrupt(world, FAULTS),
  'every-fault-fast-off': (world) => interrupt(world, FAULTS, { FAST: 'off' }),
};

async function interrupt(
  world: World,
  faults: Readonly<Record<string, Fault>>,
  settings: StageOptions['settings'] = {},
): Promise<Figure[]> {
  await using stage = await Stage.open(world, { proxied: true, settings });
  stage.startLoad({ workers: 32 });
  for (let round = 0; round < world.size.rounds; round++) {
    for (const [name, fault] of world.random.shuffled(Object.entries(faults))) {
      await sleep(world.random.between(100, 500));
      await fault(stage);
      world.note(`${name}: served again after ${(await stage.recovery()).toFixed(0)} ms`);
    }
  }
  const figures = await stage.verdict();
  if ('kill-service' in faults) figures.push(atLeast('requests cut off by a kill', stage.evidence.lostConnections, 1));
  if ('cut-before-answer' in faults) figures.push(atLeast('unknown outcomes that took place', stage.appliedUnknown, 1));
  return figures;
}

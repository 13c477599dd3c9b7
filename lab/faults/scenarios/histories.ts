import { setTimeout as sleep } from 'node:timers/promises';
import { FAULTS, type Fault } from '../faults.ts';
import { atLeast, atMost, Stage, type Figure, type Scenarios, type World } from '../stage.ts';

const OPERATIONS = 3_000;
/** With more open operations, Porcupine may need too long. */
const MOST_OPEN = 10;

const PLAYED: Readonly<Record<string, Fault>> = {
  'cut-before-answer': async ({ proxies }) => {
    for (const proxy of proxies) proxy.cutBeforeAnswer(1); // each leaves open what its service had sent in one statement
    await sleep(100);
  },
  'terminate-sessions': FAULTS['terminate-sessions'],
  'freeze-postgres': FAULTS['freeze-postgres'],
  'kill-postgres': FAULTS['kill-postgres'],
  'kill-service': FAULTS['kill-service'],
};

/** Short rounds for Porcupine, with one fault each, for each service of the stock. */
export const HISTORIES: Scenarios = Object.fromEntries(
  Object.entries(PLAYED).flatMap(([name, fault]) => [
    [name, (world: World) => recorded(world, fault, 'on')],
    [`${name}-fast-off`, (world: World) => recorded(world, fault, 'off')],
  ]),
);

async function recorded(world: World, fault: Fault, FAST: string): Promise<Figure[]> {
  await using stage = await Stage.open(world, { pets: 20, proxied: true, settings: { FAST } });
  const { history } = stage;
  if (!history) throw new RangeError('no file for the history');
  const load = stage.startLoad({ workers: 8, conditionalShare: 0.3, keyedShare: 0.3, missedShare: 0.1 });
  while (history.operations < OPERATIONS / 2) await sleep(20);
  await fault(stage);
  await stage.recovery();
  while (history.operations < OPERATIONS) await sleep(20);
  await load.stop();
  const figures = await stage.verdict();
  return [
    ...figures,
    atLeast('operations', history.operations, OPERATIONS),
    atMost('operations open to the end', history.open, MOST_OPEN),
  ];
}

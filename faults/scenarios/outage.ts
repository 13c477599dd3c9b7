import { setTimeout as sleep } from 'node:timers/promises';
import { ConnectionLost } from '../../test/support/http-client.ts';
import { quantile } from '../measures.ts';
import { atLeast, atMost, Stage, type Figure, type Scenarios, type World } from '../stage.ts';

/** From then on no answer of an update that came before the lock is still on its way. */
const SETTLED_MS = 200;

/** How long a service may take to notice before its readiness must be off. */
const NOTICE_MS = 3_000;

/** No database for a while, or not for one pet. */
export const OUTAGES: Scenarios = {
  'postgres-down': (world) =>
    endure(
      world,
      () => world.postgres.crash(),
      () => world.postgres.restart(),
    ),
  'postgres-frozen': (world) =>
    endure(
      world,
      () => world.postgres.freeze(),
      () => world.postgres.thaw(),
    ),
  'locked-row': lockedRow,
};

async function endure(
  world: World,
  begin: () => Promise<void> | void,
  end: () => Promise<void> | void,
): Promise<Figure[]> {
  await using stage = await Stage.open(world);
  const { service } = stage;
  const load = stage.startLoad();
  let isOut = false;
  stage.defer(() => isOut && end());
  await sleep(1_000);
  const residentBefore = service.residentMb();
  await begin();
  isOut = true;
  const outSince = performance.now();
  await sleep(100); // what had been answered arrives
  const servedBefore = load.served;
  const wrong: string[] = [];
  while (performance.now() < outSince + world.size.faultMs) {
    await sleep(250);
    const live = await service.health('live');
    const ready = await service.health('ready');
    if (live !== 200) wrong.push(`live ${String(live)}`);
    if (ready !== 503 && performance.now() > outSince + NOTICE_MS) wrong.push(`ready ${String(ready)}`);
  }
  const residentAfter = service.residentMb();
  const served = load.served - servedBefore;
  isOut = false;
  await end();
  await stage.recovery();
  await Promise.all(stage.services.map((each) => each.becomesReady()));
  const figures = await stage.verdict();
  return [
    ...figures,
    atMost(`wrong health probes ${wrong.slice(0, 3).join(', ')}`.trim(), wrong.length, 0),
    atMost('served without a database', served, 0),
    atMost('memory grown', residentAfter - residentBefore, 50, 'MB'),
  ];
}

/** Another session holds one pet's row while 64 workers want it; the other pets and the list must not notice. */
async function lockedRow(world: World): Promise<Figure[]> {
  await using stage = await Stage.open(world);
  const [lockedPet = 0, ...otherPets] = stage.petIds;
  const onLocked = stage.startLoad({ petIds: [lockedPet], updateShare: 1, conditionalShare: 0 });
  const onOthers = stage.startLoad({ workers: 8, petIds: otherPets, conditionalShare: 0 });
  let lockedSince = Infinity;
  let lockedUntil = Infinity;
  const locked = { refused: 0, unknown: 0, otherwise: 0 };
  onLocked.onExchange(({ end, outcome }) => {
    if (end < lockedSince + SETTLED_MS || end > lockedUntil) return;
    if (outcome instanceof ConnectionLost || outcome.status !== 503) locked.otherwise++;
    else locked[outcome.text.includes('"service_unavailable"') ? 'refused' : 'unknown']++;
  });
  let durations: number[] = [];
  onOthers.onExchange(({ start, end }) => durations.push(end - start));
  await sleep(1_000);
  durations = [];
  await sleep(5_000);
  const normalP99 = quantile(durations, 0.99);

  const release = await stage.database.lockRow(lockedPet);
  lockedSince = performance.now();
  durations = [];
  await sleep(world.size.faultMs);
  const duringP99 = quantile(durations, 0.99);
  lockedUntil = performance.now();
  await release();
  await sleep(500);
  const figures = await stage.verdict();
  world.note(`p99 of the others ${duringP99.toFixed(1)} ms, normally ${normalP99.toFixed(1)} ms`);
  world.note(`updates of the locked pet: ${locked.refused} refused, ${locked.unknown} of unknown outcome`);
  return [
    ...figures,
    atMost('other requests not served', onOthers.unserved, 0),
    atMost('p99 of the others against normal', duringP99 / normalP99, 2, '×'),
    atLeast('updates of the locked pet refused', locked.refused, 1),
    atMost('updates of the locked pet not answered 503', locked.otherwise, 0),
  ];
}

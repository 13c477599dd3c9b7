import { setTimeout as sleep } from 'node:timers/promises';
import { atMost, SMALL_YOUNG_GENERATION, Stage, type Figure, type Scenarios, type World } from '../stage.ts';

/** How long a service may take to notice before its readiness must be off. */
const NOTICE_MS = 3_000;

/** No database for a while. */
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
};

async function endure(
  world: World,
  begin: () => Promise<void> | void,
  end: () => Promise<void> | void,
): Promise<Figure[]> {
  await using stage = await Stage.open(world, { nodeOptions: SMALL_YOUNG_GENERATION });
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

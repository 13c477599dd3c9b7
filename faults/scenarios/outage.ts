import { setTimeout as sleep } from 'node:timers/promises';
import { FAULTS, silence, type Fault } from '../faults.ts';
import type { FinalState } from '../final-state.ts';
import { recovery } from '../measures.ts';
import { atLeast, atMost, Stage, type Figure, type World } from '../stage.ts';

/** An orderly restart of PostgreSQL. */
export function restartPostgres(world: World): Promise<Figure[]> {
  return interrupt(world, FAULTS['restart PostgreSQL']);
}

/** All of the services' sessions ended by the database's operator. */
export function terminateSessions(world: World): Promise<Figure[]> {
  return interrupt(world, FAULTS['terminate sessions']);
}

/** All of the services' sockets to PostgreSQL reset. */
export function cutConnections(world: World): Promise<Figure[]> {
  return interrupt(world, FAULTS['cut connections'], { proxied: true });
}

/** The network swallows everything for a while, as when a cable is pulled. */
export function silentConnections(world: World): Promise<Figure[]> {
  const forMs = () => world.random.between(1_000, 4_000);
  return interrupt(world, (stage) => silence(stage, forMs()), { proxied: true });
}

/** Updates commit, and the connection dies before their answer arrives. */
export function cutBeforeAnswer(world: World): Promise<Figure[]> {
  const fault: Fault = async (stage) => {
    for (const proxy of stage.proxies) proxy.cutBeforeAnswer(2);
    await sleep(100);
  };
  return interrupt(world, fault, {
    proxied: true,
    look: ({ evidence }, state) => [atLeast('unknown outcomes that took place', evidence.appliedUnknown(state), 1)],
  });
}

/** The same fault again and again under load. */
export async function interrupt(
  world: World,
  fault: Fault,
  options: {
    readonly proxied?: boolean;
    readonly rounds?: number;
    /** What else is to be seen in the end. */
    readonly look?: (stage: Stage, state: FinalState) => Figure[];
  } = {},
): Promise<Figure[]> {
  const { proxied = false, rounds = world.size.interruptions, look } = options;
  await using stage = await Stage.open(world, { proxied });
  const load = stage.load();
  load.start();
  let slowest = 0;
  for (let round = 0; round < rounds; round++) {
    await sleep(world.random.between(200, 500));
    await fault(stage);
    slowest = Math.max(slowest, await recovery(load, stage.services));
  }
  await load.stop();
  const { figures, state } = await stage.verdict();
  return [
    ...figures,
    ...(look?.(stage, state) ?? []),
    atMost('acknowledged updates lost', stage.evidence.lostUpdates, 0),
    atMost('first success after its return', slowest, 1_000, 'ms'),
    atMost('services that ended', stage.services.filter((service) => !service.isRunning).length, 0),
  ];
}

export function postgresDown(world: World): Promise<Figure[]> {
  const { postgres } = world;
  return endure(world, { begin: () => postgres.crash(), end: () => postgres.restart() });
}

export function postgresFrozen(world: World): Promise<Figure[]> {
  const { postgres } = world;
  return endure(world, { begin: () => postgres.freeze(), end: () => postgres.thaw() });
}

/** How long a service may take to notice before its readiness must be off. */
const NOTICE_MS = 3_000;

async function endure(
  world: World,
  outage: { begin(): Promise<void> | void; end(): Promise<void> | void },
): Promise<Figure[]> {
  await using stage = await Stage.open(world);
  const [service] = stage.services;
  if (!service) throw new RangeError('a service is needed');
  const load = stage.load();
  let isOut = false;
  stage.defer(() => isOut && outage.end());
  let served = 0;
  let outSince = Infinity;
  load.onExchange(({ start, outcome }) => {
    if (isOut && start > outSince && 'status' in outcome && outcome.status < 300) served++;
  });
  load.start();
  await sleep(1_000);
  const residentBefore = service.residentMb();
  await outage.begin();
  isOut = true;
  outSince = performance.now();
  const wrong: string[] = [];
  while (performance.now() < outSince + world.size.outageMs) {
    await sleep(250);
    const live = await service.health('live');
    const ready = await service.health('ready');
    if (live !== 200) wrong.push(`live ${String(live)}`);
    if (ready !== 503 && performance.now() > outSince + NOTICE_MS) wrong.push(`ready ${String(ready)}`);
  }
  const residentAfter = service.residentMb();
  isOut = false;
  await outage.end();
  const firstSuccess = await recovery(load, stage.services);
  await Promise.all(stage.services.map((each) => each.becomesReady()));
  await load.stop();
  const { figures } = await stage.verdict();
  return [
    ...figures,
    atMost(`wrong health probes ${wrong.slice(0, 3).join(', ')}`.trim(), wrong.length, 0),
    atMost('served without a database', served, 0),
    atMost('memory grown', residentAfter - residentBefore, 50, 'MB'),
    atMost('first success after its return', firstSuccess, 1_000, 'ms'),
    atMost('services that ended', stage.services.filter((each) => !each.isRunning).length, 0),
  ];
}

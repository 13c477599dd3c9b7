import { setTimeout as sleep } from 'node:timers/promises';
import { recovery } from '../measures.ts';
import { atLeast, atMost, Stage, type Figure, type World } from '../stage.ts';

/** An orderly restart of PostgreSQL. */
export function restartPostgres(world: World): Promise<Figure[]> {
  return interrupt(world, {}, async () => {
    await world.postgres.stop();
    await world.postgres.restart();
  });
}

/** All of the services' sessions ended by the database's operator. */
export function terminateSessions(world: World): Promise<Figure[]> {
  return interrupt(world, {}, async (stage) => {
    await stage.database.cutSessions();
  });
}

/** All of the services' sockets to PostgreSQL reset. */
export function cutConnections(world: World): Promise<Figure[]> {
  return interrupt(world, { proxied: true }, (stage) => {
    for (const proxy of stage.proxies) proxy.cut();
  });
}

/** The network swallows everything for a while, as when a cable is pulled. */
export function silentConnections(world: World): Promise<Figure[]> {
  return interrupt(world, { proxied: true }, async (stage) => {
    for (const proxy of stage.proxies) proxy.silence();
    await sleep(world.random.between(1_000, 4_000));
    for (const proxy of stage.proxies) proxy.speak();
  });
}

/** Updates commit, and the connection dies before their answer arrives. */
export async function cutBeforeAnswer(world: World): Promise<Figure[]> {
  let applied = 0;
  const figures = await interrupt(
    world,
    { proxied: true },
    async (stage) => {
      for (const proxy of stage.proxies) proxy.cutBeforeAnswer(2);
      await sleep(100);
    },
    (stage, state) => {
      applied = stage.evidence.appliedUnknown(state);
    },
  );
  return [...figures, atLeast('unknown outcomes that took place', applied, 1)];
}

type Interruption = (stage: Stage) => Promise<void> | void;
type LastLook = (stage: Stage, state: Awaited<ReturnType<Stage['verdict']>>['state']) => void;

async function interrupt(
  world: World,
  options: { readonly proxied?: boolean },
  interruption: Interruption,
  lastLook?: LastLook,
): Promise<Figure[]> {
  const stage = await Stage.open(world, options);
  try {
    const load = stage.load();
    load.start();
    let slowest = 0;
    for (let round = 0; round < world.size.interruptions; round++) {
      await sleep(world.random.between(200, 500));
      await interruption(stage);
      slowest = Math.max(slowest, await recovery(load, stage.services));
    }
    await load.stop();
    const { figures, state } = await stage.verdict();
    lastLook?.(stage, state);
    return [
      ...figures,
      atMost('first success after its return', slowest, 1_000, 'ms'),
      atMost('services that ended', stage.services.filter((service) => !service.isRunning).length, 0),
    ];
  } finally {
    await stage.close();
  }
}

export function postgresDown(world: World): Promise<Figure[]> {
  const { postgres } = world;
  return endure(world, { begin: () => postgres.crash(), end: () => postgres.restart() });
}

export function postgresFrozen(world: World): Promise<Figure[]> {
  const { postgres } = world;
  return endure(world, {
    begin: () => {
      postgres.freeze();
    },
    end: () => {
      postgres.thaw();
    },
  });
}

/** How long a service may take to notice before its readiness must be off. */
const NOTICE_MS = 3_000;

async function endure(
  world: World,
  outage: { begin(): Promise<void> | void; end(): Promise<void> | void },
): Promise<Figure[]> {
  const stage = await Stage.open(world);
  const [service] = stage.services;
  if (!service) throw new RangeError('a service is needed');
  const load = stage.load();
  let isOut = false;
  try {
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
  } finally {
    if (isOut) await outage.end();
    await stage.close();
  }
}

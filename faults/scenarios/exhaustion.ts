import { randomBytes } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Client } from 'pg';
import { Database } from '../../test/support/database.ts';
import { startFaultyPostgres } from '../../test/support/postgres-server.ts';
import type { ServiceProcess } from '../../test/support/service-process.ts';
import { Durations, recovery, succeeded } from '../measures.ts';
import { SmallDisk } from '../small-disk.ts';
import { acknowledgeEarly } from './crash.ts';
import { atLeast, atMost, found, leftOut, madeWrong, Stage, type Figure, type World } from '../stage.ts';

/** What PostgreSQL takes to give up: it ends itself, tries to recover, and ends. */
const ENDS_WITHIN_MS = 20_000;

/** The disk of the tables full: a row that needs a new page is refused, and PostgreSQL goes on. */
export function fullDisk(world: World, settings: Record<string, string> = {}): Promise<Figure[]> {
  return withSmallDisk(world, 'base', settings, async (stage, disk) => {
    const load = stage.load();
    const during = { lists: 0, unserved: 0, refused: 0 };
    let isFull = false;
    load.onExchange((exchange) => {
      if (!isFull) return;
      const { operation, outcome } = exchange;
      if (operation.kind === 'update') during.refused += 'status' in outcome && outcome.status === 503 ? 1 : 0;
      else if (succeeded(exchange)) during.lists++;
      else during.unserved++;
    });
    load.start();
    await sleep(500);
    disk.fill();
    isFull = true;
    await sleep(world.size.fullMs);
    isFull = false;
    disk.empty();
    const firstSuccess = await recovery(load, stage.services);
    await load.stop();
    const { figures } = await stage.verdict();
    return [
      ...figures,
      atMost('first success after its return', firstSuccess, 1_000, 'ms'),
      atLeast('updates refused while it was full', during.refused, 1),
      atLeast('lists served while it was full', during.lists, 1),
      atMost('lists not served while it was full', during.unserved, 0),
      atMost('updates of unknown outcome', stage.evidence.answered('503 outcome_unknown'), 0),
    ];
  });
}

/** A control: services that do not know "disk full" for a statement without effect leave open what became of it. */
export async function fullDiskControl(world: World): Promise<Figure[]> {
  const briefly = { ...world, size: { ...world.size, fullMs: 500 } };
  const figures = await fullDisk(briefly, madeWrong('database/database-failure.js', "'40 53 55'", "'40 55'"));
  return found(figures, 'updates of unknown outcome');
}

/** The disk of the write-ahead log full: PostgreSQL ends itself, and cannot be started until there is room. */
export function fullLogDisk(world: World, prepare?: (stage: Stage) => Promise<void>): Promise<Figure[]> {
  return withSmallDisk(world, 'pg_wal', {}, async (stage, disk) => {
    const { postgres } = stage.world;
    await prepare?.(stage);
    const load = stage.load();
    load.start();
    await sleep(500);
    disk.fill();
    for (const deadline = performance.now() + ENDS_WITHIN_MS; postgres.isRunning && performance.now() < deadline;) {
      // The log's present segment has room for long; a switch wants the next one.
      await postgres.database.sql('SELECT pg_switch_wal(), pg_current_xact_id()').catch(() => undefined);
      await sleep(50);
    }
    const outlived = postgres.isRunning;
    await sleep(world.size.fullMs);
    disk.empty();
    if (!postgres.isRunning) await postgres.restart();
    const firstSuccess = await recovery(load, stage.services);
    await load.stop();
    const { figures } = await stage.verdict();
    return [
      ...figures,
      atMost('acknowledged updates lost', stage.evidence.lostUpdates, 0),
      atMost('first success after its return', firstSuccess, 1_000, 'ms'),
      atMost('servers that outlived it', outlived ? 1 : 0, 0),
    ];
  });
}

/** A control: what PostgreSQL acknowledged before it was in the log is lost. */
export async function fullLogDiskControl(world: World): Promise<Figure[]> {
  return found(await fullLogDisk(world, acknowledgeEarly), 'acknowledged updates lost');
}

const MAX_CONNECTIONS = 40;
/** Three are kept for the superuser, by PostgreSQL's default, and the one that cuts the services' sessions is here. */
const MOST_OTHERS = MAX_CONNECTIONS - 3 - 1;
const TAKEN_WITHIN_MS = 10_000;
const CUT_OURS = `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name LIKE 'inventory %'`;

/**
 * All connections that PostgreSQL gives to anybody but its superuser taken by others: at first beside the services'
 * sessions, which serve on; then these are cut, and others are faster to take their places.
 */
export async function takenConnections(world: World, settings: Record<string, string> = {}): Promise<Figure[]> {
  await using postgres = await startOwnPostgres();
  const others: Client[] = [];
  await postgres.database.setSystem(`SET max_connections = ${MAX_CONNECTIONS}`);
  await postgres.stop();
  await postgres.restart();
  const password = randomBytes(24).toString('hex');
  await postgres.database.sql(`CREATE ROLE shop LOGIN CREATEDB PASSWORD '${password}'`);
  const url = new URL(postgres.url);
  Object.assign(url, { username: 'shop', password });
  await using stage = await Stage.open({ ...world, postgres: { ...postgres, url: url.href } }, { settings });
  const [service] = stage.services;
  if (!service) throw new RangeError('a service is needed');
  const admin = await postgres.database.session(); // the superuser's places are taken, too, while others ask for theirs
  const takeAll = async () => {
    for (let isRefused = false; !isRefused;) {
      const opened = await Promise.allSettled(Array.from({ length: 8 }, () => new Database(url.href).session()));
      for (const each of opened) if (each.status === 'fulfilled') others.push(each.value);
      isRefused = opened.some(({ status }) => status === 'rejected');
    }
  };
  stage.defer(() => Promise.all([admin, ...others].map((session) => session.end())));
  const load = stage.load({ conditionalShare: 0 }); // a refused precondition would count as not served
  const beside = new Durations(load);
  load.start();
  await sleep(500);
  await takeAll();
  beside.begin();
  const notReady = await probes(service, world.size.fullMs / 2, 503);
  const unservedBeside = beside.unserved;
  const cutAt = performance.now();
  while (others.length < MOST_OTHERS && performance.now() < cutAt + TAKEN_WITHIN_MS) {
    await admin.query(CUT_OURS);
    await takeAll();
  }
  const taken = others.length;
  const wrongProbes = await probes(service, world.size.fullMs / 2, 200);
  await Promise.all(others.splice(0).map((other) => other.end()));
  const firstSuccess = await recovery(load, stage.services);
  await load.stop();
  world.note(`beside the others ${beside.count} requests`);
  const { figures } = await stage.verdict();
  return [
    ...figures,
    atMost('requests not served with sessions in hand', unservedBeside, 0),
    atMost('probes that found it not ready then', notReady, 0),
    atMost('probes that found it ready without', wrongProbes, 0),
    atLeast('connections taken by others', taken, MOST_OTHERS),
    atMost('first success after its return', firstSuccess, 1_000, 'ms'),
  ];
}

/** A control: services that take a session that they are refused for a fault of their own. */
export async function takenConnectionsControl(world: World): Promise<Figure[]> {
  const settings = madeWrong('database/session.js', "new NotApplied('no", "new TypeError('no");
  const figures = await takenConnections(world, settings);
  return found(figures, 'answers 500');
}

/** Asks for some time whether a service is ready. @returns how often the answer was the wrong one */
async function probes(service: ServiceProcess, forMs: number, wrong: number): Promise<number> {
  let count = 0;
  for (const until = performance.now() + forMs; performance.now() < until;) {
    if ((await service.health('ready')) === wrong) count++;
    await sleep(100);
  }
  return count;
}

async function withSmallDisk(
  world: World,
  part: 'base' | 'pg_wal',
  settings: Record<string, string>,
  play: (stage: Stage, disk: SmallDisk) => Promise<Figure[]>,
): Promise<Figure[]> {
  const obstacle = SmallDisk.obstacle();
  if (obstacle !== undefined) return leftOut(world, `this account may not mount a file system (${obstacle})`);
  await using postgres = await startOwnPostgres();
  using disk = await SmallDisk.under(postgres, part);
  await using stage = await Stage.open({ ...world, postgres }, { settings });
  return await play(stage, disk);
}

/** A server of the scenario's own, for `await using`. */
async function startOwnPostgres() {
  const postgres = await startFaultyPostgres();
  return Object.assign(postgres, { [Symbol.asyncDispose]: () => postgres.remove() });
}

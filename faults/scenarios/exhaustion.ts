import { setTimeout as sleep } from 'node:timers/promises';
import type { Client } from 'pg';
import { Database } from '../../test/support/database.ts';
import { startFaultyPostgres } from '../../test/support/postgres-server.ts';
import type { ServiceProcess } from '../../test/support/service-process.ts';
import { SmallDisk } from '../small-disk.ts';
import { atLeast, atMost, found, madeWrong, Stage, type Figure, type Scenarios, type World } from '../stage.ts';
import { acknowledgeEarly } from './interruptions.ts';

/** What PostgreSQL has none left of, on a server of the scenario's own. */
export const EXHAUSTION: Scenarios = {
  'full-disk': (world) => fullDisk(world),

  /** A control: services that do not know "disk full" for a statement without effect leave open what became of it. */
  'control-full-disk': async (world) => {
    const figures = await fullDisk(world, madeWrong('database/database-failure.js', "'40 53 55'", "'40 55'"));
    return found(figures, 'updates of unknown outcome');
  },

  'full-log-disk': (world) => fullLogDisk(world),

  /** A control: what PostgreSQL acknowledged before it was in the log is lost. */
  'control-full-log-disk': async (world) =>
    found(await fullLogDisk(world, acknowledgeEarly), 'acknowledged updates lost'),

  'taken-connections': (world) => takenConnections(world),

  /** A control: services that take a session that they are refused for a fault of their own. */
  'control-taken-connections': async (world) => {
    const figures = await takenConnections(
      world,
      madeWrong('database/statement-connection.js', "new NotApplied('no", "new TypeError('no"),
    );
    return found(figures, 'answers 500');
  },
};

/** The disk of the tables full: a row that needs a new page is refused, and PostgreSQL goes on. */
async function fullDisk(world: World, settings: Record<string, string> = {}): Promise<Figure[]> {
  await using postgres = await startOwnPostgres();
  await postgres.stop();
  using disk = new SmallDisk(postgres, 'base');
  await postgres.restart();
  await using stage = await Stage.open({ ...world, postgres }, { settings });
  const updates = stage.startLoad({ updateShare: 1, conditionalShare: 0 });
  const lists = stage.startLoad({ workers: 4, updateShare: 0, thinkTimeMs: 20 });
  await sleep(500);
  disk.fill();
  const before = { refused: updates.unserved, listed: lists.served };
  await sleep(world.size.faultMs);
  const during = { refused: updates.unserved - before.refused, listed: lists.served - before.listed };
  disk.empty();
  await stage.recovery();
  const figures = await stage.verdict();
  return [
    ...figures,
    atLeast('updates refused while it was full', during.refused, 1),
    atLeast('lists served while it was full', during.listed, 1),
    atMost('lists not served', lists.unserved, 0),
    atMost('updates of unknown outcome', stage.evidence.unknown, 0),
  ];
}

/** What PostgreSQL takes to give up: it ends itself, tries to recover, and ends. */
const ENDS_WITHIN_MS = 20_000;

/** The disk of the write-ahead log full: PostgreSQL ends itself, and cannot be started until there is room. */
async function fullLogDisk(world: World, prepare?: (stage: Stage) => Promise<void>): Promise<Figure[]> {
  await using postgres = await startOwnPostgres();
  await postgres.stop();
  using disk = new SmallDisk(postgres, 'pg_wal');
  await postgres.restart();
  await using stage = await Stage.open({ ...world, postgres });
  await prepare?.(stage);
  stage.startLoad();
  await sleep(500);
  disk.fill();
  for (const deadline = performance.now() + ENDS_WITHIN_MS; postgres.isRunning && performance.now() < deadline;) {
    // The log's present segment has room for long; a switch wants the next one.
    await postgres.database.sql('SELECT pg_switch_wal(), pg_current_xact_id()').catch(() => undefined);
    await sleep(50);
  }
  const outlived = postgres.isRunning;
  await sleep(world.size.faultMs);
  disk.empty();
  if (!postgres.isRunning) await postgres.restart();
  await stage.recovery();
  const figures = await stage.verdict();
  return [...figures, atMost('servers that outlived it', outlived ? 1 : 0, 0)];
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
async function takenConnections(world: World, settings: Record<string, string> = {}): Promise<Figure[]> {
  await using postgres = await startOwnPostgres();
  await postgres.database.setSystem(`SET max_connections = ${MAX_CONNECTIONS}`);
  await postgres.stop();
  await postgres.restart();
  await postgres.database.sql(`CREATE ROLE shop LOGIN CREATEDB PASSWORD 'shop'`);
  const { href: url } = Object.assign(new URL(postgres.url), { username: 'shop', password: 'shop' });
  await using stage = await Stage.open({ ...world, postgres: { ...postgres, url } }, { settings });
  const others: Client[] = [];
  const takeAll = async () => {
    for (let isRefused = false; !isRefused;) {
      const opened = await Promise.allSettled(Array.from({ length: 8 }, () => new Database(url).session()));
      for (const each of opened) if (each.status === 'fulfilled') others.push(each.value);
      isRefused = opened.some(({ status }) => status === 'rejected');
    }
  };
  const admin = await postgres.database.session(); // the superuser's places are taken, too, while others ask for theirs
  stage.defer(() => Promise.all([admin, ...others].map((session) => session.end())));
  const load = stage.startLoad({ conditionalShare: 0 }); // a refused precondition would count as not served
  await sleep(500);
  await takeAll();
  const unservedBefore = load.unserved;
  const notReady = await probes(stage.service, world.size.faultMs / 2, 503);
  const unservedBeside = load.unserved - unservedBefore;

  const cutAt = performance.now();
  while (others.length < MOST_OTHERS && performance.now() < cutAt + TAKEN_WITHIN_MS) {
    await admin.query(CUT_OURS);
    await takeAll();
  }
  const taken = others.length;
  const wrongProbes = await probes(stage.service, world.size.faultMs / 2, 200);
  await Promise.all(others.splice(0).map((other) => other.end()));
  await stage.recovery();
  const figures = await stage.verdict();
  return [
    ...figures,
    atMost('requests not served with sessions in hand', unservedBeside, 0),
    atMost('probes that found it not ready then', notReady, 0),
    atMost('probes that found it ready without', wrongProbes, 0),
    atLeast('connections taken by others', taken, MOST_OTHERS),
  ];
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

/** For `await using`. */
async function startOwnPostgres() {
  const postgres = await startFaultyPostgres();
  return Object.assign(postgres, { [Symbol.asyncDispose]: () => postgres.remove() });
}

import { once } from 'node:events';
import { get, type IncomingMessage } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';
import { Client } from 'pg';
import { ask, setQuantity, statusOf } from './client.ts';
import { keys, startDatabase, usualPets } from './database.ts';
import { load } from './load.ts';
import { COMPARED, startSide, storeOf, type Side, type SideName } from './sides.ts';
import { median } from './statistics.ts';
import { memoryMb } from './usage.ts';

export interface OperatorFigures {
  side: SideName;
  coldStartMs: number;
  idleMb: number;
  afterListMb: number;
  listP99Ms: number;
  updateP99Ms: number;
}

/** With a million pets. */
export interface WholeReading {
  /** For the medians, in milliseconds: of the time, of the longest block, and of that with gzip. */
  goals: { since: string; timeMs: number; heldMs: number; gzipHeldMs: number };
  timesMs: number[];
  /** The longest that the service's event loop was held: of each reading, the first is that of a process just started. */
  heldMs: number[];
  /** The same for lists in gzip, each after a commit in another database of the server, and each after a changed pet. */
  gzipAfterCommitMs: number[];
  gzipAfterUpdateMs: number[];
}

const STARTS = 5;
const IDLE_MS = 5_000;
const READINGS = 5;
/** Of requests at a steady rate, well below what each program can do. */
const PACED_SECONDS = { warmUp: 3, measured: 8 };

const WHOLE_READING_GOALS: WholeReading['goals'] = { since: '2026-11-23', timeMs: 1_500, heldMs: 20, gzipHeldMs: 10 };

/** What operators ask first, of the service and two peers. */
export async function measureOperators(): Promise<OperatorFigures[]> {
  await using database = await startDatabase();
  const environmentOf = (side: SideName) => ({ DATABASE_URL: storeOf(side, database).url });
  for (const store of [database.own, database.peer]) await store.fill(10);
  const coldStartsMs = new Map<SideName, number[]>(COMPARED.map((name) => [name, []]));
  for (let round = 0; round < STARTS; round++) {
    for (const name of round % 2 === 0 ? COMPARED : COMPARED.toReversed()) {
      await using side = await startSide(name, environmentOf(name));
      coldStartsMs.get(name)?.push(await coldStartMs(side));
    }
  }

  const figures: OperatorFigures[] = [];
  for (const side of COMPARED) {
    const store = storeOf(side, database);
    const environment = environmentOf(side);
    await store.fill(10_000);
    const memory = await memoryAtRest(side, environment);
    await store.fill(1_000);
    const listP99Ms = await pacedP99Ms(side, environment, 'list');
    const updateP99Ms = await pacedP99Ms(side, environment, 'update');
    figures.push({ side, coldStartMs: median(coldStartsMs.get(side) ?? []), ...memory, listP99Ms, updateP99Ms });
  }
  return figures;
}

/** Lists that follow more changes than the service patches, so it reads the stock whole; then lists in gzip. */
export async function measureWholeReading(): Promise<WholeReading> {
  const pets = 1_000_000;
  await using database = await startDatabase();
  await database.own.fill(pets);
  await using side = await startSide('service', { DATABASE_URL: database.own.url }, './bench/event-loop.ts');
  const longestHeldMs = async (): Promise<number> => {
    const reply = once(side.program, 'message', { signal: AbortSignal.timeout(5_000) });
    side.program.send('report');
    return ((await reply) as [number])[0];
  };
  let quantity = 1_000_000;
  await setQuantity(side.url, 1, ++quantity);
  const timesMs: number[] = [];
  const heldMs: number[] = [];
  for (let n = 1; n <= READINGS; n++) {
    await database.own.query('UPDATE inventory_item SET quantity = quantity + 1 WHERE pet_id <= 5000');
    await longestHeldMs();
    const start = performance.now();
    const status = await statusOf(ask(side.url));
    timesMs.push(performance.now() - start);
    if (status !== 200) throw new Error(`the list is answered ${status}`);
    await sleep(50); // the loop has to turn once more before what held it is counted
    heldMs.push(await longestHeldMs());
  }

  const heldByGzip = async (change: () => Promise<unknown>): Promise<number[]> => {
    const held: number[] = [];
    for (let n = 1; n <= READINGS; n++) {
      await change();
      await longestHeldMs();
      await readGzip(side.url);
      await sleep(50);
      held.push(await longestHeldMs());
    }
    return held;
  };
  const elsewhere = new URL(database.own.url);
  elsewhere.pathname = 'template1';
  const tenant = new Client({ connectionString: elsewhere.href });
  await tenant.connect();
  await readGzip(side.url); // deflates all pieces
  const gzipAfterCommitMs = await heldByGzip(() => tenant.query('SELECT pg_current_xact_id()'));
  const gzipAfterUpdateMs = await heldByGzip(() => setQuantity(side.url, 1, ++quantity));
  await tenant.end();
  return { goals: WHOLE_READING_GOALS, timesMs, heldMs, gzipAfterCommitMs, gzipAfterUpdateMs };
}

/** Leaves the bytes as they are: to inflate them would take this program a core. */
async function readGzip(url: string): Promise<void> {
  const headers = { Authorization: `Bearer ${keys.good}`, 'Accept-Encoding': 'gzip' };
  const [response] = (await once(get(url, { headers }), 'response', { signal: AbortSignal.timeout(60_000) })) as [
    IncomingMessage,
  ];
  response.resume();
  await once(response, 'end');
  const { statusCode, headers: received } = response;
  if (statusCode !== 200 || received['content-encoding'] !== 'gzip') throw new Error(`no gzip list: ${statusCode}`);
}

/** From the start of the process to the first 200: of `/health/ready`, and of a list of ten where there is no such thing. */
async function coldStartMs({ name, label, url, spawnedAt }: Side): Promise<number> {
  const ready = name === 'service' ? new URL('/health/ready', url).href : url;
  while ((await statusOf(ask(ready))) !== 200) {
    if (performance.now() > spawnedAt + 20_000) throw new Error(`${label} does not become ready`);
    await sleep(5);
  }
  return performance.now() - spawnedAt;
}

async function memoryAtRest(name: SideName, environment: Record<string, string>) {
  await using side = await startSide(name, environment);
  await sleep(side.spawnedAt + IDLE_MS - performance.now());
  const idleMb = memoryMb(side.pid, 'VmRSS');
  const status = await statusOf(ask(side.url));
  if (status !== 200) throw new Error(`the list is answered ${status}`);
  return { idleMb, afterListMb: memoryMb(side.pid, 'VmRSS') };
}

/** Each request is sent when its time has come, on a connection of its own where all others wait. */
async function pacedP99Ms(name: SideName, environment: Record<string, string>, mode: 'list' | 'update') {
  await using side = await startSide(name, environment);
  const headers = { Authorization: `Bearer ${keys.good}` };
  const plan = { url: side.url, mode, headers, pets: usualPets(1_000), connections: 32, perSecond: 50 };
  await load({ ...plan, seconds: PACED_SECONDS.warmUp });
  const { p99Ms, failures } = await load({ ...plan, seconds: PACED_SECONDS.measured });
  if (failures > 0) throw new Error(`${failures} of the paced requests failed`);
  return p99Ms;
}

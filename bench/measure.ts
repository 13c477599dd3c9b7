import { setTimeout as sleep } from 'node:timers/promises';
import { Pool } from 'pg';
import { quantile } from '../faults/measures.ts';
import { atSteadyRate } from '../faults/open-load.ts';
import { ask, setQuantity, statusOf } from './client.ts';
import { keys, usualPets, type Store } from './database.ts';
import { load, type LoadResult } from './load.ts';
import type { Scenario } from './scenarios.ts';
import type { Side } from './sides.ts';
import { cpuMs, forgetPeakMemory, memoryMb } from './usage.ts';

export interface Measurement {
  requestsPerSecond: number;
  failures: number;
  /** CPU time of the program and of PostgreSQL by the requests measured. */
  programCpuUs: number;
  postgresCpuUs: number;
  peakMemoryMb: number;
  /** Of the updates beside the measured requests, those that were answered 200. */
  updatesPerSecond: number;
  /** What is wrong with what the run left in the database. */
  fault?: string | undefined;
}

/**
 * How long a process gets each kind of request before that is measured: at first until V8 has compiled the code that runs
 * most, then only until caches and connections are warm again.
 */
export const WARM_UP_SECONDS = { first: 8, later: 1 };

/** Short requests come over so many connections while V8 compiles, so that there are enough of them. */
const WARM_UP_CONNECTIONS = 64;
const MOST_PETS_OF_SHORT = 1_000;

/** Connections for the updates beside, so that one that waits for its response does not hold up those that are due. */
const WRITERS = 8;
/** The same for requests at a steady rate. */
const PACED = 32;

export async function measure(side: Side, scenario: Scenario, store: Store, postgresPid: number): Promise<Measurement> {
  const { kind, connections, seconds, updatesPerSecond: perSecond, commitsPerSecond, petsPerSecond } = scenario;
  const headers: Record<string, string> = { Authorization: `Bearer ${keys.good}` };
  if (scenario.gzip) headers['Accept-Encoding'] = 'gzip';
  if (kind === 'unchanged') headers['If-None-Match'] = await etagOf(side);
  const pets = usualPets(scenario.pets);
  const mode = kind === 'unchanged' ? 'list' : kind;
  const writes = { url: side.url, headers, connections: WRITERS, pets, mode: 'update' } as const;
  const pace = (over: number) =>
    scenario.perSecond ? { connections: PACED, perSecond: scenario.perSecond } : { connections: over };
  const run = (seconds: number, over = connections): Promise<[LoadResult, LoadResult | undefined]> =>
    Promise.all([
      mode === 'anew' ? listAnew(side, seconds) : load({ url: side.url, headers, pets, mode, seconds, ...pace(over) }),
      perSecond > 0 ? load({ ...writes, seconds, perSecond }) : undefined,
    ]);

  const bySql = commitsPerSecond + petsPerSecond > 0;
  await using tenant = bySql ? writeBeside(store, commitsPerSecond, petsPerSecond) : undefined;
  forgetPeakMemory(side.pid);
  // At that rate the code that writes would be warm after minutes only.
  if (perSecond > 0) await load({ ...writes, seconds: warmUpSeconds(side, 'update') });
  const isFirst = !side.warmFor.has(kind);
  const isShort = kind === 'update' || scenario.pets <= MOST_PETS_OF_SHORT;
  const [warmUp] = await run(warmUpSeconds(side, kind), isFirst && isShort ? WARM_UP_CONNECTIONS : connections);
  if (!tenant) await untilIdle(side.pid);
  const before = { program: cpuMs(side.pid), postgres: cpuMs(postgresPid) };
  const [result, updates] = await run(seconds);
  const after = { program: cpuMs(side.pid), postgres: cpuMs(postgresPid) };

  if ((side.program.exitCode ?? side.program.signalCode) !== null) throw new Error('it ended by itself');
  if (result.requests === 0) throw new Error(`not one response within ${seconds} s`);
  const hasHistory = ['update', 'hot'].includes(kind);
  const underWay = connections + WARM_UP_CONNECTIONS;
  return {
    requestsPerSecond: result.requests / result.seconds,
    failures: result.failures,
    programCpuUs: ((after.program - before.program) * 1000) / result.requests,
    postgresCpuUs: ((after.postgres - before.postgres) * 1000) / result.requests,
    peakMemoryMb: memoryMb(side.pid, 'VmHWM'),
    updatesPerSecond: updates ? (updates.requests - updates.failures) / updates.seconds : 0,
    fault: hasHistory ? await store.faultInHistory(warmUp.requests + result.requests, underWay) : undefined,
  };
}

function warmUpSeconds(side: Side, kind: Scenario['kind']): number {
  const seconds = side.warmFor.has(kind) ? WARM_UP_SECONDS.later : WARM_UP_SECONDS.first;
  side.warmFor.add(kind);
  return seconds;
}

/** Transactions of another tenant of the server, in a database of its own; or pets that come and go past the service. */
function writeBeside(store: Store, commitsPerSecond: number, petsPerSecond: number): AsyncDisposable {
  const url = new URL(store.url);
  if (petsPerSecond === 0) url.pathname = 'template1';
  const client = new Pool({ connectionString: url.href, max: 1 });
  const query = (sql: string) => void client.query(sql).catch(() => undefined);
  let pet = 10_000_000;
  const writes = atSteadyRate(commitsPerSecond + petsPerSecond, () => {
    if (petsPerSecond === 0) query('SELECT pg_current_xact_id()');
    else if (pet++ % 2 === 0) query(`INSERT INTO inventory_item VALUES (${pet}, 1, 'sold')`);
    else query('DELETE FROM inventory_item WHERE pet_id BETWEEN 10000000 AND 20000000');
  });
  return {
    async [Symbol.asyncDispose]() {
      writes.stop();
      if (petsPerSecond > 0)
        await client.query('DELETE FROM inventory_item WHERE pet_id BETWEEN 10000000 AND 20000000');
      await client.end();
    },
  };
}

/** What the load generator left unanswered when it ended would otherwise be work that the next one pays for. */
async function untilIdle(pid: number): Promise<void> {
  for (let before = cpuMs(pid), polls = 0; polls < 100; polls++) {
    await sleep(100);
    const now = cpuMs(pid);
    if (now - before <= 20) return;
    before = now;
  }
}

async function etagOf(side: Side): Promise<string> {
  const first = await ask(side.url);
  await first.arrayBuffer();
  const etag = first.headers.get('ETag') ?? '';
  const status = await statusOf(ask(side.url, { headers: { 'If-None-Match': etag } }));
  if (status !== 304) throw new Error(`${side.label} answers ${status} to If-None-Match: ${etag}`);
  return etag;
}

/** One after the other: an update, then the list, of which only the latter is timed. */
async function listAnew(side: Side, seconds: number): Promise<LoadResult> {
  const timesMs: number[] = [];
  let failures = 0;
  for (const end = performance.now() + seconds * 1000; performance.now() < end;) {
    const updated = await setQuantity(side.url, 1, timesMs.length + 1);
    const start = performance.now();
    const listed = await statusOf(ask(side.url));
    timesMs.push(performance.now() - start);
    if (updated !== 200 || listed !== 200) failures++;
  }
  return {
    requests: timesMs.length,
    seconds: timesMs.reduce((sum, ms) => sum + ms, 0) / 1000,
    p50Ms: quantile(timesMs, 0.5),
    p99Ms: quantile(timesMs, 0.99),
    failures,
  };
}

import { setTimeout as sleep } from 'node:timers/promises';
import { Pool } from 'pg';
import { atSteadyRate } from '../faults/open-load.ts';
import { ask, statusOf } from './client.ts';
import { keys, usualPets, type BenchDatabase, type Store } from './database.ts';
import { load, type LoadPlan, type LoadResult } from './load.ts';
import { SIDES, type Scenario } from './scenarios.ts';
import type { Side } from './sides.ts';
import { cpuMs } from './usage.ts';

export interface Measurement {
  requestsPerSecond: number;
  failures: number;
  /** CPU time of the program, of PostgreSQL and of PgBouncer by the requests measured. */
  programCpuUs: number;
  postgresCpuUs: number;
  poolerCpuUs: number;
  /** Of the updates beside the measured requests, those that were answered 200. */
  updatesPerSecond: number;
  /** What is wrong with what the run left in the database. */
  fault?: string | undefined;
}

/**
 * How long a process gets each kind of request before that is measured: at first until V8 has compiled the code that
 * runs most, then only until caches and connections are warm again. Long lists, and updates beside them, have less code
 * to compile.
 */
const WARM_UP_SECONDS = { first: 5, firstOfLong: 3, later: 1 };

/** Short requests come over so many connections while V8 compiles, so that there are enough of them. */
const WARM_UP_CONNECTIONS = 64;
const MOST_PETS_OF_SHORT = 1_000;

function isShort({ kind, pets }: Scenario): boolean {
  return kind === 'update' || kind === 'hot' || pets <= MOST_PETS_OF_SHORT;
}

/** How long a scenario's requests warm a process up that has not had any of this kind. */
function firstWarmUpSeconds(scenario: Scenario): number {
  return isShort(scenario) ? WARM_UP_SECONDS.first : WARM_UP_SECONDS.firstOfLong;
}

/** Connections for the updates beside, so that one that waits for its response does not hold up those that are due. */
const WRITERS = 8;

export async function measure(
  side: Side,
  scenario: Scenario,
  store: Store,
  database: Pick<BenchDatabase, 'pid' | 'poolerPid'>,
): Promise<Measurement> {
  const { kind, connections, seconds, updatesPerSecond, commitsPerSecond } = scenario;
  const headers: Record<string, string> = { Authorization: `Bearer ${keys.good}` };
  if (kind === 'unchanged') headers['If-None-Match'] = await etagOf(side);
  const pets = usualPets(scenario.pets);
  const mode = kind === 'unchanged' ? 'list' : kind;
  const requests: LoadPlan = { url: side.url, headers, pets, mode, connections, seconds };
  const writes: LoadPlan = { ...requests, mode: 'update', connections: WRITERS };
  const pace = scenario.perSecond === undefined ? {} : { perSecond: scenario.perSecond };
  const run = (seconds: number): Promise<[LoadResult, LoadResult | undefined]> =>
    Promise.all([
      load({ ...requests, seconds, ...pace }),
      updatesPerSecond > 0 ? load({ ...writes, seconds, perSecond: updatesPerSecond }) : undefined,
    ]);
  /** As fast as it goes: at a steady rate, the code would be warm after minutes only. */
  const warmUpFirst = async (plan: LoadPlan): Promise<LoadResult> =>
    load({ ...plan, seconds: firstWarmUpSeconds(scenario) });

  await using tenant = commitsPerSecond > 0 ? commitBeside(store, commitsPerSecond) : undefined;
  if (updatesPerSecond > 0) await warmUpFirst(writes);
  const [warmUp] = side.warmFor.has(kind)
    ? await run(WARM_UP_SECONDS.later)
    : [await warmUpFirst(isShort(scenario) ? { ...requests, connections: WARM_UP_CONNECTIONS } : requests)];
  side.warmFor.add(kind);
  if (!tenant) await untilIdle(side.pid);
  const pids = [side.pid, database.pid];
  if (side.name === 'pooled' && database.poolerPid !== undefined) pids.push(database.poolerPid);
  const before = pids.map(cpuMs);
  const [result, updates] = await run(seconds);
  const [programCpuUs = NaN, postgresCpuUs = NaN, poolerCpuUs = 0] = pids.map(
    (pid, at) => ((cpuMs(pid) - (before[at] ?? NaN)) * 1000) / result.requests,
  );

  if ((side.program.exitCode ?? side.program.signalCode) !== null) throw new Error('it ended by itself');
  if (result.requests === 0) throw new Error(`not one response within ${seconds} s`);
  const hasHistory = kind === 'update' || kind === 'hot';
  if (hasHistory || updatesPerSecond > 0) await store.settle();
  const underWay = connections + WARM_UP_CONNECTIONS;
  return {
    requestsPerSecond: result.requests / result.seconds,
    failures: result.failures,
    programCpuUs,
    postgresCpuUs,
    poolerCpuUs,
    updatesPerSecond: updates ? (updates.requests - updates.failures) / updates.seconds : 0,
    fault: hasHistory ? await store.faultInHistory(warmUp.requests + result.requests, underWay) : undefined,
  };
}

/** Transactions of another tenant of the server, in a database of its own. */
function commitBeside(store: Store, perSecond: number): AsyncDisposable {
  const url = new URL(store.url);
  url.pathname = 'template1';
  const client = new Pool({ connectionString: url.href, max: 1 });
  const commits = atSteadyRate(
    perSecond,
    () => void client.query('SELECT pg_current_xact_id()').catch(() => undefined),
  );
  return {
    async [Symbol.asyncDispose]() {
      commits.stop();
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
  if (status !== 304) throw new Error(`${SIDES[side.name]} answers ${status} to If-None-Match: ${etag}`);
  return etag;
}

import { Agent } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';
import { quantile } from '../faults/measures.ts';
import { commitBeside, send, setQuantity } from './client.ts';
import { keys, usualPets, type BenchDatabase } from './database.ts';
import { load, type LoadResult } from './load.ts';
import type { Scenario } from './scenarios.ts';
import type { RunningSide } from './sides.ts';
import { cpuMs, memoryMb } from './usage.ts';

export interface Measurement {
  requestsPerSecond: number;
  p50Ms: number;
  p99Ms: number;
  failures: number;
  /** CPU time of the program and of PostgreSQL by the requests measured. */
  programCpuUs: number;
  postgresCpuUs: number;
  peakMemoryMb: number;
  /** Of the updates beside the measured requests, those that were answered 200. */
  updatesPerSecond: number;
}

export interface Run extends Measurement {
  /** What is wrong with what the run left in the database. */
  fault: string | undefined;
}

const warmUpSeconds = 1;
/** Connections for the updates beside, so that one that waits for its answer does not hold up those that are due. */
const WRITERS = 8;

/** @param writtenTo who gets the updates beside the measured requests */
export async function measure(
  side: RunningSide,
  scenario: Scenario,
  database: BenchDatabase,
  writtenTo: RunningSide,
): Promise<Run> {
  const headers: Record<string, string> = { Authorization: `Bearer ${keys.good}` };
  if (scenario.gzip) headers['Accept-Encoding'] = 'gzip';
  if (scenario.kind === 'unchanged') headers['If-None-Match'] = await etagOf(side);
  const { kind, connections, seconds, updatesPerSecond: perSecond } = scenario;
  const pets = usualPets(scenario.pets);
  const mode = kind === 'anew' ? undefined : kind === 'unchanged' ? 'list' : kind;
  const writes = { url: writtenTo.url, headers, connections: WRITERS, pets, mode: 'update' } as const;
  const run = (seconds: number): Promise<[LoadResult, LoadResult | undefined]> =>
    Promise.all([
      mode ? load({ url: side.url, headers, connections, pets, mode, seconds }) : listAnew(side, seconds),
      perSecond > 0 ? load({ ...writes, seconds, perSecond }) : undefined,
    ]);

  const tenant = scenario.commitsPerSecond > 0 ? commitBeside(database, scenario.commitsPerSecond) : undefined;
  // At that rate the code that writes would be warm after minutes only.
  if (perSecond > 0) await load({ ...writes, seconds: warmUpSeconds });
  const [warmUp] = await run(mode ? warmUpSeconds : 2);
  for (const { pid } of tenant ? [] : new Set([side, writtenTo])) await untilIdle(pid);
  const before = { program: cpuMs(side.pid), postgres: cpuMs(database.pid) };
  const [result, updates] = await run(seconds);
  if (result.requests === 0) throw new Error(`not one answer within ${seconds} s`);
  const perRequest = (ms: number) => (ms * 1000) / result.requests;
  const measurement = {
    requestsPerSecond: result.requests / result.seconds,
    p50Ms: result.p50Ms,
    p99Ms: result.p99Ms,
    failures: result.failures,
    programCpuUs: perRequest(cpuMs(side.pid) - before.program),
    postgresCpuUs: perRequest(cpuMs(database.pid) - before.postgres),
    peakMemoryMb: memoryMb(side.pid, 'VmHWM'),
    updatesPerSecond: updates ? (updates.requests - updates.failures) / updates.seconds : 0,
  };
  await tenant?.stop();
  const isUpdate = kind === 'update' || kind === 'hot';
  const fault =
    isUpdate && side.keepsPromises
      ? await database.faultInHistory(warmUp.requests + result.requests, 2 * connections)
      : undefined;
  return { ...measurement, fault };
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

async function etagOf(side: RunningSide): Promise<string> {
  const headers = { Authorization: `Bearer ${keys.good}`, 'Accept-Encoding': 'identity' };
  const first = await fetch(side.url, { headers });
  await first.arrayBuffer();
  const etag = first.headers.get('ETag') ?? '';
  const second = await fetch(side.url, { headers: { ...headers, 'If-None-Match': etag } });
  if (second.status !== 304) throw new Error(`${side.label} answers ${second.status} to If-None-Match: ${etag}`);
  return etag;
}

/** One after the other: an update, then the list, of which only the latter is timed. */
async function listAnew(side: RunningSide, seconds: number): Promise<LoadResult> {
  const agent = new Agent({ keepAlive: true, maxSockets: 1 });
  const timesMs: number[] = [];
  let bytes = 0;
  let failures = 0;
  for (const end = performance.now() + seconds * 1000; performance.now() < end;) {
    if (!(await setQuantity(side, agent, 1, timesMs.length + 1))) failures++;
    const start = performance.now();
    const answer = await send(side.url, agent, 'GET');
    timesMs.push(performance.now() - start);
    bytes += answer.bytes;
    if (answer.status !== 200) failures++;
  }
  agent.destroy();
  const at = (share: number) => quantile(timesMs, share);
  const listSeconds = timesMs.reduce((sum, ms) => sum + ms, 0) / 1000;
  return { requests: timesMs.length, seconds: listSeconds, p50Ms: at(0.5), p99Ms: at(0.99), failures, bytes };
}

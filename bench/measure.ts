import { Agent, request } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';
import { Client } from 'pg';
import { keys, usualPets, type BenchDatabase } from './database.ts';
import { load, type LoadMode, type LoadResult } from './load.ts';
import type { Scenario } from './scenarios.ts';
import type { RunningSide } from './sides.ts';
import { cpuMs, peakMemoryMb } from './usage.ts';

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
const loadModes = {
  list: 'list',
  unchanged: 'list',
  update: 'update',
  hot: 'hot',
  mixed: 'mixed',
} as const satisfies Record<string, LoadMode>;

export async function measure(side: RunningSide, scenario: Scenario, database: BenchDatabase): Promise<Run> {
  const headers: Record<string, string> = { Authorization: `Bearer ${keys.good}` };
  if (scenario.gzip) headers['Accept-Encoding'] = 'gzip';
  if (scenario.kind === 'unchanged') headers['If-None-Match'] = await etagOf(side);
  const { kind, connections, seconds } = scenario;
  const pets = usualPets(scenario.pets);
  const plan = { url: side.url, headers, connections, pets };

  const writer = scenario.updatesPerSecond > 0 ? writeBeside(side, pets, scenario.updatesPerSecond) : undefined;
  const tenant = scenario.commitsPerSecond > 0 ? await commitBeside(database, scenario.commitsPerSecond) : undefined;
  const mode = kind === 'anew' ? undefined : loadModes[kind];
  const warmUp = mode ? await load({ ...plan, mode, seconds: warmUpSeconds }) : await listAnew(side, 2);
  if (!writer && !tenant) await untilIdle(side.pid);
  const before = { program: cpuMs(side.pid), postgres: cpuMs(database.pid), written: writer?.written() ?? 0 };
  const result = mode ? await load({ ...plan, mode, seconds }) : await listAnew(side, seconds);
  if (result.requests === 0) throw new Error(`not one answer within ${seconds} s`);
  const perRequest = (ms: number) => (ms * 1000) / result.requests;
  const measurement = {
    requestsPerSecond: result.requests / result.seconds,
    p50Ms: result.p50Ms,
    p99Ms: result.p99Ms,
    failures: result.failures,
    programCpuUs: perRequest(cpuMs(side.pid) - before.program),
    postgresCpuUs: perRequest(cpuMs(database.pid) - before.postgres),
    peakMemoryMb: peakMemoryMb(side.pid),
    updatesPerSecond: ((writer?.written() ?? 0) - before.written) / result.seconds,
  };
  await writer?.stop();
  await tenant?.stop();
  const isUpdate = kind === 'update' || kind === 'hot';
  const fault =
    isUpdate && side.side.history !== 'none'
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
  if (second.status !== 304) throw new Error(`${side.side.label} answers ${second.status} to If-None-Match: ${etag}`);
  return etag;
}

/** Updates at a steady rate, whatever the answers take: those that are late are caught up. */
function writeBeside(side: RunningSide, pets: number, perSecond: number) {
  const agent = new Agent({ keepAlive: true, maxSockets: 16 });
  const started = performance.now();
  let sent = 0;
  let written = 0;
  const timer = setInterval(() => {
    for (const due = ((performance.now() - started) / 1000) * perSecond; sent < due;) {
      sent++;
      void setQuantity(side, agent, 1 + (sent % pets), sent).then((done) => (written += done ? 1 : 0));
    }
  }, 5);
  return {
    written: () => written,
    async stop() {
      clearInterval(timer);
      await sleep(20);
      agent.destroy();
    },
  };
}

/** What another tenant of the same server does: transactions in a database of its own. */
async function commitBeside(database: BenchDatabase, perSecond: number) {
  const url = new URL(database.url);
  url.pathname = 'template1';
  const client = new Client({ connectionString: url.href });
  await client.connect();
  const started = performance.now();
  let sent = 0;
  const timer = setInterval(() => {
    for (const due = ((performance.now() - started) / 1000) * perSecond; sent < due; sent++)
      void client.query('SELECT pg_current_xact_id()');
  }, 5);
  return {
    async stop() {
      clearInterval(timer);
      await client.end();
    },
  };
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
  timesMs.sort((a, b) => a - b);
  const at = (share: number) => timesMs[Math.floor(share * (timesMs.length - 1))] ?? NaN;
  const listSeconds = timesMs.reduce((sum, ms) => sum + ms, 0) / 1000;
  return { requests: timesMs.length, seconds: listSeconds, p50Ms: at(0.5), p99Ms: at(0.99), failures, bytes };
}

async function setQuantity(side: RunningSide, agent: Agent, pet: number, quantity: number): Promise<boolean> {
  const answer = await send(`${side.url}/${pet}`, agent, 'PATCH', JSON.stringify({ quantity })).catch(() => undefined);
  return answer?.status === 200;
}

/** The body is counted and dropped, so that this program is not what is measured. */
function send(url: string, agent: Agent, method: string, body?: string): Promise<{ status: number; bytes: number }> {
  const { promise, resolve, reject }: PromiseWithResolvers<{ status: number; bytes: number }> = Promise.withResolvers();
  const headers = {
    Authorization: `Bearer ${keys.good}`,
    ...(body === undefined ? {} : { 'Content-Type': 'application/json', 'Content-Length': Buffer.byteLength(body) }),
  };
  request(url, { agent, method, headers }, (answer) => {
    let bytes = 0;
    answer.on('data', (chunk: Buffer) => (bytes += chunk.length));
    answer.on('end', () => {
      resolve({ status: answer.statusCode ?? 0, bytes });
    });
    answer.on('error', reject);
  })
    .on('error', reject)
    .end(body);
  return promise;
}

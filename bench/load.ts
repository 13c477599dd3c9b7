import { execFile } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';

const run = promisify(execFile);
const script = fileURLToPath(new URL('load.lua', import.meta.url));

export type LoadMode = 'list' | 'update' | 'hot' | 'mixed';

export interface LoadPlan {
  url: string;
  mode: LoadMode;
  headers: Record<string, string>;
  connections: number;
  seconds: number;
  /** Updates go to the pets 1 to this number. */
  pets: number;
}

export interface LoadResult {
  requests: number;
  seconds: number;
  p50Ms: number;
  p99Ms: number;
  /** Answers of 400 and above, and requests that got none. */
  failures: number;
  bytes: number;
}

let runs = 0;

/** Closed loop: each connection sends its next request when it has the answer to the last. One thread of wrk. */
export async function load(plan: LoadPlan): Promise<LoadResult> {
  const seed = ++runs * 1_000_000;
  const { stdout } = await run('wrk', [
    ...['-t', '1', '-c', String(plan.connections), '-d', String(plan.seconds), '--timeout', '60', '-s', script],
    ...Object.entries(plan.headers).flatMap(([name, value]) => ['-H', `${name}: ${value}`]),
    ...[plan.url, '--', plan.mode, String(plan.pets), String(seed)],
  ]);
  const counted = JSON.parse(stdout.trim().split('\n').at(-1) ?? '') as Record<string, number> & {
    requests: number;
    bytes: number;
    durationUs: number;
    p50Us: number;
    p99Us: number;
    badStatus: number;
    broken: number;
  };
  return {
    requests: counted.requests,
    seconds: counted.durationUs / 1e6,
    p50Ms: counted.p50Us / 1000,
    p99Ms: counted.p99Us / 1000,
    failures: counted.badStatus + counted.broken,
    bytes: counted.bytes,
  };
}

import { execFile, spawnSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';

const run = promisify(execFile);
const script = fileURLToPath(new URL('load.lua', import.meta.url));

export interface LoadPlan {
  url: string;
  mode: 'list' | 'update' | 'hot' | 'mixed';
  headers: Record<string, string>;
  connections: number;
  seconds: number;
  /** Updates go to the pets 1 to this number. */
  pets: number;
  /** So many requests, at a steady rate; those that are late are caught up. Without it each connection sends its next when it has the answer to the last. */
  perSecond?: number;
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

const hasWrk = spawnSync('wrk', ['-v']).error === undefined;
let runs = 0;

/** `wrk`, or `autocannon` where that is not installed: it takes more of the machine away from what is measured. */
export const generator = hasWrk ? 'wrk' : 'autocannon';

/** Quantities never repeat within a benchmark's process, so every accepted update is a change. */
export async function load(plan: LoadPlan): Promise<LoadResult> {
  const firstQuantity = ++runs * 1_000_000;
  if (hasWrk) return loadByWrk(plan, firstQuantity);
  const { loadByAutocannon } = await import('./autocannon.ts');
  return loadByAutocannon(plan, firstQuantity);
}

async function loadByWrk(plan: LoadPlan, firstQuantity: number): Promise<LoadResult> {
  const { stdout } = await run('wrk', [
    ...['-t', '1', '-c', String(plan.connections), '-d', String(plan.seconds), '--timeout', '60', '-s', script],
    ...Object.entries(plan.headers).flatMap(([name, value]) => ['-H', `${name}: ${value}`]),
    ...[plan.url, '--', plan.mode, String(plan.pets), String(firstQuantity)],
    ...(plan.perSecond === undefined ? [] : [String(plan.perSecond)]),
  ]);
  const counted = JSON.parse(stdout.trim().split('\n').at(-1) ?? '') as {
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

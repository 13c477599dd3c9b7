import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { promisify } from 'node:util';

const run = promisify(execFile);
const script = join(import.meta.dirname, 'load.lua');

export interface LoadPlan {
  url: string;
  mode: 'list' | 'update' | 'hot';
  headers: Record<string, string>;
  connections: number;
  seconds: number;
  /** Updates go to the pets 1 to this number. */
  pets: number;
  /**
   * So many requests, at a steady rate; those that are late are caught up. Without it, each connection sends its next
   * request when it has the response to the last.
   */
  perSecond?: number;
}

export interface LoadResult {
  requests: number;
  seconds: number;
  /** Responses of 400 and above, and requests that got none. */
  failures: number;
}

let runs = 0;

/** Runs `wrk`. Quantities never repeat within a benchmark's process, so every accepted update is a change. */
export async function load(plan: LoadPlan): Promise<LoadResult> {
  const firstQuantity = ++runs * 1_000_000;
  const options = { timeout: (plan.seconds + 90) * 1000, killSignal: 'SIGKILL' } as const;
  const args = [
    ...['-t', '1', '-c', String(plan.connections), '-d', String(plan.seconds), '--timeout', '60', '-s', script],
    ...Object.entries(plan.headers).flatMap(([name, value]) => ['-H', `${name}: ${value}`]),
    ...[plan.url, '--', plan.mode, String(plan.pets), String(firstQuantity), String(plan.perSecond ?? '')],
  ];
  const { stdout } = await run('wrk', args, options);
  return JSON.parse(stdout.trim().split('\n').at(-1) ?? '') as LoadResult;
}

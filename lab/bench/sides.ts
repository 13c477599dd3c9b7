import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import { freePort } from '../../dev/free-port.ts';
import { SEMI_SPACE, projectFolder } from '../../dev/build.ts';
import { statusOf } from './client.ts';
import type { BenchDatabase, Store } from './database.ts';
import { SIDES, type SideName } from './scenarios.ts';

/** With the two sessions of the key check and the updates that makes ten connections. */
const SERVICE = { LOG_LEVEL: 'warn', DATABASE_POOL_SIZE: '8' };

/** Each program is run by this Node.js, from the project's folder. */
const programs: Record<SideName, [program: string, environment: Record<string, string>]> = {
  service: ['dist/main.js', SERVICE],
  fastify: ['lab/bench/peers/fastify.ts', {}],
  pooled: ['dist/main.js', SERVICE],
  // Reading a long list whole, eight times at once, takes longer than a request may wait by default.
  nest: ['dist/main.js', { ...SERVICE, FAST: 'off', REQUEST_DEADLINE_MS: '9000' }],
};

/** The database that the side works on. */
export function storeOf(side: SideName, { own, peer, pooled }: BenchDatabase): Store {
  if (side === 'fastify') return peer;
  if (side !== 'pooled') return own;
  if (!pooled) throw new Error('there is no PgBouncer');
  return pooled;
}

export type Side = Awaited<ReturnType<typeof startSide>>;

const startTimeoutMs = 20_000;

/**
 * Starts a fresh process and waits until it answers 401.
 *
 * @param preload a module that it loads before its program and that speaks over IPC
 */
export async function startSide(name: SideName, environment: Record<string, string>, preload?: string) {
  const [file, own] = programs[name];
  const port = await freePort();
  const spawnedAt = performance.now();
  const { PATH } = process.env;
  const program = spawn(process.execPath, [...(preload ? ['--import', preload] : []), file], {
    cwd: projectFolder,
    env: {
      PATH,
      NODE_ENV: 'production',
      NODE_OPTIONS: SEMI_SPACE,
      HOST: '127.0.0.1',
      PORT: String(port),
      ...own,
      ...environment,
    },
    stdio: ['ignore', 'ignore', 'inherit', ...(preload ? (['ipc'] as const) : [])],
  });
  const ended = once(program, 'exit');
  const url = `http://127.0.0.1:${port}/v1/inventory`;
  while ((await statusOf(fetch(url)).catch(() => undefined)) !== 401) {
    if (program.exitCode !== null) throw new Error(`${SIDES[name]} ended at its start`);
    if (performance.now() > spawnedAt + startTimeoutMs) {
      program.kill('SIGKILL');
      throw new Error(`${SIDES[name]} does not answer`);
    }
    await sleep(10);
  }
  return {
    name,
    program,
    pid: program.pid ?? 0,
    url,
    /** The kinds of requests that its code is warm for. */
    warmFor: new Set<string>(),
    async [Symbol.asyncDispose](): Promise<void> {
      program.kill(name === 'fastify' ? 'SIGKILL' : 'SIGTERM');
      await ended;
    },
  };
}

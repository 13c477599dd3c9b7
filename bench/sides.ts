import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import { freePort } from '../dev/free-port.ts';
import { SEMI_SPACE, projectFolder } from '../dev/build.ts';
import { statusOf } from './client.ts';
import { keys } from './database.ts';
import type { Contender } from './scenarios.ts';

/** With the two sessions of the key check and the updates that makes ten connections. */
const SERVICE = { LOG_LEVEL: 'warn', DATABASE_POOL_SIZE: '8' };

/** Each program is run by this Node.js, from the project's folder. */
const programs = {
  service: ['this service', 'dist/main.js', SERVICE],
  fastify: ['Fastify + pg', 'bench/peers/fastify.ts', {}],
  oneTrip: ['Fastify + pg, key in the same statement', 'bench/peers/fastify-one-trip.ts', {}],
  express: ['Express + pg', 'bench/peers/express.ts', {}],
  // Reading a long list whole, eight times at once, takes longer than a request may wait by default.
  nest: ['NestJS + Prisma', 'dist/main.js', { ...SERVICE, FAST: 'off', REQUEST_DEADLINE_MS: '9000' }],
  keeping: [
    "Fastify + pg, list kept until it writes itself (stale after others' writes)",
    'bench/peers/fastify.ts',
    { KEEPS_LIST: '1' },
  ],
  weaker: ['Fastify + pg, key in memory, no history', 'bench/peers/fastify.ts', { KEY_IN_MEMORY: keys.good }],
  bare: ['bare node:http', 'bench/peers/bare.ts', {}],
} as const satisfies Record<string, [label: string, program: string, environment: Record<string, string>]>;

export type SideName = keyof typeof programs;

export function labelOf(contender: Contender): string {
  return contender === 'pgbench' ? 'pgbench' : programs[contender][0];
}

export type Side = Awaited<ReturnType<typeof startSide>>;

const startTimeoutMs = 20_000;

/**
 * Starts a fresh process and waits until it answers, which is 401 for all but the bare server.
 *
 * @param preload a module that it loads before its program and that speaks over IPC
 */
export async function startSide(name: SideName, environment: Record<string, string>, preload?: string) {
  const [label, file, own] = programs[name];
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
  const expected = name === 'bare' ? 200 : 401;
  while ((await statusOf(fetch(url)).catch(() => undefined)) !== expected) {
    if (program.exitCode !== null) throw new Error(`${label} ended at its start`);
    if (performance.now() > spawnedAt + startTimeoutMs) {
      program.kill('SIGKILL');
      throw new Error(`${label} does not answer`);
    }
    await sleep(10);
  }
  return {
    name,
    label,
    /** False where keys are not looked up in the database, but compared with one in memory, and changes leave no history. */
    keepsPromises: name !== 'weaker' && name !== 'bare',
    program,
    pid: program.pid ?? 0,
    url,
    /** On the clock of `performance.now()`. */
    spawnedAt,
    /** The kinds of requests that its code is warm for. */
    warmFor: new Set<string>(),
    async [Symbol.asyncDispose](): Promise<void> {
      program.kill(name === 'service' ? 'SIGTERM' : 'SIGKILL');
      await ended;
    },
  };
}

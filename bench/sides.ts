import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { freePort } from '../dev/free-port.ts';
import { keys } from './database.ts';

const root = fileURLToPath(new URL('..', import.meta.url));

export type SideName = 'service' | 'fastify' | 'oneTrip' | 'express' | 'nest' | 'keeping' | 'weaker' | 'bare';

export interface Side {
  name: SideName;
  label: string;
  /** What is run by this Node.js, from the project's folder. */
  program: string;
  /** Whether each change leaves a row that names the key. */
  history: 'key' | 'none';
  /** False when it compares with a single key that it keeps in memory. */
  looksUpKeys: boolean;
  environment: Record<string, string>;
}

/** With the two sessions of the key check and the updates that makes ten connections. */
const SERVICE = { LOG_LEVEL: 'silent', DATABASE_POOL_SIZE: '8' };

export const sides: Record<SideName, Side> = {
  service: {
    name: 'service',
    label: 'this service',
    program: 'dist/main.js',
    history: 'key',
    looksUpKeys: true,
    environment: SERVICE,
  },
  fastify: {
    name: 'fastify',
    label: 'Fastify + pg',
    program: 'bench/peers/fastify.ts',
    history: 'key',
    looksUpKeys: true,
    environment: {},
  },
  oneTrip: {
    name: 'oneTrip',
    label: 'Fastify + pg, key in the same statement',
    program: 'bench/peers/fastify-one-trip.ts',
    history: 'key',
    looksUpKeys: true,
    environment: {},
  },
  express: {
    name: 'express',
    label: 'Express + pg',
    program: 'bench/peers/express.ts',
    history: 'key',
    looksUpKeys: true,
    environment: {},
  },
  nest: {
    name: 'nest',
    label: 'NestJS + Prisma: this service without its kept list and its batched updates',
    program: 'bench/dist/bench/peers/plain.js',
    history: 'key',
    looksUpKeys: true,
    environment: SERVICE,
  },
  keeping: {
    name: 'keeping',
    label: "Fastify + pg, list kept until it writes itself (stale after others' writes)",
    program: 'bench/peers/fastify.ts',
    history: 'key',
    looksUpKeys: true,
    environment: { KEEPS_LIST: '1' },
  },
  weaker: {
    name: 'weaker',
    label: 'Fastify + pg, key in memory, no history',
    program: 'bench/peers/fastify.ts',
    history: 'none',
    looksUpKeys: false,
    environment: { KEY_IN_MEMORY: keys.good },
  },
  bare: {
    name: 'bare',
    label: 'bare node:http',
    program: 'bench/peers/bare.ts',
    history: 'none',
    looksUpKeys: false,
    environment: {},
  },
};

export interface RunningSide {
  side: Side;
  program: ChildProcess;
  pid: number;
  url: string;
  /** On the clock of `performance.now()`. */
  spawnedAt: number;
  stop(): Promise<void>;
}

const startTimeoutMs = 20_000;

/**
 * Starts a fresh process and waits until it answers, which is 401 for all but the bare server.
 *
 * @param preload a module that it loads before its program and that speaks over IPC
 */
export async function startSide(
  side: Side,
  environment: Record<string, string>,
  preload?: string,
): Promise<RunningSide> {
  const port = await freePort();
  const spawnedAt = performance.now();
  const program = spawn(process.execPath, [...(preload ? ['--import', preload] : []), side.program], {
    cwd: root,
    env: {
      PATH: process.env['PATH'],
      NODE_ENV: 'production',
      HOST: '127.0.0.1',
      PORT: String(port),
      ...side.environment,
      ...environment,
    },
    stdio: ['ignore', 'ignore', 'pipe', ...(preload ? (['ipc'] as const) : [])],
  });
  let complaint = '';
  program.stderr?.setEncoding('utf8').on('data', (text: string) => {
    complaint = (complaint + text).slice(-2_000);
  });
  const url = `http://127.0.0.1:${port}/v1/inventory`;
  const expected = side.name === 'bare' ? 200 : 401;
  for (const deadline = Date.now() + startTimeoutMs; ;) {
    if (program.exitCode !== null) throw new Error(`${side.label} ended at its start: ${complaint}`);
    if ((await statusOf(url)) === expected) break;
    if (Date.now() > deadline) {
      program.kill('SIGKILL');
      throw new Error(`${side.label} does not answer: ${complaint}`);
    }
    await sleep(10);
  }
  return {
    side,
    program,
    pid: program.pid ?? 0,
    url,
    spawnedAt,
    async stop() {
      if (program.exitCode !== null) throw new Error(`${side.label} ended by itself: ${complaint}`);
      const ended = once(program, 'exit');
      program.kill(side.name === 'service' ? 'SIGTERM' : 'SIGKILL');
      await ended;
    },
  };
}

async function statusOf(url: string): Promise<number | undefined> {
  try {
    const answer = await fetch(url);
    await answer.body?.cancel();
    return answer.status;
  } catch {
    return undefined;
  }
}

import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { closeSync, existsSync, openSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Client } from 'pg';
import { freePort } from './free-port.ts';
import { guard } from './guard.ts';
import { postgresBinaries, serverAccount } from './postgres-binaries.ts';
import { isAlive } from './process-tree.ts';
import {
  createCluster,
  fromInside,
  openSession,
  postmaster,
  refuseForeignCluster,
  disownStaleNote,
  removeUnfinished,
  serverEnvironment,
  serverUrl,
  startFailure,
} from './postgres-cluster.ts';

const startTimeoutMs = 30_000;
const restartTimeoutMs = 10_000;

/** Whoever holds this advisory lock in the database `postgres` owns the server; PostgreSQL frees it when the owner dies. */
const ownerLockKey = 5_041_826;

export interface PostgresOptions {
  /** Off, a crash of the machine may spoil the data; for tests. Default on. */
  fsync?: boolean;
  /** Default a free one. */
  port?: number;
  /** Removes the folder when this process dies without having stopped the server. Default off. */
  throwaway?: boolean;
}

export interface EmbeddedPostgres {
  /** URL of the superuser and the database `postgres`. */
  readonly url: string;
  readonly port: number;
  /** The postmaster. */
  readonly pid: number;
  /** Settles when the server is gone, wanted or not. */
  readonly ended: Promise<void>;
  /** Rolls back what is under way, writes everything out and waits for the end: some 20 ms, at most 21 s. */
  stop(): Promise<void>;
}

/**
 * Starts PostgreSQL on a folder, which is made first where it does not exist. A server that a killed process left behind
 * there is taken over. It listens on 127.0.0.1 alone and wants the password that is kept beside the data. It does not
 * outlive this process, not even a `kill -9`; a Ctrl-C in the terminal does not reach it.
 *
 * @param folder where to keep the data; its parent must exist
 * @throws in one line, when another process is using the folder or the server does not start within 30 s
 */
export async function startPostgres(folder: string, options: PostgresOptions = {}): Promise<EmbeddedPostgres> {
  const binaries = postgresBinaries();
  if (!existsSync(folder)) createCluster(binaries, folder, options.fsync ?? true);
  refuseForeignCluster(folder);
  let server: ChildProcess | undefined;
  const session = await firstOf(startTimeoutMs, async () => {
    const found = await openSession(folder);
    if (found || isRunning(server)) return found;
    if (server) {
      if (!startFailure(folder).isPassing) return null;
      await sleep(200); // an earlier server is on its way out, or the port was taken meanwhile
    }
    server = await launch(binaries, folder, options);
    return undefined;
  });
  if (session) return own(folder, session, options);
  server?.kill('SIGQUIT');
  throw new Error(`PostgreSQL did not start in ${folder}: ${startFailure(folder).message}`);
}

/** URL of the server that runs on the folder now, whoever started it; nothing when none does. */
export async function runningPostgres(folder: string): Promise<string | undefined> {
  const session = await openSession(folder);
  await session?.end();
  return session && serverUrl(folder, session.port);
}

async function launch(
  binaries: string,
  folder: string,
  { port, fsync = true }: PostgresOptions,
): Promise<ChildProcess> {
  disownStaleNote(folder);
  const data = join(folder, 'data');
  const log = openSync(join(folder, 'log'), 'w');
  const settings = {
    port: port ?? (await freePort()),
    listen_addresses: '127.0.0.1',
    unix_socket_directories: '',
    ...(fsync ? {} : { fsync: 'off', synchronous_commit: 'off', full_page_writes: 'off' }),
  };
  const server = spawn(
    join(binaries, 'bin', 'postgres'),
    ['-D', fromInside(data), ...Object.entries(settings).flatMap(([name, value]) => ['-c', `${name}=${value}`])],
    { ...serverAccount, cwd: data, env: serverEnvironment, detached: true, stdio: ['ignore', 'ignore', log] },
  );
  server.unref();
  closeSync(log);
  await once(server, 'spawn');
  return server;
}

async function own(folder: string, session: Client, { throwaway }: PostgresOptions): Promise<EmbeddedPostgres> {
  const pid = postmaster(folder)?.pid;
  if (!pid || !(await takeOwnership(session))) {
    await session.end();
    throw new Error(`another process is already using the database in ${folder}`);
  }
  removeUnfinished(folder);
  const removeGuard = guard(pid, 'INT', throwaway ? folder : '');
  const ended = untilGone(folder, session).finally(removeGuard);
  return {
    url: serverUrl(folder, session.port),
    port: session.port,
    pid,
    ended,
    async stop() {
      await end(folder, pid);
      await ended;
    },
  };
}

async function takeOwnership(session: Client): Promise<boolean> {
  const { rows } = await session.query<{ owned: boolean }>(`SELECT pg_try_advisory_lock(${ownerLockKey}) AS owned`);
  return rows[0]?.owned ?? false;
}

/** The session also ends when PostgreSQL restarts itself after the crash of one of its processes; then it is renewed. */
async function untilGone(folder: string, first: Client): Promise<void> {
  let session: Client | undefined = first;
  while (session) {
    const { promise: closed, resolve }: PromiseWithResolvers<void> = Promise.withResolvers();
    session.once('end', resolve);
    await closed;
    session = await reopen(folder);
    if (session) await takeOwnership(session);
  }
}

function reopen(folder: string): Promise<Client | undefined> {
  return firstOf(restartTimeoutMs, async () => {
    const note = postmaster(folder);
    return note && isAlive(note.pid) ? openSession(folder) : null;
  }).then((session) => session ?? undefined);
}

async function end(folder: string, pid: number): Promise<void> {
  const steps = [
    { signal: 'SIGINT', timeoutMs: 10_000 }, // fast: sessions are cut, everything is written out
    { signal: 'SIGQUIT', timeoutMs: 10_000 }, // immediate: recovered at the next start
    { signal: 'SIGKILL', timeoutMs: 1_000 },
  ] as const;
  const isGone = () => Promise.resolve(!isAlive(pid) || postmaster(folder)?.pid !== pid || undefined);
  for (const { signal, timeoutMs } of steps) {
    if (!(await isGone())) process.kill(pid, signal);
    if (await firstOf(timeoutMs, isGone)) return;
  }
}

/** The first answer that is not `undefined`, asked for again and again until the time is over. */
async function firstOf<T>(timeoutMs: number, ask: () => Promise<T | undefined>): Promise<T | undefined> {
  const deadline = Date.now() + timeoutMs;
  while (Date.now() < deadline) {
    const answer = await ask();
    if (answer !== undefined) return answer;
    await sleep(15);
  }
  return undefined;
}

function isRunning(child: ChildProcess | undefined): boolean {
  return child?.exitCode === null && child.signalCode === null;
}

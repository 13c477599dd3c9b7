import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { closeSync, existsSync, openSync, readFileSync, readlinkSync, realpathSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { freePort } from './free-port.ts';
import { guard } from './guard.ts';
import { postgresBinaries, serverAccount } from './postgres-binaries.ts';
import { createCluster, fromInside, refuseForeignCluster, serverEnvironment } from './postgres-cluster.ts';

const startTimeoutMs = 30_000;

/** How long a server that is on its way out may keep the folder; its owner may have been killed a moment ago. */
const handoverTimeoutMs = 3_000;

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
 * Starts PostgreSQL on a folder, which is made first where it does not exist. It listens on 127.0.0.1 alone and wants the
 * password that is kept beside the data. It does not outlive this process, not even a `kill -9`; a Ctrl-C in the terminal
 * does not reach it.
 *
 * @param folder where to keep the data; its parent must exist
 * @throws in one line, when another process is using the folder or the server does not start within 30 s
 */
export async function startPostgres(folder: string, options: PostgresOptions = {}): Promise<EmbeddedPostgres> {
  const binaries = postgresBinaries();
  if (!existsSync(folder)) createCluster(binaries, folder, options.fsync ?? true);
  refuseForeignCluster(folder);
  for (const patienceEnds = Date.now() + handoverTimeoutMs; ;) {
    let obstacle = occupant(folder);
    if (!obstacle) {
      const server = await launch(binaries, folder, options);
      if (await isReady(folder, server)) return own(folder, server, options.throwaway ? folder : '');
      server.kill('SIGKILL');
      obstacle = startFailure(folder);
    }
    if (!obstacle.mayPass || Date.now() > patienceEnds) throw new Error(obstacle.message);
    await sleep(100);
  }
}

/** URL of the server that runs on the folder now, whoever started it; nothing when none does. */
export function runningPostgres(folder: string): string | undefined {
  const note = readNote(folder);
  return note?.isReady && isAlive(note.pid) ? serverUrl(folder, note.port) : undefined;
}

/** Whether there is such a process, of whatever account. */
export function isAlive(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM';
  }
}

interface Obstacle {
  readonly message: string;
  /** Whether another try may succeed. */
  readonly mayPass: boolean;
}

/** Why no server may be started on the folder now, judged by what the last one noted about itself. */
function occupant(folder: string): Obstacle | undefined {
  const note = readNote(folder);
  if (!note) return undefined;
  const file = noteFile(folder);
  if (!note.pid) {
    const message = `${file} is damaged, as after a power cut: remove that file, and start again`;
    return { message, mayPass: false };
  }
  if (process.platform !== 'linux' || !isAlive(note.pid)) return undefined; // PostgreSQL itself sees to the rest
  const itsFolder = workingFolder(note.pid);
  if (itsFolder === realpathSync(join(folder, 'data'))) {
    const message = `another process is already using the database in ${folder} (PostgreSQL is process ${note.pid})`;
    return { message, mayPass: true };
  }
  if (itsFolder && readText(join(itsFolder, 'postmaster.pid')) === note.text) {
    const original = join(itsFolder, '..');
    const message = `${folder} was copied from ${original} while that was running, so it may be incomplete: stop that one and copy again, or remove this one`;
    return { message, mayPass: false };
  }
  // The id of a killed server now belongs to another program, which PostgreSQL would take for a running server. It ignores
  // the id of its own parent, but still looks whether an old process is using the data.
  writeFileSync(file, note.text.replace(/^\d+/, String(process.pid)));
  return undefined;
}

async function launch(binaries: string, folder: string, options: PostgresOptions): Promise<ChildProcess> {
  const { port, fsync = true } = options;
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

async function isReady(folder: string, server: ChildProcess): Promise<boolean> {
  for (const deadline = Date.now() + startTimeoutMs; isRunning(server) && Date.now() < deadline;) {
    const note = readNote(folder);
    if (note?.pid === server.pid && note?.isReady) return true;
    await sleep(15);
  }
  return false;
}

/** @param throwaway a folder that shall not outlive this process either */
function own(folder: string, server: ChildProcess, throwaway: string): EmbeddedPostgres {
  const pid = server.pid ?? 0;
  const port = readNote(folder)?.port ?? 0;
  const removeGuard = guard(pid, 'INT', throwaway);
  const gone = isRunning(server) ? once(server, 'exit') : Promise.resolve();
  const ended = gone.then(removeGuard);
  return { url: serverUrl(folder, port), port, pid, ended, stop: () => end(server, ended) };
}

async function end(server: ChildProcess, ended: Promise<void>): Promise<void> {
  const steps = [
    { signal: 'SIGINT', timeoutMs: 10_000 }, // fast: sessions are cut, everything is written out
    { signal: 'SIGQUIT', timeoutMs: 10_000 }, // immediate: recovered at the next start
    { signal: 'SIGKILL', timeoutMs: 1_000 },
  ] as const;
  server.ref();
  for (const { signal, timeoutMs } of steps) {
    server.kill(signal);
    await Promise.race([ended, sleep(timeoutMs, undefined, { ref: false })]);
    if (!isRunning(server)) return;
  }
}

function isRunning({ exitCode, signalCode }: ChildProcess): boolean {
  return exitCode === null && signalCode === null;
}

function startFailure(folder: string): Obstacle {
  const log = readText(join(folder, 'log')) ?? '';
  const reason = /FATAL: +(.*)/.exec(log)?.[1] ?? log.trim().split('\n').at(-1);
  return {
    message: `PostgreSQL did not start in ${folder}: ${reason}`,
    mayPass: /lock file .* already exists|shared memory block|could not bind/.test(log),
  };
}

interface Note {
  readonly text: string;
  /** 0 when it cannot be read. */
  readonly pid: number;
  readonly port: number;
  readonly isReady: boolean;
}

/** What the server on this folder says about itself: nothing when it was stopped, and the past when it was killed. */
function readNote(folder: string): Note | undefined {
  const text = readText(noteFile(folder));
  if (text === undefined) return undefined;
  const [pid = '', , , port, , , , state = ''] = text.split('\n');
  return {
    text,
    pid: /^[1-9]\d*$/.test(pid) ? Number(pid) : 0,
    port: Number(port),
    isReady: /^(ready|standby)/.test(state),
  };
}

function noteFile(folder: string): string {
  return join(folder, 'data', 'postmaster.pid');
}

/** URL of the superuser and the database `postgres`. */
function serverUrl(folder: string, port: number): string {
  return `postgresql://postgres:${readText(join(folder, 'password'))}@127.0.0.1:${port}/postgres`;
}

function workingFolder(pid: number): string | undefined {
  try {
    return readlinkSync(`/proc/${pid}/cwd`);
  } catch {
    return undefined;
  }
}

function readText(file: string): string | undefined {
  try {
    return readFileSync(file, 'utf8');
  } catch {
    return undefined;
  }
}

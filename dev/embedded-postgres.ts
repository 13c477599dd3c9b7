import { spawnSync, type ChildProcess } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import {
  chownSync,
  closeSync,
  existsSync,
  mkdirSync,
  openSync,
  readFileSync,
  readlinkSync,
  realpathSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { startChild } from './child.ts';
import { freePort } from './free-port.ts';
import { makeFolder, postgresBinaries, serverAccount } from './postgres-binaries.ts';

const startTimeoutMs = 30_000;
const stopTimeoutMs = 10_000;

/** How long a server that is on its way out may keep the folder; its owner may have been killed a moment ago. */
const handoverTimeoutMs = 3_000;

/**
 * The data folder, from inside. On Linux by a name that works even where the server's account may not walk the whole
 * path.
 */
const here = process.platform === 'linux' ? '/proc/self/cwd' : '.';

/** Programs see nothing of the environment that could change the database from one machine to the next. */
const inside = (folder: string) => ({
  ...serverAccount,
  cwd: join(folder, 'data'),
  env: { LC_ALL: 'C', TZ: 'UTC', PATH: process.env['PATH'] },
});

export interface PostgresOptions {
  /** As `postgresBinaries()` gives it, which is the default. */
  binaries?: string;
  /** Off for tests: a crash of the machine may spoil the data. */
  fsync?: boolean;
  port?: number;
  /** Removes the folder when this process dies without having stopped the server. */
  throwaway?: boolean;
}

export type EmbeddedPostgres = Awaited<ReturnType<typeof startPostgres>>;

/**
 * Starts PostgreSQL on a folder, which is made first where it does not exist. It listens on 127.0.0.1 alone, wants the
 * password that is kept beside the data, and lives and dies as {@link startChild} says.
 *
 * @throws in one line, when another process is using the folder or the server does not start within 30 s
 */
export async function startPostgres(folder: string, options: PostgresOptions = {}) {
  const { binaries = postgresBinaries() } = options;
  makeFolder(folder, (unfinished) => createCluster(binaries, unfinished));
  const { uid } = statSync(folder);
  const account = serverAccount?.uid ?? process.getuid?.() ?? uid;
  if (uid !== account) {
    const advice = `start as that user, give it to user ${account} by chown -R, or remove it to start afresh`;
    throw new Error(`${folder} belongs to user ${uid}; ${advice}`);
  }
  if (!existsSync(join(folder, 'data')))
    throw new Error(`${folder} has lost its folder "data"; put it back, or remove ${folder} to start afresh`);
  const deadline = Date.now() + handoverTimeoutMs;
  for (;;) {
    const port = options.port ?? (await freePort());
    const { process: server, ended } = await launch(binaries, folder, port, options);
    if (await becomesReady(folder, server)) {
      return {
        /** Of the superuser and the database `postgres`. */
        url: serverUrl(folder, port),
        port,
        /** Of the postmaster. */
        pid: server.pid ?? 0,
        /** Settles when the server is gone, wanted or not. */
        ended,
        /** Cuts the sessions, writes everything out and waits for the end: some 20 ms, at most 10 s. */
        async stop(): Promise<void> {
          server.ref();
          server.kill('SIGINT');
          setTimeout(() => server.kill('SIGKILL'), stopTimeoutMs).unref();
          await ended;
        },
      };
    }
    const log = readFileSync(join(folder, 'log'), 'utf8');
    const mayPass = /lock file .* already exists|shared memory block|could not bind/.test(log);
    if (!mayPass || Date.now() > deadline)
      throw new Error(`PostgreSQL did not start in ${folder}:\n${shown(log, folder)}`);
    await sleep(100);
  }
}

/** URL of the server that runs on the folder now, whoever started it. */
export function runningPostgres(folder: string): string | undefined {
  const { pid, port, isReady } = readNote(folder);
  return isReady && isServer(pid, folder) ? serverUrl(folder, port) : undefined;
}

/** Whether there is such a process, of whatever account. */
export function isAlive(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM';
  }
}

/** Fills the folder of a database server: `data` for PostgreSQL, `password` of its superuser, and later `log`. */
function createCluster(binaries: string, folder: string): void {
  const data = join(folder, 'data');
  const password = join(folder, 'password');
  mkdirSync(data, { mode: 0o700 });
  writeFileSync(password, randomBytes(24).toString('hex'), { mode: 0o600 });
  for (const path of [folder, data, password]) {
    try {
      if (serverAccount) chownSync(path, serverAccount.uid, serverAccount.gid);
    } catch (error) {
      throw spawnFailure(error);
    }
  }

  const initdb = (...args: string[]) =>
    spawnSync(join(binaries, 'bin/initdb'), args, { ...inside(folder), encoding: 'utf8' });
  const builtin = ['--locale-provider=builtin', '--builtin-locale=C.UTF-8'];
  const version = initdb('--version');
  if (version.error) throw spawnFailure(version.error);
  const locale = / 1[56]\./.test(version.stdout) ? [] : builtin;
  const access = ['-U', 'postgres', '-A', 'scram-sha-256', `--pwfile=${here}/../password`];
  const result = initdb('-D', here, '--no-sync', '-E', 'UTF8', '--locale=C', ...locale, ...access);
  if (result.status === 0) return;

  throw new Error(`initdb failed:\n${shown(result.stderr, folder)}`);
}

/** What PostgreSQL says, without times, with folders by the names that the user knows. */
function shown(output: string, folder: string): string {
  const lines = output
    .trim()
    .replaceAll(/^\d\S+ \S+ \S+ \[\d+\] /gm, '')
    .split('\n');
  return lines.slice(-10).join('\n').replaceAll(here, join(folder, 'data'));
}

/** A program of another C library cannot be started: the system then says that it does not exist. */
function spawnFailure(error: unknown): Error {
  const needs = 'It needs Linux with glibc, macOS or Windows, and root must be able to act as user 65534';
  return new Error(`PostgreSQL cannot be run here: ${(error as Error).message}. ${needs}. Else set DATABASE_URL`);
}

async function launch(binaries: string, folder: string, port: number, { fsync, throwaway }: PostgresOptions) {
  const settings = [`port=${port}`, 'listen_addresses=127.0.0.1', 'unix_socket_directories='];
  if (fsync === false) settings.push('fsync=off', 'synchronous_commit=off', 'full_page_writes=off');
  // Otherwise a server that is killed and never starts again would leave its shared memory behind.
  if (throwaway && process.platform !== 'win32') settings.push('dynamic_shared_memory_type=mmap');
  const command = [join(binaries, 'bin/postgres'), '-D', here, ...settings.flatMap((setting) => ['-c', setting])];
  writeFileSync(join(folder, 'log'), '');
  const log = openSync(join(folder, 'log'), 'a'); // a server that already runs on the folder goes on writing at the end
  const stdio = ['ignore' as const, 'ignore' as const, log];
  const child = await startChild(command, 'INT', { ...inside(folder), stdio }, throwaway ? folder : '').catch(
    (error: unknown) => {
      throw spawnFailure(error);
    },
  );
  closeSync(log);
  child.process.unref();
  return child;
}

async function becomesReady(folder: string, server: ChildProcess): Promise<boolean> {
  const deadline = Date.now() + startTimeoutMs;
  while (server.exitCode === null && server.signalCode === null) {
    const { pid, isReady } = readNote(folder);
    if (pid === server.pid && isReady) return true;
    if (Date.now() > deadline) server.kill('SIGKILL');
    await sleep(15);
  }
  return false;
}

/** Whether the process is the server of this folder. After a crash, its number may be another program's. */
function isServer(pid: number, folder: string): boolean {
  if (!isAlive(pid)) return false;
  if (process.platform !== 'linux') return true;
  try {
    return readlinkSync(`/proc/${pid}/cwd`) === realpathSync(join(folder, 'data'));
  } catch {
    return readFileSync(`/proc/${pid}/comm`, 'utf8').trim() === 'postgres'; // it belongs to another user
  }
}

/** What the server on this folder says about itself: nothing when it was stopped, and the past when it was killed. */
function readNote(folder: string): { pid: number; port: number; isReady: boolean } {
  const file = join(folder, 'data/postmaster.pid');
  let lines: string[] = [];
  try {
    lines = readFileSync(file, 'utf8').split('\n');
  } catch (error) {
    // A new server removes the note of a killed one.
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error;
  }
  const [pid, , , port, , , , state = ''] = lines;
  return { pid: Number(pid), port: Number(port), isReady: /^(ready|standby)/.test(state) };
}

function serverUrl(folder: string, port: number): string {
  return `postgresql://postgres:${readFileSync(join(folder, 'password'), 'utf8')}@127.0.0.1:${port}/postgres`;
}

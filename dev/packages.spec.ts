import { globSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { parse } from 'yaml';
import manifest from '../package.json' with { type: 'json' };

interface LockedPackage {
  readonly integrity?: string;
  /** Set when it is from elsewhere than the configured registry: a repository, a file, another host. */
  readonly resolved?: string;
  readonly link?: boolean;
  readonly hasInstallScript?: boolean;
}

const LOCK_FILES = ['package-lock.json', 'bench/package-lock.json', 'test/contract/package-lock.json'];

/** All packages but our own. */
function lockedPackages(lockFile: string): [name: string, LockedPackage][] {
  const { packages } = JSON.parse(readFileSync(lockFile, 'utf8')) as { packages: Record<string, LockedPackage> };
  return Object.entries(packages).flatMap(([path, locked]) =>
    path === '' ? [] : [[path.slice(path.lastIndexOf('node_modules/') + 'node_modules/'.length), locked]],
  );
}

describe.each(LOCK_FILES)('%s', (lockFile) => {
  const packages = lockedPackages(lockFile);

  it('has only packages of the registry, each with a checksum', () => {
    expect(packages.length).toBeGreaterThan(30);
    const doubtful = packages.filter(
      ([, { integrity = '', resolved, link = false }]) =>
        link || resolved !== undefined || !/^sha512-[\w+/]{86}==$/.test(integrity),
    );
    expect(doubtful).toEqual([]);
  });

  it('has no install script that package.json does not list, and package.json lets none run', () => {
    const scripted = packages.filter(([, { hasInstallScript }]) => hasInstallScript).map(([name]) => name);
    expect(Object.keys(manifest.allowScripts)).toEqual(expect.arrayContaining(scripted));
    expect(Object.values(manifest.allowScripts)).not.toContain(true);
  });
});

describe('the CI workflow', () => {
  it('names each action by commit and version', () => {
    const actions = readFileSync('.github/workflows/ci.yml', 'utf8').match(/uses: .*/g) ?? [];
    expect(actions.length).toBeGreaterThan(0);
    for (const action of actions) expect(action).toMatch(/^uses: [\w-]+\/[\w-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+$/);
  });
});

describe('Dependabot', () => {
  interface Update {
    readonly 'package-ecosystem': string;
    readonly directory?: string;
    readonly directories?: readonly string[];
    readonly cooldown?: object;
  }
  const { updates } = parse(readFileSync('.github/dependabot.yml', 'utf8')) as { updates: Update[] };

  it('waits as long as npm does, for packages, actions and images', () => {
    const [, days] = /^min-release-age=(\d+)$/m.exec(readFileSync('.npmrc', 'utf8')) ?? [];
    expect(updates.map((update) => update['package-ecosystem'])).toEqual(
      expect.arrayContaining(['npm', 'github-actions', 'docker']),
    );
    for (const { cooldown } of updates) expect(cooldown).toEqual({ 'default-days': Number(days) });
  });

  it.each([
    ['npm', 'package-lock.json'],
    ['gomod', 'go.sum'],
  ])('knows each folder of %s', (ecosystem, lockFile) => {
    const folders = updates.flatMap((update) => (update['package-ecosystem'] === ecosystem ? update.directories : []));
    const locked = globSync(`**/${lockFile}`, { exclude: ['**/node_modules/**', 'dist/**'] });
    expect(folders.toSorted()).toEqual(locked.map((file) => join('/', dirname(file))).toSorted());
  });

  it('finds the base image of each Dockerfile, which it does not do behind an ARG', () => {
    const folders = updates.flatMap((update) => (update['package-ecosystem'] === 'docker' ? update.directories : []));
    expect(folders).toContain('/');
    for (const folder of folders)
      expect(readFileSync(join('.', folder ?? '', 'Dockerfile'), 'utf8')).toMatch(
        /^FROM [\w/]+:[\w.-]+ AS|^FROM [\w/]+:[\w.-]+$/m,
      );
  });
});

import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import manifest from '../package.json' with { type: 'json' };

interface LockedPackage {
  readonly version?: string;
  readonly integrity?: string;
  /** Where it is not from the registry that npm is set to: a repository, a file, another host. */
  readonly resolved?: string;
  readonly link?: boolean;
  readonly hasInstallScript?: boolean;
}

const LOCK_FILES = ['package-lock.json', 'bench/package-lock.json', 'test/contract/package-lock.json'];

function read(path: string): string {
  return readFileSync(new URL(`../${path}`, import.meta.url), 'utf8');
}

/** By name; the root of the lock file, which is our own package, left out. */
function lockedPackages(lockFile: string): [name: string, LockedPackage][] {
  const { packages } = JSON.parse(read(lockFile)) as { packages: Record<string, LockedPackage> };
  return Object.entries(packages).flatMap(([path, locked]) =>
    path === '' ? [] : [[path.slice(path.lastIndexOf('node_modules/') + 'node_modules/'.length), locked]],
  );
}

describe.each(LOCK_FILES)('%s', (lockFile) => {
  const packages = lockedPackages(lockFile);

  it('has packages of the registry alone, each with the checksum of its content', () => {
    expect(packages.length).toBeGreaterThan(100);
    const doubtful = packages.filter(
      ([, { integrity = '', resolved, link = false }]) =>
        link || resolved !== undefined || !/^sha512-[\w+/]{86}==$/.test(integrity),
    );
    expect(doubtful).toEqual([]);
  });

  it('has no install script that package.json does not judge', () => {
    const scripted = packages.filter(([, { hasInstallScript }]) => hasInstallScript).map(([name]) => name);
    expect(Object.keys(manifest.allowScripts)).toEqual(expect.arrayContaining(scripted));
  });
});

describe('package.json', () => {
  it('lets no install script run', () => {
    expect(Object.values(manifest.allowScripts)).not.toContain(true);
  });
});

describe('the CI workflow', () => {
  it('names each action by its commit, with the version beside it', () => {
    const actions = read('.github/workflows/ci.yml').match(/uses: .*/g);
    expect(actions).not.toBeNull();
    for (const action of actions ?? []) expect(action).toMatch(/^uses: [\w-]+\/[\w-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+$/);
  });
});

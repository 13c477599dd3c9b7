import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import manifest from '../package.json' with { type: 'json' };

interface LockedPackage {
  readonly integrity?: string;
  /** Set when it is from elsewhere than the configured registry: a repository, a file, another host. */
  readonly resolved?: string;
  readonly link?: boolean;
  readonly hasInstallScript?: boolean;
}

const LOCK_FILES = ['package-lock.json', 'lab/bench/package-lock.json', 'lab/contract/package-lock.json'];

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

describe('the version', () => {
  it.each([
    ['package-lock.json', /"version": "(.+?)"/],
    ['Dockerfile', /^ARG VERSION=(.+)$/m],
    ['deploy/kubernetes/kustomization.yaml', /newTag: (\S+)/],
    ['docs/deployment.md', /newTag: (\S+)/],
  ])('of package.json stands in %s, too', (file, place) => {
    expect(place.exec(readFileSync(file, 'utf8'))?.[1]).toBe(manifest.version);
  });
});

it('README names each Node.js on which npm can install the packages', () => {
  // The package of Prisma refuses others while it is installed.
  const { engines } = JSON.parse(readFileSync('node_modules/prisma/package.json', 'utf8')) as typeof manifest;
  const [old, middle, recent] = engines.node.split(' || ').map((range) => range.replace(/^\D+|\.0$/g, ''));
  expect(readFileSync('README.md', 'utf8')).toContain(`you need Node.js ${old}, ${middle}, or ${recent} or later:`);
});

describe('the CI workflow', () => {
  it('names each action by commit and version', () => {
    const actions = readFileSync('.github/workflows/ci.yml', 'utf8').match(/uses: .*/g) ?? [];
    expect(actions.length).toBeGreaterThan(0);
    for (const action of actions) expect(action).toMatch(/^uses: [\w-]+\/[\w-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+$/);
  });
});

import { execFileSync } from 'node:child_process';
import { cpSync, mkdirSync, mkdtempSync, readFileSync, realpathSync, rmSync, symlinkSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { describe, expect, it, onTestFinished } from 'vitest';
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

describe.skipIf(process.platform === 'win32')('the install script', () => {
  it.each([
    ['that is missing', undefined],
    ['that leads nowhere', '../gone'],
  ])('makes a link to Node.js %s', (_, former) => {
    const folder = mkdtempSync(join(tmpdir(), 'inventory-install-'));
    onTestFinished(() => rmSync(folder, { recursive: true }));
    for (const file of ['package.json', 'dev/link-node.js']) cpSync(file, join(folder, file));
    const program = join(folder, `node_modules/node-${process.platform}-${process.arch}/bin/node`);
    cpSync('package.json', program); // any file will do
    const link = join(folder, 'node_modules/.bin/node');
    mkdirSync(dirname(link));
    if (former !== undefined) symlinkSync(former, link);
    execFileSync(process.execPath, ['dev/link-node.js'], { cwd: folder });
    expect(realpathSync(link)).toBe(realpathSync(program));
  });
});

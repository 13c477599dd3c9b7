import { spawnSync } from 'node:child_process';
import {
  chmodSync,
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  realpathSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { beforeEach, describe, expect, it, onTestFinished } from 'vitest';
import manifest from '../package.json' with { type: 'json' };

const ownNode = `node-${process.platform}-${process.arch}`;
const everything = 'npm ci --include=dev --include=optional';

// Each test has a project whose packages are empty folders, and whose own Node.js is this one.
describe.skipIf(process.platform === 'win32')('an installation', () => {
  let folder: string;
  const packages = (...names: string[]) => join(folder, 'node_modules', ...names);
  const link = () => packages('.bin/node');
  const program = () => packages(ownNode, 'bin/node');

  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), 'inventory-install-'));
    onTestFinished(() => rmSync(folder, { recursive: true }));
    for (const name of [...Object.keys({ ...manifest.dependencies, ...manifest.devDependencies }), '.bin'])
      mkdirSync(packages(name), { recursive: true });
    writeFileSync(packages('.package-lock.json'), '{}');
    for (const file of ['link-node.js', 'own-node.js', 'installed.js', 'prisma.ts', 'build.ts'])
      cpSync(`dev/${file}`, join(folder, 'dev', file));
    for (const file of ['start.ts', 'inventory.ts'])
      writeFileSync(join(folder, 'dev', file), `console.error(${JSON.stringify(file)} as string)`);
    mkdirSync(dirname(program()), { recursive: true });
    symlinkSync(process.execPath, program());
    needsNode(manifest.engines.node);
  });

  function needsNode(node: string): void {
    // The name of the package for this machine, also where the project has none.
    const changed = { engines: { node }, optionalDependencies: { [ownNode]: '26.10.0' } };
    writeFileSync(join(folder, 'package.json'), JSON.stringify({ ...manifest, ...changed }));
  }

  function breakOwnNode(): void {
    rmSync(program());
    writeFileSync(program(), '#!/lib/ld-of-another-c-library\n');
    chmodSync(program(), 0o755);
  }

  function run(script: keyof typeof manifest.scripts, lifecycle: string = script) {
    const env = { PATH: `${dirname(process.execPath)}:${process.env['PATH']}`, npm_lifecycle_event: lifecycle };
    const { status, stderr } = spawnSync('sh', ['-c', manifest.scripts[script]], {
      cwd: folder,
      env,
      encoding: 'utf8',
    });
    return [status, stderr];
  }

  it.each([
    ['that is missing', undefined],
    ['that leads nowhere', '../gone'],
  ])('gets a link to Node.js %s', (_, former) => {
    if (former !== undefined) symlinkSync(former, link());
    run('install');
    expect(realpathSync(link())).toBe(realpathSync(program()));
  });

  it('has no link to a Node.js that does not start', () => {
    symlinkSync(`../${ownNode}/bin/node`, link());
    run('install');
    expect(existsSync(link())).toBe(true);
    breakOwnNode();
    run('install');
    expect(() => realpathSync(link())).toThrow('ENOENT');
  });

  it('runs each of its scripts only if nothing is missing', () => {
    const others = 'install build test test:e2e test:versions lint format typecheck check'.split(' ');
    for (const [name, script] of Object.entries(manifest.scripts))
      if (!others.includes(name)) expect(script).toMatch(/^(node --import \.\/dev\/installed\.js |npm run dev$)/);
    expect(run('dev')).toEqual([0, 'start.ts\n']);
  });

  it('says in one line that Node.js is too old', () => {
    needsNode('>=99');
    const own = `On Linux with glibc and on Windows, npm brings its own. Type: ${everything}\n`;
    for (const script of ['postinstall', 'start:prod'] as const)
      expect(run(script)).toEqual([1, `Node.js 99 or later is missing: this is ${process.version}. ${own}`]);
  });

  it('says in one line that packages are missing', () => {
    rmSync(packages('prisma'), { recursive: true });
    for (const script of ['start', 'bench'] as const)
      expect(run(script)).toEqual([1, `The packages are not all installed. Type: ${everything}\n`]);
  });

  it('says in one line that npm did not finish, which writes its list of packages last', () => {
    rmSync(packages('.package-lock.json'));
    expect(run('start')).toEqual([1, `The packages are not all installed. Type: ${everything}\n`]);
  });

  it('needs no development packages for production, but a build', () => {
    for (const name of Object.keys(manifest.devDependencies)) rmSync(packages(name), { recursive: true });
    writeFileSync(join(folder, 'package-lock.json'), '{}');
    expect(run('postinstall')).toEqual([0, '']);
    expect(run('start:prod')).toEqual([1, 'dist/main.js is not built. Type: npm run build\n']);
    rmSync(packages('pg'), { recursive: true });
    expect(run('start:prod')).toEqual([1, 'The packages are not all installed. Type: npm ci\n']);
  });
});

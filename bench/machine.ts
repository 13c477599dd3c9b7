import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { cpus, loadavg, release, totalmem } from 'node:os';
import { generator } from './load.ts';

export type Machine = ReturnType<typeof describeMachine>;

const require = createRequire(import.meta.url);
const packages = ['express', 'fastify', 'pg', '@nestjs/core', '@prisma/client'];

export function describeMachine() {
  return {
    processor: cpus()[0]?.model ?? 'unknown',
    cores: cpus().length,
    memoryGb: Math.round(totalmem() / 2 ** 30),
    kernel: release(),
    loadAtStart: loadavg()[0] ?? NaN,
    versions: {
      'Node.js': process.versions.node,
      [generator]: generatorVersion(),
      ...Object.fromEntries(packages.map((name) => [name, packageVersion(name)])),
    },
  };
}

function generatorVersion(): string {
  if (generator === 'autocannon') return packageVersion('autocannon');
  return /wrk \S*?(\d[\w.+-]*)/.exec(spawnSync('wrk', ['-v'], { encoding: 'utf8' }).stdout)?.[1] ?? 'unknown';
}

function packageVersion(name: string): string {
  return (JSON.parse(readFileSync(require.resolve(`${name}/package.json`), 'utf8')) as { version: string }).version;
}

import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { cpus, loadavg, release, totalmem } from 'node:os';

export type Machine = ReturnType<typeof describeMachine>;

const require = createRequire(import.meta.url);
const packages = ['fastify', 'pg', '@nestjs/core', '@prisma/client'];

/** @throws where `wrk`, which makes the load, is not installed */
export function describeMachine() {
  const wrk = spawnSync('wrk', ['-v'], { encoding: 'utf8' });
  if (wrk.error) throw new Error('wrk, which makes the load, is not installed: apt-get install wrk');
  return {
    processor: cpus()[0]?.model ?? 'unknown',
    cores: cpus().length,
    memoryGb: Math.round(totalmem() / 2 ** 30),
    kernel: release(),
    loadAtStart: loadavg()[0] ?? NaN,
    versions: {
      'Node.js': process.versions.node,
      wrk: /wrk \S*?(\d[\w.+-]*)/.exec(wrk.stdout)?.[1] ?? 'unknown',
      ...Object.fromEntries(packages.map((name) => [name, packageVersion(name)])),
    },
  };
}

function packageVersion(name: string): string {
  return (JSON.parse(readFileSync(require.resolve(`${name}/package.json`), 'utf8')) as { version: string }).version;
}

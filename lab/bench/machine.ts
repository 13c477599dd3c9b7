import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { cpus, loadavg, release, totalmem } from 'node:os';
import { join } from 'node:path';
import { postgresBinaries } from '../../dev/postgres-binaries.ts';

const require = createRequire(import.meta.url);
const packages = ['fastify', 'pg', '@nestjs/core', '@prisma/client'];

/**
 * The machine and the versions, as list items in Markdown.
 *
 * @throws where `wrk`, which makes the load, is not installed
 */
export function describeMachine(): string {
  const wrk = spawnSync('wrk', ['-v'], { encoding: 'utf8' });
  if (wrk.error) throw new Error('wrk, which makes the load, is not installed: apt-get install wrk');
  const memoryGb = Math.round(totalmem() / 2 ** 30);
  const load = loadavg()[0]?.toFixed(1);
  const postgres = spawnSync(join(postgresBinaries(), 'bin/postgres'), ['--version'], { encoding: 'utf8' });
  const versions = [
    postgres.stdout.trim().replace('postgres (PostgreSQL)', 'PostgreSQL'),
    `Node.js ${process.versions.node}`,
    `wrk ${/wrk \S*?(\d[\w.+-]*)/.exec(wrk.stdout)?.[1]}`,
    ...packages.map((name) => `${name} ${packageVersion(name)}`),
  ];
  return [
    `- Machine: ${cpus()[0]?.model}, ${cpus().length} cores, ${memoryGb} GB, Linux ${release()}, load ${load} at the start.`,
    `- Versions: ${versions.join(', ')}.`,
  ].join('\n');
}

function packageVersion(name: string): string {
  return (JSON.parse(readFileSync(require.resolve(`${name}/package.json`), 'utf8')) as { version: string }).version;
}

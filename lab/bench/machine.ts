import { execFileSync, spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { cpus, loadavg, release, totalmem } from 'node:os';
import { join } from 'node:path';
import { postgresBinaries } from '../../dev/postgres-binaries.ts';

const require = createRequire(import.meta.url);
const packages = ['fastify', 'pg', '@nestjs/core', '@prisma/client'];

/** What disturbs a measurement: the load before it, and how much of the CPU time meanwhile went to other machines. */
export function watchDisturbance(): () => string {
  const load = loadavg()[0]?.toFixed(1);
  const before = cpuTicks();
  return () => {
    const ticks = cpuTicks().map((value, at) => value - (before[at] ?? 0));
    const stolen = (100 * (ticks.at(-1) ?? 0)) / ticks.reduce((sum, each) => sum + each);
    return `load ${load} at the start, ${stolen.toFixed(1)} % of the CPU time stolen by other machines`;
  };
}

/** Of all cores: user, nice, system, idle, iowait, irq, softirq, steal (proc_stat(5)). */
function cpuTicks(): number[] {
  return readFileSync('/proc/stat', 'utf8').split(/\s+/, 9).slice(1).map(Number);
}

/**
 * The machine, the commit and the versions, as list items in Markdown.
 *
 * @throws where `wrk`, which makes the load, is not installed
 */
export function describeMachine(): string {
  const wrk = spawnSync('wrk', ['-v'], { encoding: 'utf8' });
  if (wrk.error) throw new Error('wrk, which makes the load, is not installed: apt-get install wrk');
  const memoryGb = Math.round(totalmem() / 2 ** 30);
  const commit = execFileSync('git', ['describe', '--always', '--dirty'], { encoding: 'utf8' }).trim();
  const postgres = spawnSync(join(postgresBinaries(), 'bin/postgres'), ['--version'], { encoding: 'utf8' });
  const versions = [
    postgres.stdout.trim().replace('postgres (PostgreSQL)', 'PostgreSQL'),
    `Node.js ${process.versions.node}`,
    `wrk ${/wrk \S*?(\d[\w.+-]*)/.exec(wrk.stdout)?.[1]}`,
    ...packages.map((name) => `${name} ${packageVersion(name)}`),
  ];
  return [
    `- Machine: ${cpus()[0]?.model}, ${cpus().length} cores, ${memoryGb} GB, Linux ${release()}.`,
    `- Commit: ${commit}.`,
    `- Versions: ${versions.join(', ')}.`,
  ].join('\n');
}

function packageVersion(name: string): string {
  return (JSON.parse(readFileSync(require.resolve(`${name}/package.json`), 'utf8')) as { version: string }).version;
}

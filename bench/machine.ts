import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { cpus, loadavg, release, totalmem } from 'node:os';

export interface Machine {
  processor: string;
  cores: number;
  memoryGb: number;
  kernel: string;
  loadAtStart: number;
  versions: Record<string, string>;
}

const require = createRequire(import.meta.url);
const packages = ['express', 'fastify', 'pg', '@nestjs/core', '@prisma/client'];

export function describeMachine(): Machine {
  const version = (name: string) =>
    (JSON.parse(readFileSync(require.resolve(`${name}/package.json`), 'utf8')) as { version: string }).version;
  return {
    processor: cpus()[0]?.model ?? 'unknown',
    cores: cpus().length,
    memoryGb: Math.round(totalmem() / 2 ** 30),
    kernel: release(),
    loadAtStart: loadavg()[0] ?? NaN,
    versions: {
      'Node.js': process.versions.node,
      wrk: wrkVersion(),
      ...Object.fromEntries(packages.map((name) => [name, version(name)])),
    },
  };
}

function wrkVersion(): string {
  try {
    execFileSync('wrk', ['-v'], { encoding: 'utf8', stdio: 'pipe' });
  } catch (error) {
    // It prints its version and ends with 1.
    const { stdout } = error as { stdout?: string };
    if (stdout) return /(\d[\w.+-]*)/.exec(stdout)?.[1] ?? 'unknown';
  }
  throw new Error('the load comes from wrk, which is not installed: apt-get install wrk');
}

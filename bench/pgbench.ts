import { execFile, spawnSync } from 'node:child_process';
import { globSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { UPDATE } from './peers/statements.ts';
import { cpuMs } from './usage.ts';
import { usualPets, type BenchDatabase } from './database.ts';
import type { Measurement } from './measure.ts';

const run = promisify(execFile);

/** Debian keeps it outside of PATH. */
function findPgbench(): string {
  const installed = globSync('/usr/lib/postgresql/*/bin/pgbench').sort().toReversed();
  const found = [...installed, 'pgbench'].find((program) => spawnSync(program, ['--version']).status === 0);
  if (!found) throw new Error('pgbench is not installed');
  return found;
}

/** The peers' update with its history row, from a C program without HTTP, keys or JSON. */
export async function runPgbench(
  database: BenchDatabase,
  pets: number,
  clients: number,
  seconds: number,
): Promise<Measurement> {
  const script = join(tmpdir(), `inventory-pgbench-${process.pid}.sql`);
  const statement = UPDATE.replaceAll('$1', ':pet').replaceAll('$2', ':quantity').replaceAll('$3', "'pgbench'");
  await writeFile(
    script,
    `\\set pet random(1, ${usualPets(pets)})\n\\set quantity random(0, 2147483647)\n${statement.replaceAll('\n', ' ')};\n`,
  );
  const cpuBefore = cpuMs(database.pid);
  const options = ['-n', '-M', 'prepared', '-f', script, '-c', String(clients), '-T', String(seconds)];
  const { stdout } = await run(findPgbench(), [...options, database.url]);
  const figure = (pattern: RegExp) => Number(pattern.exec(stdout)?.[1] ?? NaN);
  const transactions = figure(/transactions actually processed: (\d+)/);
  return {
    requestsPerSecond: figure(/tps = ([\d.]+)/),
    p50Ms: NaN,
    p99Ms: NaN,
    failures: figure(/number of failed transactions: (\d+)/) || 0,
    programCpuUs: NaN,
    postgresCpuUs: ((cpuMs(database.pid) - cpuBefore) * 1000) / transactions,
    peakMemoryMb: NaN,
    updatesPerSecond: 0,
  };
}

/** The number of clients at which it is fastest, which no peer is asked to guess. */
export async function bestClientCount(database: BenchDatabase, pets: number): Promise<number> {
  let best = { clients: 0, requestsPerSecond: 0 };
  for (const clients of [8, 16, 32, 64]) {
    const { requestsPerSecond } = await runPgbench(database, pets, clients, 1);
    if (requestsPerSecond > best.requestsPerSecond) best = { clients, requestsPerSecond };
  }
  return best.clients;
}

import { spawnSync } from 'node:child_process';
import { mkdtempSync, openSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { startPostgres } from '../../dev/embedded-postgres.ts';
import { buildIfStale } from '../../dev/build.ts';

/* `node test/commands/million-pets.trial.ts`: what the commands cost with a million pets, on a database of its own. */

const PETS = 1_000_000;
const CLI = join(import.meta.dirname, '../../dist/cli.js');
/** Makes the command say last how much memory it has held at most. */
const TELLING_MEMORY = `data:text/javascript,process.on('exit', () =>
  process.stderr.write(Math.round(process.resourceUsage().maxRSS / 1024) + ' MiB'))`;

buildIfStale();
const folder = mkdtempSync(join(tmpdir(), 'inventory-million-'));
const server = await startPostgres(join(folder, 'postgres'), { throwaway: true });
try {
  writePets('first.csv', 1);
  writePets('second.csv', 2);
  measure('migrate');
  measure('import first.csv');
  measure('import first.csv --missing remove');
  for (const format of ['csv', 'ndjson', 'json']) measure(`export --format ${format}`, `export.${format}`);
  measure('import export.ndjson --dry-run');
  measure('import export.json --dry-run');
  measure('import second.csv');
  measure('history --verify');
  measure('history prune --before 1s');
} finally {
  await server.stop();
  rmSync(folder, { recursive: true, force: true });
}

/** Ids over the whole int64 range, in no order; another seed changes every quantity. */
function writePets(name: string, seed: number): void {
  const step = 2n ** 64n / BigInt(PETS);
  const pets = Array.from({ length: PETS }, (_, at) => {
    const place = (at * 7_919) % PETS;
    const status = ['available', 'pending', 'sold'][place % 3] ?? '';
    return `${BigInt(place) * step - 2n ** 63n},${(place * 31 + seed) % 2_147_483_647},${status}\n`;
  });
  writeFileSync(join(folder, name), `petId,quantity,status\n${pets.join('')}`);
}

function measure(command: string, output = '/dev/null'): void {
  const startedAt = performance.now();
  const { status, stderr } = spawnSync(process.execPath, ['--import', TELLING_MEMORY, CLI, ...command.split(' ')], {
    cwd: folder,
    env: { DATABASE_URL: server.url },
    stdio: ['ignore', openSync(resolve(folder, output), 'w'), 'pipe'],
    encoding: 'utf8',
  });
  const seconds = ((performance.now() - startedAt) / 1_000).toFixed(2);
  console.log(`${command}: ${seconds} s, ${stderr.trim().split('\n').slice(-2).join(', ')}`);
  if (status !== 0) throw new Error(`${command} failed`);
}

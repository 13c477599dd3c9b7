import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { createWriteStream, readFileSync } from 'node:fs';
import { mkdtemp, open, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pipeline } from 'node:stream/promises';
import { startPostgres } from '../../dev/embedded-postgres.ts';
import { buildIfStale } from '../../dev/build.ts';

/* `node test/commands/million-pets.trial.ts`: what the commands cost with a million pets, on a database of its own. */

const PETS = 1_000_000;
const command = join(import.meta.dirname, '../../dist/cli.js');

buildIfStale();
const folder = await mkdtemp(join(tmpdir(), 'inventory-million-'));
const server = await startPostgres(join(folder, 'postgres'), { throwaway: true });
try {
  await writePets('first.csv', 1);
  await writePets('second.csv', 2);
  await measure('migrate', ['migrate']);
  await measure('import into an empty store', ['import', 'first.csv']);
  await measure('import the same again', ['import', 'first.csv', '--missing', 'remove']);
  await measure('export csv', ['export'], 'export.csv');
  await measure('export ndjson', ['export', '--format', 'ndjson'], 'export.ndjson');
  await measure('export json', ['export', '--format', 'json'], 'export.json');
  await measure('import ndjson, dry run', ['import', 'export.ndjson', '--dry-run']);
  await measure('import json, dry run', ['import', 'export.json', '--dry-run']);
  await measure('import that changes every pet', ['import', 'second.csv']);
  await measure('verify the history', ['history', '--verify']);
  await measure('prune half of the history', ['history', 'prune', '--before', '1s']);
} finally {
  await server.stop();
  await rm(folder, { recursive: true, force: true });
}

/** Ids over the whole int64 range, in no order. */
async function writePets(name: string, seed: number): Promise<void> {
  const step = 2n ** 64n / BigInt(PETS);
  function* lines(): Generator<string> {
    yield 'petId,quantity,status\n';
    for (let at = 0; at < PETS; at += 1_000) {
      let text = '';
      for (let next = at; next < at + 1_000; next++) {
        const place = (next * 7_919) % PETS;
        const status = ['available', 'pending', 'sold'][place % 3] ?? '';
        text += `${BigInt(place) * step - 2n ** 63n},${(place * 31 + seed) % 2_147_483_647},${status}\n`;
      }
      yield text;
    }
  }
  await pipeline(lines, createWriteStream(join(folder, name)));
}

async function measure(what: string, args: string[], output?: string): Promise<void> {
  const file = output === undefined ? undefined : await open(join(folder, output), 'w');
  const startedAt = performance.now();
  const child = spawn(process.execPath, [command, ...args], {
    cwd: folder,
    env: { DATABASE_URL: server.url },
    stdio: ['ignore', file?.fd ?? 'ignore', 'pipe'],
  });
  let told = '';
  child.stderr?.on('data', (chunk: Buffer) => (told += chunk.toString()));
  const [mebibytes] = await Promise.all([mostMemory(child), once(child, 'close')]);
  await file?.close();
  const seconds = (performance.now() - startedAt) / 1000;
  const last = told.trim().split('\n').pop() ?? '';
  console.log(
    `${what.padEnd(32)} ${seconds.toFixed(2).padStart(6)} s  ${mebibytes.toFixed(0).padStart(4)} MiB  ${last}`,
  );
  if (child.exitCode !== 0) throw new Error(`${what} failed`);
}

/** The process's largest resident set, as Linux keeps it. */
async function mostMemory(child: ChildProcess): Promise<number> {
  let mebibytes = NaN;
  while (child.exitCode === null && child.signalCode === null) {
    try {
      const [, kibibytes] = /VmHWM:\s+(\d+)/.exec(readFileSync(`/proc/${child.pid}/status`, 'utf8')) ?? [];
      if (kibibytes !== undefined) mebibytes = Number(kibibytes) / 1024;
    } catch {
      // it has just ended, or this is not Linux
    }
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
  return mebibytes;
}

import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { parseArgs } from 'node:util';
import { buildIfStale } from '../../dev/build.ts';
import { areHere } from '../contract/tools.ts';
import { startFaultyPostgres } from '../../test/support/postgres-server.ts';
import { judge } from './judge.ts';
import { HISTORIES } from './scenarios/histories.ts';
import { LEFT_OUT_OF_MEDIUM, SCENARIOS } from './scenarios.ts';
import { SeededRandom } from '../../test/support/seeded-random.ts';
import { SIZES } from './size.ts';
import type { Figure } from './stage.ts';

const USAGE = `npm run faults -- [--medium | --judge] [--only name]... [--seed N] [--history FILE]

  --medium        less of everything, and each fault once: some two minutes
  --judge         short rounds with one fault each, whose histories Porcupine judges: some two minutes. Needs Go
  --only name     only this scenario; may be repeated
  --seed N        repeats the random choices of an earlier run
  --history FILE  writes each operation to this file, as a line of JSON. Porcupine draws a refused history beside it

Scenarios: ${Object.keys(SCENARIOS).join(', ')}
With --judge: ${Object.keys(HISTORIES).join(', ')}`;

const { values: options } = parseArgs({
  options: {
    medium: { type: 'boolean' },
    only: { type: 'string', multiple: true },
    judge: { type: 'boolean' },
    seed: { type: 'string' },
    history: { type: 'string' },
    help: { type: 'boolean', short: 'h' },
  },
});
const isForPorcupine = options.judge === true;
const scenarios = isForPorcupine ? HISTORIES : SCENARIOS;
const ALL = Object.keys(scenarios);
const leftOut = options.medium && !isForPorcupine ? LEFT_OUT_OF_MEDIUM : [];
const names = options.only ?? ALL.filter((name) => !leftOut.includes(name));
const seed = Number(options.seed ?? Math.floor(Math.random() * 2 ** 31));
const isUnderstood = names.every((name) => ALL.includes(name)) && Number.isInteger(seed);
if (options.help || !isUnderstood) {
  console.log(USAGE);
  process.exit(isUnderstood ? 0 : 2);
}

if (isForPorcupine && !(await areHere('go'))) process.exit(0);
const historyFile =
  options.history ?? (isForPorcupine ? join(mkdtempSync(join(tmpdir(), 'histories-')), 'histories.jsonl') : undefined);
if (historyFile !== undefined) writeFileSync(historyFile, '');

for (const signal of ['SIGINT', 'SIGTERM'] as const) process.on(signal, () => process.exit(130)); // the end of this process ends its children
buildIfStale();
console.log(`seed ${seed}`);
let postgres = await startFaultyPostgres();
const failed = new Set<string>();
for (const name of names) {
  const figures = await play(name);
  if (!passed(figures)) failed.add(name);
}
await postgres.remove();
if (isForPorcupine && historyFile !== undefined) {
  const { report, refused } = judge(historyFile);
  console.log(report);
  for (const name of refused) failed.add(name);
  if (options.history === undefined && failed.size === 0) rmSync(dirname(historyFile), { recursive: true });
}
console.log(`seed ${seed}, ${(performance.now() / 1_000).toFixed(0)} s`);
console.log(`${names.length - failed.size} passed, ${failed.size} failed`);
process.exit(failed.size > 0 ? 1 : 0);

/** Each scenario has its own random choices, so that it repeats the same alone. */
async function play(name: string): Promise<Figure[]> {
  const random = new SeededRandom(seed + ALL.indexOf(name));
  const size = options.medium || isForPorcupine ? SIZES.medium : SIZES.full;
  const notes: string[] = [];
  const startedAt = performance.now();
  let figures: Figure[] = [];
  try {
    const note = (line: string) => notes.push(line);
    figures = (await scenarios[name]?.({ name, postgres, random, size, historyFile, isForPorcupine, note })) ?? [];
  } catch (error) {
    notes.push(error instanceof Error ? (error.stack ?? error.message) : String(error));
    figures = [{ what: 'ran to its end', measured: 'no', bound: 'yes', isKept: false }];
    await postgres.remove(); // its state is unknown
    postgres = await startFaultyPostgres();
  }
  console.log(
    `${passed(figures) ? 'passed' : 'FAILED'} ${name} (${((performance.now() - startedAt) / 1_000).toFixed(1)} s)`,
  );
  for (const note of notes) console.log(`    ${note}`);
  for (const { what, measured, bound, isKept } of figures) {
    console.log(`  ${isKept ? ' ' : '!'} ${what}: ${measured} (${bound})`);
  }
  return figures;
}

function passed(figures: readonly Figure[]): boolean {
  return figures.length > 0 && figures.every(({ isKept }) => isKept);
}

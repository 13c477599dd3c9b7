import { parseArgs } from 'node:util';
import { buildIfStale } from '../dev/build.ts';
import { startFaultyPostgres } from '../test/support/postgres-server.ts';
import { LEFT_OUT_OF_MEDIUM, SCENARIOS } from './scenarios.ts';
import { SeededRandom } from './seeded-random.ts';
import { SIZES } from './size.ts';
import type { Figure } from './stage.ts';

const ALL = Object.keys(SCENARIOS);
const USAGE = `npm run faults -- [--medium] [--only name]... [--seed N]

  --medium      less of everything, and each fault once: some two minutes
  --only name   only this scenario; may be repeated
  --seed N      repeats the random choices of an earlier run

Scenarios: ${ALL.join(', ')}`;

const { values: options } = parseArgs({
  options: {
    medium: { type: 'boolean' },
    only: { type: 'string', multiple: true },
    seed: { type: 'string' },
    help: { type: 'boolean', short: 'h' },
  },
});
const names = options.only ?? ALL.filter((name) => !options.medium || !LEFT_OUT_OF_MEDIUM.includes(name));
const seed = Number(options.seed ?? Math.floor(Math.random() * 2 ** 31));
const isUnderstood = names.every((name) => ALL.includes(name)) && Number.isInteger(seed);
if (options.help || !isUnderstood) {
  console.log(USAGE);
  process.exit(isUnderstood ? 0 : 2);
}

for (const signal of ['SIGINT', 'SIGTERM'] as const) process.on(signal, () => process.exit(130)); // the end of this process ends its children
buildIfStale();
console.log(`seed ${seed}`);
let postgres = await startFaultyPostgres();
let failed = 0;
for (const name of names) {
  const figures = await play(name);
  if (!passed(figures)) failed++;
}
await postgres.remove();
console.log(`seed ${seed}, ${(performance.now() / 1_000).toFixed(0)} s`);
console.log(`${names.length - failed} passed, ${failed} failed`);
process.exit(failed > 0 ? 1 : 0);

/** Each scenario has its own random choices, so that it repeats the same alone. */
async function play(name: string): Promise<Figure[]> {
  const random = new SeededRandom(seed + ALL.indexOf(name));
  const size = options.medium ? SIZES.medium : SIZES.full;
  const notes: string[] = [];
  const startedAt = performance.now();
  let figures: Figure[] = [];
  try {
    figures = (await SCENARIOS[name]?.({ postgres, random, size, note: (line) => notes.push(line) })) ?? [];
  } catch (error) {
    notes.push(error instanceof Error ? (error.stack ?? error.message) : String(error));
    figures = [{ what: 'ran to its end', measured: 'no', bound: 'yes', holds: false }];
    await postgres.remove(); // its state is unknown
    postgres = await startFaultyPostgres();
  }
  console.log(
    `${passed(figures) ? 'passed' : 'FAILED'} ${name} (${((performance.now() - startedAt) / 1_000).toFixed(1)} s)`,
  );
  for (const note of notes) console.log(`    ${note}`);
  for (const { what, measured, bound, holds } of figures) {
    console.log(`  ${holds ? ' ' : '!'} ${what}: ${measured} (${bound})`);
  }
  return figures;
}

function passed(figures: readonly Figure[]): boolean {
  return figures.length > 0 && figures.every(({ holds }) => holds);
}

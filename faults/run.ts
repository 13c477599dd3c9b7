import { parseArgs } from 'node:util';
import { buildIfStale } from '../dev/build.ts';
import { startFaultyPostgres, type FaultyPostgres } from '../test/support/postgres-server.ts';
import { LEFT_OUT_OF_MEDIUM, SCENARIOS } from './scenarios.ts';
import { SeededRandom } from './seeded-random.ts';
import { SIZES, type Size } from './size.ts';
import type { Figure } from './stage.ts';

const USAGE = `npm run faults -- [--seed N] [--only name]... [--medium | --full] [--minutes M] [--updates N] [--list]

  --seed N      the chance of an earlier run
  --only name   this scenario; may be repeated
  --medium      less of everything, and not what takes long by itself: under four minutes
  --full        a million operations, thirty interruptions, ten minutes of soak
  --minutes M   how long the soak takes
  --updates N   how many updates meet damaged TLS, or are repeated until they are answered
  --list        the names of the scenarios`;

const { values: options } = parseArgs({
  options: {
    seed: { type: 'string' },
    only: { type: 'string', multiple: true },
    medium: { type: 'boolean' },
    full: { type: 'boolean' },
    minutes: { type: 'string' },
    updates: { type: 'string' },
    list: { type: 'boolean' },
    help: { type: 'boolean', short: 'h' },
  },
});

for (const signal of ['SIGINT', 'SIGTERM'] as const) process.on(signal, () => process.exit(130)); // takes its processes along

if (options.help) console.log(USAGE);
else if (options.list) console.log(Object.keys(SCENARIOS).join('\n'));
else process.exit(await run());

async function run(): Promise<number> {
  const all = Object.keys(SCENARIOS);
  const names = options.only ?? all.filter((name) => !options.medium || !LEFT_OUT_OF_MEDIUM.includes(name));
  const seed = options.seed === undefined ? Math.floor(Math.random() * 2 ** 31) : Number(options.seed);
  const chosen: Size = options.full ? SIZES.full : options.medium ? SIZES.medium : SIZES.normal;
  const size: Size = {
    ...chosen,
    ...(options.minutes !== undefined && { soakMs: Number(options.minutes) * 60_000 }),
    ...(options.updates !== undefined && {
      damagedUpdates: Number(options.updates),
      repeatedUpdates: Number(options.updates),
    }),
  };
  const unknown = names.filter((name) => !(name in SCENARIOS));
  if (unknown.length > 0 || !Number.isInteger(seed) || Number.isNaN(size.soakMs + size.damagedUpdates)) {
    console.error(`${unknown.length > 0 ? `no scenario ${unknown.join(', ')}\n\n` : ''}${USAGE}`);
    return 2;
  }
  buildIfStale();
  console.log(`seed ${seed}`);
  const startedAt = performance.now();
  const results: { name: string; figures: Figure[] }[] = [];
  let postgres = await startFaultyPostgres();
  for (const name of names) {
    let { figures, ended } = await play(name, seed, size, postgres);
    if (ended && missesOnlyTimeOrMemory(figures)) {
      console.log('    once more: time and memory also depend on what else the machine does');
      ({ figures, ended } = await play(name, seed, size, postgres));
    }
    results.push({ name, figures });
    if (ended) continue;
    await postgres.remove(); // who knows what state it was left in
    postgres = await startFaultyPostgres();
  }
  await postgres.remove();
  console.table(results.flatMap(({ name, figures }) => figures.map((figure) => ({ scenario: name, ...figure }))));
  const failed = results.filter(({ figures }) => !figures.every(({ holds }) => holds)).length;
  console.log(`seed ${seed}, ${((performance.now() - startedAt) / 1_000).toFixed(0)} s`);
  const leftOut = results.filter(({ figures }) => figures.length === 0).length;
  console.log(
    `${results.length - failed - leftOut} passed, ${failed} failed${leftOut > 0 ? `, ${leftOut} left out` : ''}`,
  );
  if (leftOut > 0 && process.env['FAULTS_NEED_ROOT']) return 1;
  return failed > 0 ? 1 : 0;
}

function missesOnlyTimeOrMemory(figures: readonly Figure[]): boolean {
  const missed = figures.filter(({ holds }) => !holds);
  return missed.length > 0 && missed.every(({ bound }) => / (ms|MB|×)$/.test(bound));
}

/** Each scenario has a chance of its own, so that it repeats alone as it went among others. */
async function play(
  name: string,
  seed: number,
  size: Size,
  postgres: FaultyPostgres,
): Promise<{ figures: Figure[]; ended: boolean }> {
  const scenario = SCENARIOS[name];
  if (!scenario) throw new RangeError(name);
  const random = new SeededRandom(seed + Object.keys(SCENARIOS).indexOf(name));
  const notes: string[] = [];
  const startedAt = performance.now();
  let figures: Figure[] = [{ what: 'ran to its end', measured: 'no', bound: 'yes', holds: false }];
  let ended = false;
  try {
    figures = await scenario({ postgres, random, size, note: (line) => notes.push(line) });
    ended = true;
  } catch (error) {
    notes.push(error instanceof Error ? (error.stack ?? error.message) : String(error));
  }
  const verdict = figures.length === 0 ? 'LEFT OUT' : figures.every(({ holds }) => holds) ? 'passed' : 'FAILED';
  console.log(`${verdict} ${name} (${((performance.now() - startedAt) / 1_000).toFixed(1)} s)`);
  for (const note of notes) console.log(`    ${note}`);
  return { figures, ended };
}

import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { buildIfStale } from './faults/build.ts';
import { SCENARIOS } from './faults/scenarios.ts';
import { SeededRandom } from './faults/seeded-random.ts';
import { SIZES } from './faults/size.ts';
import { startFaultyPostgres, type FaultyPostgres } from './support/postgres-server.ts';

/** The short form of `npm run test:faults`; a seed given here repeats a run. */
const SEED = Number(process.env['FAULTS_SEED'] ?? Math.floor(Math.random() * 2 ** 31));

describe(`two services under fault (FAULTS_SEED=${SEED})`, { timeout: 60_000 }, () => {
  let postgres: FaultyPostgres;

  beforeAll(async () => {
    buildIfStale();
    postgres = await startFaultyPostgres();
  }, 60_000);

  afterAll(() => postgres.remove());

  it.each(['control-stale-list', 'faults-in-a-row', 'sigterm'])('%s', async (name) => {
    const notes: string[] = [];
    const world = {
      postgres,
      random: new SeededRandom(SEED),
      size: SIZES.short,
      note: (line: string) => notes.push(line),
    };
    const figures = await SCENARIOS[name]?.(world);
    expect(figures).not.toHaveLength(0);
    expect(
      figures?.filter(({ holds }) => !holds),
      notes.join('\n'),
    ).toEqual([]);
  });
});

import { beforeAll, describe, expect, it } from 'vitest';
import { startFaultyPostgres, type FaultyPostgres } from '../test/support/postgres-server.ts';
import { SCENARIOS } from './scenarios.ts';
import { SeededRandom } from './seeded-random.ts';
import { SIZES } from './size.ts';

/** A short form of `npm run faults`. FAULTS_SEED repeats a run. */
const SEED = Number(process.env['FAULTS_SEED'] ?? Math.floor(Math.random() * 2 ** 31));

describe(`two services under fault, FAULTS_SEED=${SEED},`, { timeout: 60_000 }, () => {
  let postgres: FaultyPostgres;

  beforeAll(async () => {
    postgres = await startFaultyPostgres();
  }, 60_000);

  // `npm run faults -- --medium`, which .ci/run runs, has the other scenarios and the controls.
  it.each([
    ['keep every promise through each fault', 'every-fault'],
    ['answer hostile pipelines in order, without a leak', 'hostile-pipelines'],
  ])('%s', async (_, name) => {
    const notes: string[] = [];
    const random = new SeededRandom(SEED);
    const figures = await SCENARIOS[name]?.({
      postgres,
      random,
      size: SIZES.short,
      note: (line) => notes.push(line),
    });
    expect(
      figures?.filter(({ holds }) => !holds),
      notes.join('\n'),
    ).toEqual([]);
  });
});

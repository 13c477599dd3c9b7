import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { damagedTls, readByCodeControl } from './scenarios/damage.ts';
import { sigterm } from './scenarios/drain.ts';
import { hostilePipelines, parallelPipelinesControl } from './scenarios/pipelines.ts';
import { repeatedUpdates } from './scenarios/repetition.ts';
import { faultsInARow } from './scenarios/soak.ts';
import { staleListControl } from './scenarios/truth.ts';
import { SeededRandom } from './seeded-random.ts';
import { SIZES } from './size.ts';
import { startFaultyPostgres, type FaultyPostgres } from '../test/support/postgres-server.ts';

/** The short form of `npm run faults`; a seed given here repeats a run. */
const SEED = Number(process.env['FAULTS_SEED'] ?? Math.floor(Math.random() * 2 ** 31));

describe(`two services under fault (FAULTS_SEED=${SEED})`, { timeout: 60_000 }, () => {
  let postgres: FaultyPostgres;

  beforeAll(async () => {
    postgres = await startFaultyPostgres();
  }, 60_000);

  afterAll(() => postgres.remove());

  it.each([
    ['finds a list that is out of date', staleListControl],
    ['keep every promise through one fault after the other', faultsInARow],
    ['lose no request to SIGTERM', sigterm],
    ['answer hostile pipelines in order, and keep nothing of them', hostilePipelines],
    ['finds requests of one connection served beside each other', parallelPipelinesControl],
    ['tell what became of each update when TLS is damaged', damagedTls],
    ['finds a service that reads errors by their code', readByCodeControl],
    ['write once what is repeated until it is answered', repeatedUpdates],
  ])('%s', async (_, scenario) => {
    const notes: string[] = [];
    const random = new SeededRandom(SEED);
    const figures = await scenario({ postgres, random, size: SIZES.short, note: (line) => notes.push(line) });
    expect(
      figures.filter(({ holds }) => !holds),
      notes.join('\n'),
    ).toEqual([]);
  });
});

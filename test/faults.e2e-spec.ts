import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { buildIfStale } from './faults/build.ts';
import { damagedTls, readByCodeControl } from './faults/scenarios/damage.ts';
import { sigterm } from './faults/scenarios/drain.ts';
import { hostilePipelines, parallelPipelinesControl } from './faults/scenarios/pipelines.ts';
import { repeatedUpdates } from './faults/scenarios/repetition.ts';
import { faultsInARow } from './faults/scenarios/soak.ts';
import { staleListControl } from './faults/scenarios/truth.ts';
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

import { startDatabase, type BenchDatabase } from './database.ts';
import { measure, WARM_UP_SECONDS, type Measurement } from './measure.ts';
import { bestClientCount, runPgbench } from './pgbench.ts';
import type { Turn } from './plan.ts';
import { disqualifications, faultInList } from './qualify.ts';
import type { Results, ScenarioResults } from './results.ts';
import type { Scenario } from './scenarios.ts';
import { labelOf, startSide, type Side, type SideName } from './sides.ts';

export type Measured = Pick<Results, 'postgresVersion' | 'pgbenchClients' | 'scenarios' | 'disqualified'>;
type Measurements = AsyncGenerator<readonly [Scenario, Measurement]>;

/**
 * Each round has a PostgreSQL server of its own, each turn a fresh process. A program that fails is out of what is left of
 * the turn, and one that breaks a promise is not measured at all.
 *
 * @param keep gets all that has been measured, after every turn
 */
export async function benchmark(turns: readonly Turn[], keep: (measured: Measured) => Promise<void>): Promise<void> {
  const results = new Map<Scenario, ScenarioResults>();
  for (const scenario of turns.flatMap(({ scenarios }) => scenarios)) results.set(scenario, { scenario, rounds: [] });
  const disqualified = await disqualifications(new Set(turns.map(({ contender }) => contender)));
  const measured: Measured = { postgresVersion: '', scenarios: [...results.values()], disqualified };

  await keep(measured);
  let begun = 0;
  for (const ofRound of Map.groupBy(turns, ({ round }) => round).values()) {
    await using database = await startDatabase();
    measured.postgresVersion = database.version;
    for (const { contender, round, scenarios } of ofRound) {
      if (disqualified.some((each) => each.contender === contender && each.scenario === 'all')) continue;
      const left = new Set(scenarios);
      const names = [...left].map(({ name }) => name).join(', ');
      console.log(`[${++begun}/${turns.length}] round ${round + 1}, ${labelOf(contender)}: ${names}`);
      try {
        const measurements =
          contender === 'pgbench' ? limits(left, database, measured) : measureSide(contender, left, round, database);
        for await (const [scenario, measurement] of measurements) {
          results.get(scenario)?.rounds.push({ contender, round, ...measurement });
          left.delete(scenario);
        }
      } catch (error) {
        const reason = (error as Error).message;
        console.error(`${labelOf(contender)} failed: ${reason}`);
        for (const { name } of left) disqualified.push({ contender, scenario: name, reason });
      }
      await keep(measured);
    }
  }
}

async function* measureSide(
  name: SideName,
  scenarios: Iterable<Scenario>,
  round: number,
  database: BenchDatabase,
): Measurements {
  const [{ pets, kind } = { pets: 0, kind: 'list' }] = scenarios;
  const environment = {
    DATABASE_URL: database.url,
    BODY_BYTES: String((await database.fill(pets)).bytes),
    ...(kind === 'unchanged' ? { PEER_ETAG: '1' } : {}),
  };
  await using side = await startSide(name, environment);
  for (const scenario of scenarios) {
    const expected = await database.fill(pets);
    const fault = round === 0 && name !== 'bare' ? await faultInList(side, expected) : undefined;
    if (fault) throw new Error(fault);
    yield [scenario, await measureHere(side, scenario, database)];
  }
}

function measureHere(side: Side, scenario: Scenario, database: BenchDatabase): Promise<Measurement> {
  const onlyReads =
    ['list', 'unchanged'].includes(scenario.kind) && scenario.updatesPerSecond + scenario.petsPerSecond === 0;
  if (!onlyReads) database.expectWrites();
  return measure(side, scenario, database, side);
}

async function* limits(scenarios: Iterable<Scenario>, database: BenchDatabase, measured: Measured): Measurements {
  for (const scenario of scenarios) {
    const { pets, seconds } = scenario;
    await database.fill(pets);
    database.expectWrites();
    measured.pgbenchClients ??= await bestClientCount(database, pets);
    await runPgbench(database, pets, measured.pgbenchClients, WARM_UP_SECONDS.first);
    yield [scenario, await runPgbench(database, pets, measured.pgbenchClients, seconds)];
  }
}

import { startDatabase, type BenchDatabase } from './database.ts';
import { measure, type Measurement } from './measure.ts';
import type { Turn } from './plan.ts';
import { disqualifications, faultInList } from './qualify.ts';
import type { Results, ScenarioResults } from './results.ts';
import type { Scenario } from './scenarios.ts';
import { labelOf, startSide, storeOf, type SideName } from './sides.ts';

export type Measured = Pick<Results, 'postgresVersion' | 'scenarios' | 'disqualified'>;
type Measurements = AsyncGenerator<readonly [Scenario, Measurement]>;

/**
 * Each round has a PostgreSQL server of its own, each turn a fresh process. A program that fails is out of what is left of
 * the turn, and one that breaks a promise is not measured at all.
 *
 * @param keep gets all that has been measured, after every turn
 * @param minutes says how many have passed, for the line that tells of a turn
 */
export async function benchmark(
  turns: readonly Turn[],
  keep: (measured: Measured) => Promise<void>,
  minutes: () => string,
): Promise<void> {
  const results = new Map<Scenario, ScenarioResults>();
  for (const scenario of turns.flatMap(({ scenarios }) => scenarios)) results.set(scenario, { scenario, rounds: [] });
  const disqualified = await disqualifications(new Set(turns.map(({ side }) => side)));
  const measured: Measured = { postgresVersion: '', scenarios: [...results.values()], disqualified };

  await keep(measured);
  let begun = 0;
  for (const ofRound of Map.groupBy(turns, ({ round }) => round).values()) {
    await using database = await startDatabase();
    measured.postgresVersion = database.version;
    for (const { side, round, scenarios } of ofRound) {
      if (disqualified.some((each) => each.side === side && each.scenario === 'all')) continue;
      const left = new Set(scenarios);
      const names = [...left].map(({ name }) => name).join(', ');
      console.log(`[${++begun}/${turns.length}, ${minutes()}] round ${round + 1}, ${labelOf(side)}: ${names}`);
      try {
        for await (const [scenario, measurement] of measureSide(side, left, round, database)) {
          results.get(scenario)?.rounds.push({ side, round, ...measurement });
          left.delete(scenario);
        }
      } catch (error) {
        const reason = (error as Error).message;
        console.error(`${labelOf(side)} failed: ${reason}`);
        for (const { name } of left) disqualified.push({ side, scenario: name, reason });
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
  const [{ pets } = { pets: 0 }] = scenarios;
  const store = storeOf(name, database);
  await store.fill(pets);
  await using side = await startSide(name, { DATABASE_URL: store.url });
  for (const scenario of scenarios) {
    const expected = await store.fill(pets);
    const fault = round === 0 ? await faultInList(side, expected) : undefined;
    if (fault) {
      store.expectWrites();
      throw new Error(fault);
    }
    const onlyReads = ['list', 'unchanged'].includes(scenario.kind) && scenario.updatesPerSecond === 0;
    if (!onlyReads) store.expectWrites();
    yield [scenario, await measure(side, scenario, store, database)];
  }
}

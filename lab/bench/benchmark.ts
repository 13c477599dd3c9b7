import { startDatabase, type BenchDatabase } from './database.ts';
import { measure, type Measurement } from './measure.ts';
import type { Turn } from './plan.ts';
import { faultInList, qualify } from './qualify.ts';
import { SIDES, type Scenario, type SideName } from './scenarios.ts';
import { startSide, storeOf } from './sides.ts';

export interface ScenarioResults {
  scenario: Scenario;
  rounds: (Measurement & { side: SideName; round: number })[];
}

type Measurements = AsyncGenerator<readonly [Scenario, Measurement]>;

/** Each round has a PostgreSQL server of its own, each turn a fresh process. */
export async function benchmark(turns: readonly Turn[]): Promise<ScenarioResults[]> {
  const results = new Map<Scenario, ScenarioResults>();
  for (const scenario of turns.flatMap(({ scenarios }) => scenarios)) results.set(scenario, { scenario, rounds: [] });
  await qualify(new Set(turns.map(({ side }) => side)));
  let begun = 0;
  for (const ofRound of Map.groupBy(turns, ({ round }) => round).values()) {
    await using database = await startDatabase();
    for (const { side, round, scenarios } of ofRound) {
      const names = scenarios.map(({ name }) => name).join(', ');
      console.error(`[${++begun}/${turns.length}] round ${round + 1}, ${SIDES[side]}: ${names}`);
      for await (const [scenario, measurement] of measureSide(side, scenarios, round, database)) {
        results.get(scenario)?.rounds.push({ side, round, ...measurement });
      }
    }
  }
  return [...results.values()];
}

async function* measureSide(
  name: SideName,
  scenarios: readonly Scenario[],
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
    if (fault) throw new Error(fault);
    const onlyReads = ['list', 'unchanged'].includes(scenario.kind) && scenario.updatesPerSecond === 0;
    if (!onlyReads) store.expectWrites();
    yield [scenario, await measure(side, scenario, store, database)];
  }
}

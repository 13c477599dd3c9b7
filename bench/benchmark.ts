import { startDatabase, type BenchDatabase, type ExpectedList } from './database.ts';
import { measure, type Run } from './measure.ts';
import { bestClientCount, findPgbench, runPgbench } from './pgbench.ts';
import { expectedSeconds, type PlannedRun } from './plan.ts';
import { Progress } from './progress.ts';
import { brokenPromise, faultInList } from './qualify.ts';
import type { Results, Round, ScenarioResults } from './results.ts';
import type { Contender, Scenario } from './scenarios.ts';
import { sides, startSide, type RunningSide, type Side } from './sides.ts';

export function labelOf(contender: Contender): string {
  return contender === 'pgbench' ? 'pgbench' : sides[contender].label;
}

/** Runs one after the other, each with a fresh process on a freshly filled database; each round has a database server of its own. */
export class Benchmark {
  #database: BenchDatabase;
  #round = 0;
  readonly #pgbench = findPgbench();
  readonly #scenarios = new Map<string, ScenarioResults>();
  readonly #disqualified: Results['disqualified'] = [];
  readonly #qualified = new Set<Contender>();
  #pgbenchClients: number | undefined;
  /** The store that is in the database untouched, if any. */
  #store: { pets: number; expected: ExpectedList } | undefined;

  private constructor(database: BenchDatabase) {
    this.#database = database;
  }

  static async run(runs: readonly PlannedRun[]): Promise<Omit<Results, 'machine' | 'startedAt' | 'minutes'>> {
    const benchmark = new Benchmark(await startDatabase());
    const progress = new Progress(runs.map(expectedSeconds));
    try {
      for (const run of runs) {
        progress.next(
          `${run.scenario.title} · round ${run.round + 1} of ${run.scenario.rounds} · ${labelOf(run.contender)}`,
        );
        await benchmark.#enterRound(run.round);
        await benchmark.#attempt(run);
      }
      return {
        postgresVersion: benchmark.#database.version,
        ...(benchmark.#pgbenchClients === undefined ? {} : { pgbenchClients: benchmark.#pgbenchClients }),
        scenarios: [...benchmark.#scenarios.values()],
        disqualified: benchmark.#disqualified,
      };
    } finally {
      progress.end();
      await benchmark.#database.stop();
    }
  }

  async #enterRound(round: number): Promise<void> {
    if (round === this.#round) return;
    await this.#database.stop();
    this.#database = await startDatabase();
    this.#round = round;
    this.#store = undefined;
  }

  /** Whoever fails is out of the scenario, says why, and the benchmark goes on. */
  async #attempt(run: PlannedRun): Promise<void> {
    const { scenario, contender, round } = run;
    if (this.#disqualified.some((out) => out.contender === contender && [scenario.name, 'all'].includes(out.scenario)))
      return;
    try {
      const measured = contender === 'pgbench' ? await this.#limit(scenario) : await this.#side(sides[contender], run);
      this.#scenarios.get(scenario.name)?.rounds.push({ contender, round, ...measured });
    } catch (error) {
      const reason = (error as Error).message;
      const scope = error instanceof BrokenPromise ? 'all' : scenario.name;
      this.#disqualified.push({ contender, scenario: scope, reason });
      console.error(`\n${labelOf(contender)} is disqualified (${scope}): ${reason}`);
    }
  }

  async #limit(scenario: Scenario): Promise<Omit<Round, 'contender' | 'round'>> {
    if (!this.#pgbench) throw new Error('pgbench is not installed');
    await this.#fill(scenario);
    this.#store = undefined;
    this.#pgbenchClients ??= await bestClientCount(this.#pgbench, this.#database, scenario.pets);
    return runPgbench(this.#pgbench, this.#database, scenario.pets, this.#pgbenchClients, scenario.seconds);
  }

  async #side(side: Side, { scenario, round }: PlannedRun): Promise<Omit<Round, 'contender' | 'round'>> {
    if (!this.#qualified.has(side.name) && side.name !== 'bare') await this.#qualify(side);
    const expected = await this.#fill(scenario);
    const environment = {
      BODY_BYTES: String(expected.bytes),
      ...(scenario.kind === 'unchanged' ? { PEER_ETAG: '1' } : {}),
    };
    return this.#running(side, environment, async (running) => {
      const fault = round === 0 && side.name !== 'bare' ? await faultInList(running, expected) : undefined;
      if (fault) throw new Error(fault);
      if (scenario.elsewhere) return measureElsewhere(running, scenario, this.#database);
      if (scenario.kind !== 'list' || scenario.updatesPerSecond > 0) this.#store = undefined;
      return measure(running, scenario, this.#database, running);
    });
  }

  async #qualify(side: Side): Promise<void> {
    await this.#database.fill(10);
    this.#store = undefined;
    const broken = await this.#running(side, {}, (running) => brokenPromise(running, this.#database));
    if (broken) throw new BrokenPromise(broken);
    this.#qualified.add(side.name);
  }

  async #running<T>(
    side: Side,
    environment: Record<string, string>,
    use: (running: RunningSide) => Promise<T>,
  ): Promise<T> {
    const running = await startSide(side, { DATABASE_URL: this.#database.url, ...environment });
    try {
      return await use(running);
    } finally {
      await running.stop();
    }
  }

  async #fill(scenario: Scenario): Promise<ExpectedList> {
    if (this.#store?.pets !== scenario.pets) {
      await this.#database.fill(scenario.pets);
      this.#store = { pets: scenario.pets, expected: await this.#database.expectedList() };
    }
    const { expected } = this.#store;
    const results = this.#scenarios.get(scenario.name) ?? { scenario, rounds: [], listBytes: expected.bytes };
    this.#scenarios.set(scenario.name, results);
    return expected;
  }
}

/** The updates go to another instance of the service on another PostgreSQL server. */
async function measureElsewhere(running: RunningSide, scenario: Scenario, database: BenchDatabase): Promise<Run> {
  const elsewhere = await startDatabase();
  try {
    await elsewhere.fill(scenario.pets);
    const writtenTo = await startSide(sides.service, { DATABASE_URL: elsewhere.url });
    try {
      return await measure(running, scenario, database, writtenTo);
    } finally {
      await writtenTo.stop();
    }
  } finally {
    await elsewhere.stop();
  }
}

/** A promise that a side does not keep anywhere. */
class BrokenPromise extends Error {}

import { SingleBar } from 'cli-progress';
import { startDatabase, type BenchDatabase, type ExpectedList } from './database.ts';
import { measure, type Run } from './measure.ts';
import { bestClientCount, findPgbench, runPgbench } from './pgbench.ts';
import type { PlannedRun } from './plan.ts';
import { brokenPromise, faultInList } from './qualify.ts';
import type { Results, Round, ScenarioResults } from './results.ts';
import type { Contender, Scenario } from './scenarios.ts';
import { labelOf, running, type RunningSide, type SideName } from './sides.ts';

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
    const format = '[{value}/{total}] {what} · {eta_formatted} left';
    const progress = new SingleBar({ format, fps: 1, noTTYOutput: true, notTTYSchedule: 60_000 });
    progress.start(runs.length, 0, { what: '' });
    try {
      for (const run of runs) {
        const { title, rounds } = run.scenario;
        progress.increment({ what: `${title} · round ${run.round + 1} of ${rounds} · ${labelOf(run.contender)}` });
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
      progress.stop();
      await benchmark.#database[Symbol.asyncDispose]();
    }
  }

  async #enterRound(round: number): Promise<void> {
    if (round === this.#round) return;
    await this.#database[Symbol.asyncDispose]();
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
      const measured = contender === 'pgbench' ? await this.#limit(scenario) : await this.#side(contender, run);
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

  async #side(side: SideName, { scenario, round }: PlannedRun): Promise<Omit<Round, 'contender' | 'round'>> {
    if (!this.#qualified.has(side) && side !== 'bare') await this.#qualify(side);
    const expected = await this.#fill(scenario);
    const environment = {
      DATABASE_URL: this.#database.url,
      BODY_BYTES: String(expected.bytes),
      ...(scenario.kind === 'unchanged' ? { PEER_ETAG: '1' } : {}),
    };
    return running(side, environment, async (started) => {
      const fault = round === 0 && side !== 'bare' ? await faultInList(started, expected) : undefined;
      if (fault) throw new Error(fault);
      if (scenario.elsewhere) return measureElsewhere(started, scenario, this.#database);
      if (scenario.kind !== 'list' || scenario.updatesPerSecond > 0) this.#store = undefined;
      return measure(started, scenario, this.#database, started);
    });
  }

  async #qualify(side: SideName): Promise<void> {
    await this.#database.fill(10);
    this.#store = undefined;
    const broken = await running(side, { DATABASE_URL: this.#database.url }, (started) =>
      brokenPromise(started, this.#database),
    );
    if (broken) throw new BrokenPromise(broken);
    this.#qualified.add(side);
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
async function measureElsewhere(side: RunningSide, scenario: Scenario, database: BenchDatabase): Promise<Run> {
  await using elsewhere = await startDatabase();
  await elsewhere.fill(scenario.pets);
  return await running('service', { DATABASE_URL: elsewhere.url }, (writtenTo) =>
    measure(side, scenario, database, writtenTo),
  );
}

/** A promise that a side does not keep anywhere. */
class BrokenPromise extends Error {}

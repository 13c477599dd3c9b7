import { readFile } from 'node:fs/promises';
import type { Machine } from './machine.ts';
import type { Measurement, WARM_UP_SECONDS } from './measure.ts';
import type { WholeReading } from './whole-reading.ts';
import { scenarios, type Scenario } from './scenarios.ts';
import type { SideName } from './sides.ts';

export interface Round extends Measurement {
  side: SideName;
  round: number;
}

export interface ScenarioResults {
  /** As it was when it was measured, with its goals. */
  scenario: Scenario;
  rounds: Round[];
}

/** What one call of the benchmark found; written to results/full.json as it is, with null for figures that do not apply. */
export interface Results {
  machine: Machine;
  startedAt: string;
  minutes: number;
  warmUpSeconds: typeof WARM_UP_SECONDS;
  postgresVersion: string;
  scenarios: ScenarioResults[];
  wholeReading?: WholeReading | undefined;
}

export function resultsText(results: Results): string {
  const toFourDigits = (_name: string, value: unknown): unknown =>
    typeof value === 'number' && !Number.isInteger(value) ? Number(value.toPrecision(4)) : value;
  return `${JSON.stringify(results, toFourDigits)}\n`;
}

export async function readResults(file: URL | string): Promise<Results> {
  // JSON has no NaN, which stands for what was not measured.
  return JSON.parse(await readFile(file, 'utf8'), (_name, value: unknown) => value ?? NaN) as Results;
}

/** Goals with the reasons that are known now. A goal itself stays as it was when the run began. */
export function withPresentReasons(results: Results): Results {
  return {
    ...results,
    scenarios: results.scenarios.map(({ scenario, rounds }) => {
      const present = scenarios.find(({ name }) => name === scenario.name)?.goals ?? [];
      const goals = scenario.goals.map((goal) => {
        const same = present.find(({ figure, against }) => figure === goal.figure && against === goal.against);
        return { ...goal, why: same?.why };
      });
      return { scenario: { ...scenario, goals }, rounds };
    }),
  };
}

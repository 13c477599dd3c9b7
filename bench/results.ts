import type { Machine } from './machine.ts';
import type { Measurement, WARM_UP_SECONDS } from './measure.ts';
import type { OperatorFigures, WholeReading } from './operators.ts';
import type { Pooled } from './pooled.ts';
import type { Scenario } from './scenarios.ts';
import type { SideName } from './sides.ts';

export interface Round extends Measurement {
  side: SideName;
  round: number;
}

export interface ScenarioResults {
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
  operators?: OperatorFigures[] | undefined;
  wholeReading?: WholeReading | undefined;
  pooled?: Pooled[] | undefined;
  /** Who was not measured in which scenario, in one round at least, and why. */
  disqualified: { side: SideName; scenario: string; reason: string }[];
}

import type { Machine } from './machine.ts';
import type { Measurement, WARM_UP_SECONDS } from './measure.ts';
import type { OperatorFigures, WholeReading } from './operators.ts';
import type { Pooled } from './pooled.ts';
import type { Contender, Scenario } from './scenarios.ts';

export interface Round extends Measurement {
  contender: Contender;
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
  pgbenchClients?: number;
  scenarios: ScenarioResults[];
  operators?: OperatorFigures[] | undefined;
  wholeReading?: WholeReading | undefined;
  pooled?: Pooled[] | undefined;
  /** Who was not measured in which scenario, in one round at least, and why. */
  disqualified: { contender: Contender; scenario: string; reason: string }[];
}

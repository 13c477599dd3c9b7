import type { Machine } from './machine.ts';
import type { Measurement } from './measure.ts';
import type { OperatorFigures, WholeReading } from './operators.ts';
import type { Contender, Scenario } from './scenarios.ts';

export interface Round extends Measurement {
  contender: Contender;
  round: number;
  fault?: string | undefined;
}

export interface ScenarioResults {
  scenario: Scenario;
  rounds: Round[];
  /** Size of the list, in bytes. */
  listBytes: number;
}

/** What one call of the benchmark found; written to results/full.json as it is, with null for figures that do not apply. */
export interface Results {
  machine: Machine;
  startedAt: string;
  minutes: number;
  postgresVersion: string;
  pgbenchClients?: number;
  scenarios: ScenarioResults[];
  operators?: OperatorFigures[];
  wholeReading?: WholeReading;
  /** Who was not measured in which scenario, and why. */
  disqualified: { contender: Contender; scenario: string; reason: string }[];
}

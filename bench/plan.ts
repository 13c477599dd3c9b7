import type { Contender, Scenario } from './scenarios.ts';

export interface PlannedRun {
  scenario: Scenario;
  contender: Contender;
  round: number;
}

/**
 * Round 1 of all scenarios, then round 2 of all, and so on, so that a scenario's rounds lie far apart in time. Every second
 * round runs backwards: what drifts, a warming machine or a filling disk, falls on all alike.
 */
export function planRuns(chosen: readonly Scenario[], quick: boolean): PlannedRun[] {
  const scenarios = chosen.map((scenario) => (quick ? { ...scenario, rounds: 2, seconds: 2, others: [] } : scenario));
  const rounds = Math.max(0, ...scenarios.map((scenario) => scenario.rounds));
  return Array.from({ length: rounds }, (_, round) => {
    const due = scenarios.filter((scenario) => scenario.rounds > round);
    const runs = [...groupByBase(due).values()].flatMap((group) => runsOf(group, round, quick));
    return round % 2 === 0 ? runs : runs.reverse();
  }).flat();
}

/** A contender's runs of a scenario and of those that are a share of it are neighbours. */
function runsOf(group: readonly Scenario[], round: number, quick: boolean): PlannedRun[] {
  const contendersOf = ({ always, targets, others }: Scenario) =>
    new Set<Contender>([
      ...always,
      ...(quick && round > 0 ? [] : targets.map(({ against }) => against)),
      ...(round === 0 ? others : []),
    ]);
  const contenders = new Set(group.flatMap((scenario) => [...contendersOf(scenario)]));
  return [...contenders].flatMap((contender) =>
    group
      .filter((scenario) => contendersOf(scenario).has(contender))
      .map((scenario) => ({ scenario, contender, round })),
  );
}

function groupByBase(scenarios: readonly Scenario[]): Map<string, Scenario[]> {
  return Map.groupBy(scenarios, ({ name, share }) => share?.of ?? name);
}

import type { Scenario, SideName } from './scenarios.ts';

/** What one process of a side does in a round, one after the other. */
export interface Turn {
  side: SideName;
  round: number;
  scenarios: readonly Scenario[];
}

/**
 * Round 1 of all scenarios, then round 2 of all, and so on, so that a scenario's rounds lie far apart in time. Every
 * second round runs backwards: what drifts, a warming machine or a filling disk, falls on all alike.
 */
export function planTurns(chosen: readonly Scenario[]): Turn[] {
  const rounds = Math.max(0, ...chosen.map((scenario) => scenario.rounds));
  return Array.from({ length: rounds }, (_, round) => {
    const due = chosen.filter((scenario) => scenario.rounds > round);
    const groups = Map.groupBy(due, ({ kind, pets }) => `${kind} ${pets}`);
    const turns = [...groups.values()].flatMap((group) => turnsOf(group, round));
    if (round % 2 === 0) return turns;
    return turns.reverse().map((turn) => ({ ...turn, scenarios: turn.scenarios.toReversed() }));
  }).flat();
}

/** How often the sides without a goal are measured. */
const ROUNDS_OF_OTHERS = 2;

/** Scenarios of the same requests on the same store need only one process of each side. */
function turnsOf(group: readonly Scenario[], round: number): Turn[] {
  const sidesOf = ({ sides, others }: Scenario) => [...sides, ...(round < ROUNDS_OF_OTHERS ? others : [])];
  return [...new Set(group.flatMap(sidesOf))].map((side) => ({
    side,
    round,
    scenarios: group.filter((scenario) => sidesOf(scenario).includes(side)),
  }));
}

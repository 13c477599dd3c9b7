import { firstWarmUpSeconds, WARM_UP_SECONDS } from './measure.ts';
import type { Scenario } from './scenarios.ts';
import type { SideName } from './sides.ts';

/** What one process of a side does in a round, one after the other. */
export interface Turn {
  side: SideName;
  round: number;
  scenarios: readonly Scenario[];
}

/**
 * Round 1 of all scenarios, then round 2 of all, and so on, so that a scenario's rounds lie far apart in time. Every second
 * round runs backwards: what drifts, a warming machine or a filling disk, falls on all alike.
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

/** Roughly, as earlier runs took it: the servers of a round, a process's start, filling, and pauses between measurements. */
const SECONDS = { round: 5, start: 1, fillOfMillion: 9, pause: 0.7 };

/** How long the turns take, about. */
export function minutesOf(turns: readonly Turn[]): number {
  const rounds = new Set(turns.map(({ round }) => round)).size;
  return turns.reduce((sum, turn) => sum + secondsOf(turn), rounds * SECONDS.round) / 60;
}

function secondsOf({ scenarios }: Turn): number {
  const each = scenarios.map((scenario, at) => {
    const { pets, seconds, updatesPerSecond } = scenario;
    const first = firstWarmUpSeconds(scenario);
    const warmUp = (at === 0 ? first : WARM_UP_SECONDS.later) + (updatesPerSecond > 0 ? first : 0);
    return (pets / 1_000_000) * SECONDS.fillOfMillion + warmUp + seconds + SECONDS.pause;
  });
  return each.reduce((sum, seconds) => sum + seconds, SECONDS.start);
}

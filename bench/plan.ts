import type { Contender, Scenario } from './scenarios.ts';

export interface PlannedRun {
  scenario: Scenario;
  contender: Contender;
  round: number;
}

/** A B B A …: what drifts over time, a warming machine or a filling disk, falls on all alike. */
export function planRuns(chosen: readonly Scenario[], quick: boolean): PlannedRun[] {
  return chosen
    .map((scenario) => (quick ? { ...scenario, rounds: 2, seconds: 2, others: [] } : scenario))
    .flatMap((scenario) =>
      Array.from({ length: scenario.rounds }, (_, round) => {
        const judgedAgainst = quick && round > 0 ? [] : scenario.targets.map(({ against }) => against);
        const others = round === 0 ? scenario.others : [];
        const contenders = [...new Set<Contender>(['service', 'fastify', ...judgedAgainst, ...others])];
        const order = round % 2 === 0 ? contenders : contenders.reverse();
        return order.map((contender) => ({ scenario, contender, round }));
      }).flat(),
    );
}

/** What a run takes, the preparations included; the progress line corrects itself by what it sees. */
export function expectedSeconds({ scenario }: PlannedRun): number {
  return 2.2 + scenario.seconds + scenario.pets / 150_000;
}

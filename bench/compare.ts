import type { Results } from './results.ts';
import { ROUNDS_FOR_INTERVAL } from './statistics.ts';
import { scenarioVerdicts, withInterval, type ScenarioVerdict } from './summary.ts';

/** Whether two runs agree: for each CPU time with a goal, whether both have enough rounds, and the intervals overlap. */
export function compareRuns(first: Results, second: Results): { lines: string[]; agree: boolean } {
  const [of1, of2] = [cpuVerdicts(first), cpuVerdicts(second)];
  const rows = [...new Set([...of1.keys(), ...of2.keys()])].map((what) => {
    const [one, two] = [of1.get(what), of2.get(what)];
    const agree = one !== undefined && two !== undefined && overlap(one, two);
    const cells = [one, two].map((each) => (each ? `${withInterval(each.found)} of ${each.rounds} rounds` : '–'));
    return { agree, line: `${agree ? 'yes' : 'NO '}  ${what}, ${cells.join(' and ')}` };
  });
  return { lines: rows.map(({ line }) => line), agree: rows.length > 0 && rows.every(({ agree }) => agree) };
}

function cpuVerdicts(results: Results): Map<string, ScenarioVerdict> {
  const verdicts = scenarioVerdicts(results).filter(({ figure }) => figure === 'cpu');
  return new Map(verdicts.map((each) => [each.what, each]));
}

function overlap(one: ScenarioVerdict, two: ScenarioVerdict): boolean {
  const isMeasured = Math.min(one.rounds, two.rounds) >= ROUNDS_FOR_INTERVAL;
  return isMeasured && one.found.low <= two.found.high && two.found.low <= one.found.high;
}

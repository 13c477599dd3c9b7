import type { ScenarioResults } from './benchmark.ts';
import type { Measurement } from './measure.ts';
import { SIDES, type Figure, type Goal, type SideName } from './scenarios.ts';
import { median, medianWithInterval, type Interval } from './statistics.ts';
import type { Reading } from './whole-reading.ts';

type Rounds = ScenarioResults['rounds'];

const HEAD = ['figure', 'scenario', 'program', 'median', 'ratio', 'goal', 'verdict', 'remarks'];

/**
 * All that was measured, in Markdown as Prettier writes it: the CPU times, then the rates, then the readings of a
 * million pets. An interval stands in parentheses behind its median.
 */
export function table(measured: readonly ScenarioResults[], readings: readonly Reading[]): string {
  const rows = [
    ...(['cpu', 'rate'] as const).flatMap((figure) => measured.flatMap((found) => rowsOf(found, figure, measured))),
    ...readings.map(({ what, valuesMs, goal }) => {
      const found = medianWithInterval(valuesMs);
      return ['ms', what, SIDES.service, withInterval(found), '', ...verdictOf(found, goal, '≤'), ''];
    }),
  ];
  const widths = HEAD.map((title, at) => Math.max(title.length, ...rows.map((row) => row[at]?.length ?? 0)));
  const line = (cells: readonly string[], fill = ' ') =>
    `| ${widths.map((width, at) => (cells[at] ?? '').padEnd(width, fill)).join(' | ')} |`;
  return [line(HEAD), line([], '-'), ...rows.map((row) => line(row))].join('\n');
}

/** A row for each program of the scenario. */
function rowsOf(found: ScenarioResults, figure: Figure, measured: readonly ScenarioResults[]): string[][] {
  const { scenario, rounds } = found;
  return [...new Set(rounds.map(({ side }) => side))].map((side) => {
    const own = rounds.filter((each) => each.side === side);
    const [peer, others] = peerOf(found, side, measured);
    const ratio = ratioByRound(own, others, figure);
    const goal = scenario.goals.find((each) => each.figure === figure && each.side === side);
    return [
      figure === 'cpu' ? 'CPU µs' : 'requests/s',
      scenario.title,
      SIDES[side],
      withInterval(medianWithInterval(own.map((round) => valueOf(round, figure)))),
      Number.isNaN(ratio.median) ? '' : `${withInterval(ratio)} of ${peer}`,
      ...(goal ? verdictOf(ratio, goal, figure === 'cpu' ? '≤' : '≥') : ['', '']),
      figure === 'cpu' ? remarksOn(own, scenario.updatesPerSecond > 0).join('; ') : '',
    ];
  });
}

/** The program that another is compared with, and its rounds. */
function peerOf(found: ScenarioResults, side: SideName, measured: readonly ScenarioResults[]): [string, Rounds] {
  const { alone } = found.scenario;
  const from = (peer: SideName, { rounds }: Pick<ScenarioResults, 'rounds'>) =>
    rounds.filter((each) => each.side === peer);
  if (side === 'pooled') return [SIDES.service, from('service', found)];
  if (side !== 'service') return ['', []];
  if (alone === undefined) return [SIDES.fastify, from('fastify', found)];
  return [
    'the same alone',
    measured.filter(({ scenario }) => scenario.name === alone).flatMap((each) => from(side, each)),
  ];
}

function valueOf({ programCpuUs, postgresCpuUs, poolerCpuUs, requestsPerSecond }: Measurement, figure: Figure): number {
  return figure === 'cpu' ? programCpuUs + postgresCpuUs + poolerCpuUs : requestsPerSecond;
}

/** Of the rounds that both have. */
function ratioByRound(own: Rounds, others: Rounds, figure: Figure): Interval {
  const ratios = own.flatMap((each) => {
    const other = others.find(({ round }) => round === each.round);
    return other ? [valueOf(each, figure) / valueOf(other, figure)] : [];
  });
  return medianWithInterval(ratios);
}

/** The cells of the goal and of the verdict, which is empty if the figure was not measured. */
function verdictOf({ median }: Interval, { value, since }: Pick<Goal, 'value' | 'since'>, sign: '≤' | '≥'): string[] {
  const isReached = sign === '≤' ? median <= value : median >= value;
  const verdict = isReached ? 'reached' : '**missed**';
  return [`${sign}${value.toLocaleString('en')} (${since})`, Number.isNaN(median) ? '' : verdict];
}

function remarksOn(rounds: Rounds, hasUpdatesBeside: boolean): string[] {
  const middle = (figure: (round: Measurement) => number) => digits(median(rounds.map(figure)));
  const failures = rounds.reduce((sum, each) => sum + each.failures, 0);
  return [
    `of it PostgreSQL ${middle(({ postgresCpuUs }) => postgresCpuUs)}`,
    ...(hasUpdatesBeside ? [`${middle((each) => each.updatesPerSecond)} updates/s beside`] : []),
    ...(failures > 0 ? [`${failures} failed`] : []),
    ...rounds.flatMap(({ fault }) => fault ?? []),
  ];
}

/** Three significant digits, and no fraction from a hundred on. */
function digits(value: number): string {
  return value.toLocaleString('en', { maximumSignificantDigits: Math.max(3, Math.trunc(value).toString().length) });
}

/** With the ends of its interval, where there is more than one round. */
function withInterval({ median, low, high }: Interval): string {
  return low === high ? digits(median) : `${digits(median)} (${digits(low)}–${digits(high)})`;
}

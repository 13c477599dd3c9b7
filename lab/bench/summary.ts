import type { Measurement } from './measure.ts';
import type { Results, Round, ScenarioResults } from './results.ts';
import type { Against, Figure, Goal, Scenario } from './scenarios.ts';
import type { SideName } from './sides.ts';
import { median, medianWithInterval, type Interval } from './statistics.ts';

export interface Line extends Measurement {
  side: SideName;
  faults: string[];
  /** Of all the CPU time, with its interval over the rounds. */
  cpuUs: Interval;
  rate: Interval;
  /** This service's figure by this side's, round by round. */
  ratios: Record<Figure, Interval> | undefined;
}

const FIGURES: Record<Figure, (round: Round) => number> = {
  cpu: ({ programCpuUs, postgresCpuUs, poolerCpuUs }) => programCpuUs + postgresCpuUs + poolerCpuUs,
  rate: ({ requestsPerSecond }) => requestsPerSecond,
};

/** One line per side that was measured. */
export function linesOf(found: ScenarioResults): Line[] {
  const service = roundsOf(found, 'service');
  return [...new Set(found.rounds.map(({ side }) => side))].map((side) => {
    const own = roundsOf(found, side);
    const middle = (figure: (round: Round) => number) => median(own.map(figure));
    return {
      side,
      requestsPerSecond: middle((each) => each.requestsPerSecond),
      failures: own.reduce((sum, { failures }) => sum + failures, 0),
      programCpuUs: middle((each) => each.programCpuUs),
      postgresCpuUs: middle((each) => each.postgresCpuUs),
      poolerCpuUs: middle((each) => each.poolerCpuUs),
      cpuUs: medianWithInterval(own.map(FIGURES.cpu)),
      rate: medianWithInterval(own.map(FIGURES.rate)),
      updatesPerSecond: middle((each) => each.updatesPerSecond),
      faults: own.flatMap(({ fault }) => fault ?? []),
      ratios:
        side === 'service'
          ? undefined
          : { cpu: ratioByRound(service, own, FIGURES.cpu), rate: ratioByRound(service, own, FIGURES.rate) },
    };
  });
}

function roundsOf(found: ScenarioResults | undefined, side: SideName): Round[] {
  return found?.rounds.filter((each) => each.side === side) ?? [];
}

/** Where both have a figure in the same round. */
function ratioByRound(upper: readonly Round[], lower: readonly Round[], figure: (round: Round) => number): Interval {
  const ratios = upper.flatMap((each) => {
    const other = lower.find(({ round }) => round === each.round);
    return other ? [figure(each) / figure(other)] : [];
  });
  return medianWithInterval(ratios);
}

/** A goal, and whether this run reached it. */
export interface Verdict {
  what: string;
  wanted: string;
  found: Interval;
  unit: string;
  reached: boolean;
  since: string;
  /** Why a missed goal was missed. */
  why: string | undefined;
}

/** A goal of a scenario. */
export interface ScenarioVerdict extends Verdict {
  scenario: Scenario;
  figure: Figure;
  against: Against;
}

const AGAINST: Record<Against, string> = {
  fastify: 'compared with Fastify + pg',
  alone: 'compared with nothing beside',
  direct: 'behind PgBouncer compared with direct',
};

export function scenarioVerdicts({ scenarios }: Results): ScenarioVerdict[] {
  return scenarios.flatMap((found) =>
    found.scenario.goals.map((goal) => {
      const { scenario } = found;
      const { figure, against, value, since, why } = goal;
      const base = against === 'alone' ? scenarios.find((each) => each.scenario.name === scenario.alone) : found;
      const [upper, lower] = comparedSides(goal);
      const own = roundsOf(found, upper);
      const others = roundsOf(base, lower);
      const ratio = ratioByRound(own, others, FIGURES[figure]);
      return {
        scenario,
        figure,
        against,
        what: `${scenario.title}: ${figure === 'cpu' ? 'CPU' : 'requests/s'} ${AGAINST[against]}`,
        wanted: `${figure === 'cpu' ? '≤' : '≥'} ${value}`,
        found: ratio,
        unit: '',
        reached: figure === 'cpu' ? ratio.median <= value : ratio.median >= value,
        since,
        why,
      };
    }),
  );
}

function comparedSides({ against }: Goal): readonly [upper: SideName, lower: SideName] {
  if (against === 'fastify') return ['service', 'fastify'];
  return against === 'direct' ? ['pooled', 'service'] : ['service', 'service'];
}

export function wholeReadingVerdicts({ wholeReading }: Results): Verdict[] {
  if (!wholeReading) return [];
  const { goals, timesMs, heldMs, gzipAfterCommitMs, gzipAfterUpdateMs } = wholeReading;
  const atMost = (what: string, values: readonly number[], goal: number): Verdict => {
    const found = medianWithInterval(values);
    const wanted = `≤ ${goal.toLocaleString('en')} ms`;
    const { since } = goals;
    return { what, wanted, found, unit: ' ms', reached: found.median <= goal, since, why: undefined };
  };
  return [
    atMost('list of 1,000,000 pets, read whole and sent', timesMs, goals.timeMs),
    atMost('longest block of the event loop during this', heldMs, goals.heldMs),
    atMost('the same with gzip, after a commit elsewhere', gzipAfterCommitMs, goals.gzipHeldMs),
    atMost('the same with gzip, after one changed pet', gzipAfterUpdateMs, goals.gzipHeldMs),
  ];
}

/** Three significant digits, and no fraction from a hundred on. */
export function digits(value: number): string {
  if (!Number.isFinite(value)) return '–';
  if (Math.abs(value) >= 100) return Math.round(value).toLocaleString('en');
  return String(Number(value.toPrecision(3)));
}

/** With the ends of its interval, where there is more than one round. */
export function withInterval({ median, low, high }: Interval): string {
  return low === high || !Number.isFinite(median)
    ? digits(median)
    : `${digits(median)} (${digits(low)}–${digits(high)})`;
}

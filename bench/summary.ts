import type { Measurement } from './measure.ts';
import { POOLED_AT_MOST, POOLED_SINCE } from './pooled.ts';
import type { Results, Round, ScenarioResults } from './results.ts';
import type { Figure, Goal } from './scenarios.ts';
import type { SideName } from './sides.ts';
import { median, medianWithInterval, type Interval } from './statistics.ts';

export interface Line extends Measurement {
  side: SideName;
  faults: string[];
  /** This service's figure by this side's, round by round. */
  ratios: Record<Figure, Interval> | undefined;
}

const FIGURES: Record<Figure, (round: Round) => number> = {
  cpu: cpuOf,
  rate: ({ requestsPerSecond }) => requestsPerSecond,
};

function cpuOf({ programCpuUs, postgresCpuUs }: Round): number {
  return programCpuUs + postgresCpuUs;
}

/** One line per side, the service first. */
export function linesOf(found: ScenarioResults): Line[] {
  const sides = new Set<SideName>(['service', ...found.rounds.map(({ side }) => side)]);
  return [...sides].map((side) => {
    const own = roundsOf(found, side);
    const middle = (figure: (round: Round) => number) => median(own.map(figure));
    const service = roundsOf(found, 'service');
    return {
      side,
      requestsPerSecond: middle((each) => each.requestsPerSecond),
      failures: own.reduce((sum, { failures }) => sum + failures, 0),
      programCpuUs: middle((each) => each.programCpuUs),
      postgresCpuUs: middle((each) => each.postgresCpuUs),
      peakMemoryMb: Math.max(...own.map((each) => each.peakMemoryMb)),
      updatesPerSecond: middle((each) => each.updatesPerSecond),
      faults: own.flatMap(({ fault }) => fault ?? []),
      ratios:
        side === 'service'
          ? undefined
          : { cpu: ratioByRound(service, own, FIGURES.cpu), rate: ratioByRound(service, own, FIGURES.rate) },
    };
  });
}

/** The interval of a side's figure over its rounds. */
export function intervalOf(found: ScenarioResults, side: SideName, figure: Figure): Interval | undefined {
  const values = roundsOf(found, side).map(FIGURES[figure]);
  return values.length === 0 ? undefined : medianWithInterval(values);
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
  found: string;
  reached: boolean;
  since: string;
  /** Why a missed goal was missed. */
  why: string | undefined;
}

/** @param unit follows both figures */
function verdict(
  what: string,
  found: Interval,
  goal: { atMost?: number; atLeast?: number; since: string; why?: string | undefined },
  unit = '',
): Verdict {
  const { atMost = Infinity, atLeast = -Infinity, since, why } = goal;
  const value = Number.isFinite(atMost) ? atMost : atLeast;
  return {
    what,
    wanted: `${Number.isFinite(atMost) ? '≤' : '≥'} ${value.toLocaleString('en')}${unit}`,
    found: `${withInterval(found)}${unit}`,
    reached: found.median <= atMost && found.median >= atLeast,
    since,
    why,
  };
}

/** The goals of a scenario against Fastify + pg. */
export function fastifyVerdicts(found: ScenarioResults): Partial<Record<Figure, Verdict>> {
  const judge = ({ figure, value, since, why }: Goal): [Figure, Verdict] => {
    const ratio = ratioByRound(roundsOf(found, 'service'), roundsOf(found, 'fastify'), FIGURES[figure]);
    const bound = figure === 'cpu' ? { atMost: value } : { atLeast: value };
    const what = `${found.scenario.title}, ${figure === 'cpu' ? 'CPU' : 'requests/s'} compared with Fastify + pg`;
    return [figure, verdict(what, ratio, { ...bound, since, why })];
  };
  return Object.fromEntries(found.scenario.goals.map(judge));
}

/** The goals that are not compared with Fastify. */
export function otherVerdicts(results: Results): Verdict[] {
  return [
    ...shareVerdicts(results),
    ...pooledVerdicts(results),
    ...unchangedVerdict(results),
    ...wholeReadingVerdicts(results),
  ];
}

export function missedGoals(results: Results): Verdict[] {
  const all = [
    ...results.scenarios.flatMap((found) => Object.values(fastifyVerdicts(found))),
    ...otherVerdicts(results),
  ];
  return all.filter(({ reached }) => !reached);
}

/** What a list costs while something is written, compared with the same list alone. */
function shareVerdicts({ scenarios }: Results): Verdict[] {
  return scenarios.flatMap((found) => {
    const { title, share } = found.scenario;
    const base = scenarios.find(({ scenario }) => scenario.name === share?.of);
    if (!share || !base) return [];
    const ratio = ratioByRound(roundsOf(found, 'service'), roundsOf(base, 'service'), FIGURES.cpu);
    return [verdict(`${title}, CPU`, ratio, share)];
  });
}

/** What a list costs behind a pooler, the pooler's own work included. */
function pooledVerdicts({ pooled = [] }: Results): Verdict[] {
  return pooled.map(({ title, rounds }) => {
    const ratios = rounds.map(({ pooled, direct }) => {
      const own = pooled.programCpuUs + pooled.postgresCpuUs + pooled.poolerCpuUs;
      return own / (direct.programCpuUs + direct.postgresCpuUs);
    });
    return verdict(`${title}, CPU`, medianWithInterval(ratios), { atMost: POOLED_AT_MOST, since: POOLED_SINCE });
  });
}

const EARLIER = '2026-11-23';

/** An unchanged list must not cost more because it is long. */
function unchangedVerdict({ scenarios }: Results): Verdict[] {
  const [few, many] = ['unchanged-10', 'unchanged-100000'].map((name) =>
    scenarios.find(({ scenario }) => scenario.name === name),
  );
  if (!few || !many) return [];
  const ratio = ratioByRound(roundsOf(many, 'service'), roundsOf(few, 'service'), FIGURES.cpu);
  const what = 'unchanged list of 100,000 pets, CPU compared with one of 10 pets';
  return [verdict(what, ratio, { atMost: 1.1, since: EARLIER })];
}

function wholeReadingVerdicts({ wholeReading }: Results): Verdict[] {
  if (!wholeReading) return [];
  const { timesMs, heldMs, gzipAfterCommitMs, gzipAfterUpdateMs } = wholeReading;
  const atMost = (what: string, values: readonly number[], goal: number): Verdict =>
    verdict(what, medianWithInterval(values), { atMost: goal, since: EARLIER }, ' ms');
  return [
    atMost('list of 1,000,000 pets, read whole and sent', timesMs, 1_500),
    atMost('longest block of the event loop during this', heldMs, 20),
    atMost('the same with gzip, after a commit elsewhere', gzipAfterCommitMs, 10),
    atMost('the same with gzip, after one changed pet', gzipAfterUpdateMs, 10),
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
  return low === high ? digits(median) : `${digits(median)} (${digits(low)}–${digits(high)})`;
}

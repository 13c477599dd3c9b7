import type { Measurement } from './measure.ts';
import type { Results, Round, ScenarioResults } from './results.ts';
import type { Contender, Figure, Scenario, Target } from './scenarios.ts';
import { labelOf } from './sides.ts';
import { median, medianWithInterval, type Interval } from './statistics.ts';

export interface Line extends Measurement {
  contender: Contender;
  faults: string[];
  /** This service's requests a second by this contender's, round by round. */
  ratio: Interval | undefined;
}

/** One line per contender, the service first. */
export function linesOf(found: ScenarioResults): Line[] {
  const contenders = new Set<Contender>(['service', ...found.rounds.map(({ contender }) => contender)]);
  return [...contenders].map((contender) => {
    const own = roundsOf(found, contender);
    const middle = (figure: (round: Round) => number) => median(own.map(figure));
    return {
      contender,
      requestsPerSecond: middle((each) => each.requestsPerSecond),
      p50Ms: middle((each) => each.p50Ms),
      p99Ms: middle((each) => each.p99Ms),
      failures: own.reduce((sum, { failures }) => sum + failures, 0),
      programCpuUs: middle((each) => each.programCpuUs),
      postgresCpuUs: middle((each) => each.postgresCpuUs),
      peakMemoryMb: Math.max(...own.map((each) => each.peakMemoryMb)),
      updatesPerSecond: middle((each) => each.updatesPerSecond),
      faults: own.flatMap(({ fault }) => fault ?? []),
      ratio: contender === 'service' ? undefined : ratioByRound(roundsOf(found, 'service'), own),
    };
  });
}

function roundsOf(found: ScenarioResults | undefined, contender: Contender): Round[] {
  return found?.rounds.filter((each) => each.contender === contender) ?? [];
}

const rate = ({ requestsPerSecond }: Round) => requestsPerSecond;

/** Where both have a figure in the same round. */
function ratioByRound(upper: readonly Round[], lower: readonly Round[], figure = rate): Interval | undefined {
  const ratios = upper.flatMap((each) => {
    const other = lower.find(({ round }) => round === each.round);
    return other ? [figure(each) / figure(other)] : [];
  });
  return ratios.length === 0 ? undefined : medianWithInterval(ratios);
}

export interface Verdict {
  what: string;
  wanted: string;
  found: string;
  reached: boolean;
  /** Why the goal does not count when it is missed. */
  withdrawn?: string | undefined;
}

const figures: Record<Figure, (round: Round) => number> = {
  rate,
  cpu: ({ programCpuUs, postgresCpuUs }) => programCpuUs + postgresCpuUs,
  p99: ({ p99Ms }) => p99Ms,
};

/** A goal of a scenario against another program. */
function targetVerdict(found: ScenarioResults, { figure, against, goal, withdrawn }: Target): Verdict {
  const ratio = ratioByRound(roundsOf(found, 'service'), roundsOf(found, against), figures[figure])?.median ?? NaN;
  const isLeast = figure === 'rate';
  return {
    what: found.scenario.title,
    wanted: `${isLeast ? '≥' : '≤'} ${goal}`,
    found: digits(ratio),
    reached: isLeast ? ratio >= goal : ratio <= goal,
    withdrawn,
  };
}

/** The goals of a scenario against Fastify + pg. */
export function fastifyVerdicts(found: ScenarioResults): Partial<Record<Figure, Verdict>> {
  const targets = found.scenario.targets.filter(({ against }) => against === 'fastify');
  return Object.fromEntries(targets.map((target) => [target.figure, targetVerdict(found, target)]));
}

/** What the service's lists keep of their rate while something is written. */
function shareVerdicts({ scenarios }: Results): Verdict[] {
  return scenarios.flatMap((found) => {
    const { title, share: goal } = found.scenario;
    const base = scenarios.find(({ scenario }) => scenario.name === goal?.of);
    const share = ratioByRound(roundsOf(found, 'service'), roundsOf(base, 'service'));
    return share && goal ? [{ ...rateVerdict(title, share, goal.atLeast), withdrawn: goal.withdrawn }] : [];
  });
}

const POOLER = 'PgBouncer takes an eighth of a core, and none is free.';

/** What the service's lists keep of their rate behind a pooler. */
function pooledVerdicts({ pooled = [] }: Results): Verdict[] {
  return pooled.flatMap(({ title, atLeast, rounds }) => {
    const ratios = rounds.map(({ pooled, direct }) => pooled / direct);
    return ratios.length > 0 ? [{ ...rateVerdict(title, medianWithInterval(ratios), atLeast), withdrawn: POOLER }] : [];
  });
}

function rateVerdict(what: string, share: Interval, atLeast: number): Verdict {
  return { what, wanted: `≥ ${atLeast}`, found: digits(share.median), reached: share.median >= atLeast };
}

/** Nothing is written during these lists, on this machine or by another tenant. */
export function isQuietList({ kind, updatesPerSecond, commitsPerSecond, petsPerSecond }: Scenario): boolean {
  return kind === 'list' && updatesPerSecond + commitsPerSecond + petsPerSecond === 0;
}

/** The goals that are not a ratio to Fastify, and whether this run reached them. */
export function verdicts(results: Results): Verdict[] {
  return [
    ...results.scenarios.flatMap(otherVerdicts),
    ...shareVerdicts(results),
    ...pooledVerdicts(results),
    ...unchangedVerdict(results),
    ...millionVerdict(results),
    ...wholeReadingVerdicts(results),
  ];
}

function otherVerdicts(found: ScenarioResults): Verdict[] {
  const targets = found.scenario.targets.filter(({ against }) => against !== 'fastify');
  return targets.map((target) => ({
    ...targetVerdict(found, target),
    what: `${found.scenario.title}, compared with ${labelOf(target.against)}`,
  }));
}

/** An unchanged list must not cost more because it is long. */
function unchangedVerdict({ scenarios }: Results): Verdict[] {
  const [few, many] = ['unchanged-10', 'unchanged-100000'].map((name) => {
    const found = scenarios.find(({ scenario }) => scenario.name === name);
    return median(roundsOf(found, 'service').map(({ requestsPerSecond }) => requestsPerSecond));
  });
  if (!few || !many) return [];
  const share = many / few;
  const what = 'unchanged list of 100,000 pets, compared with one of 10 pets';
  return [{ what, wanted: '≥ 0.9', found: digits(share), reached: share >= 0.9 }];
}

function millionVerdict({ scenarios }: Results): Verdict[] {
  const [most] = scenarios
    .filter(({ scenario }) => scenario.pets === 1_000_000)
    .flatMap((found) => roundsOf(found, 'service').map((each) => ({ ...each, title: found.scenario.title })))
    .sort((a, b) => b.peakMemoryMb - a.peakMemoryMb);
  if (!most) return [];
  const what = 'peak memory with 1,000,000 pets';
  const found = `${digits(most.peakMemoryMb)} MB`;
  const withdrawn = '`--max-semi-space-size=64` takes up to 190 MB for speed.';
  return [{ what, wanted: '≤ 450 MB', found, reached: most.peakMemoryMb <= 450, withdrawn }];
}

function wholeReadingVerdicts({ wholeReading }: Results): Verdict[] {
  if (!wholeReading) return [];
  const { medianMs, heldMs, gzipAfterCommitMs, gzipAfterUpdateMs } = wholeReading;
  const atMost = (what: string, ms: number, goal: number): Verdict => ({
    what,
    wanted: `≤ ${goal.toLocaleString('en')} ms`,
    found: `${digits(ms)} ms`,
    reached: ms <= goal,
  });
  return [
    atMost('list of 1,000,000 pets, read whole and sent', medianMs, 1_500),
    atMost('longest block of the event loop during this, median of five', median(heldMs), 20),
    atMost('the same with gzip, after a commit elsewhere', median(gzipAfterCommitMs), 10),
    atMost('the same with gzip, after one changed pet', median(gzipAfterUpdateMs), 10),
  ];
}

/** Three significant digits, and no fraction from a hundred on. */
export function digits(value: number): string {
  if (!Number.isFinite(value)) return '–';
  if (Math.abs(value) >= 100) return Math.round(value).toLocaleString('en');
  return String(Number(value.toPrecision(3)));
}

/** With the lowest and the highest round, where there is more than one. */
export function withInterval({ median, low, high }: Interval): string {
  return low === high ? digits(median) : `${digits(median)} (${digits(low)}–${digits(high)})`;
}

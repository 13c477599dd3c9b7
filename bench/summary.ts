import type { Measurement } from './measure.ts';
import type { Results, Round, ScenarioResults } from './results.ts';
import type { Contender, Scenario } from './scenarios.ts';
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
const cpuUs = ({ programCpuUs, postgresCpuUs }: Round) => programCpuUs + postgresCpuUs;
const tailMs = ({ p99Ms }: Round) => p99Ms;

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
}

/** The goals of a scenario against Fastify + pg: requests a second, CPU time of both programs, the slowest hundredth. */
export function fastifyVerdicts(found: ScenarioResults): (Verdict | undefined)[] {
  const { title, targets, cpuAtMost, p99AtMost } = found.scenario;
  const verdict = (figure: (round: Round) => number, goal: number | undefined, isLeast: boolean) => {
    if (goal === undefined) return undefined;
    const ratio = ratioByRound(roundsOf(found, 'service'), roundsOf(found, 'fastify'), figure)?.median ?? NaN;
    const reached = isLeast ? ratio >= goal : ratio <= goal;
    return { what: title, wanted: `${isLeast ? '≥' : '≤'} ${goal}`, found: digits(ratio), reached };
  };
  const atLeast = targets.find(({ against }) => against === 'fastify')?.atLeast;
  return [verdict(rate, atLeast, true), verdict(cpuUs, cpuAtMost, false), verdict(tailMs, p99AtMost, false)];
}

/** What the service's lists keep of their rate while something is written; a control has no goal. */
function shareVerdicts({ scenarios }: Results): Verdict[] {
  return scenarios.flatMap((found) => {
    const { title, share: { of, atLeast } = {} } = found.scenario;
    const base = scenarios.find(({ scenario }) => scenario.name === of);
    const share = ratioByRound(roundsOf(found, 'service'), roundsOf(base, 'service'));
    if (!share || atLeast === undefined) return [];
    const what = `${title}, of the same alone`;
    return { what, wanted: `≥ ${atLeast}`, found: withInterval(share), reached: share.median >= atLeast };
  });
}

/** Nothing is written during these lists, on this machine or by another tenant. */
export function isQuietList({ kind, updatesPerSecond, commitsPerSecond, petsPerSecond }: Scenario): boolean {
  return kind === 'list' && updatesPerSecond + commitsPerSecond + petsPerSecond === 0;
}

/** The goals that are not a ratio to Fastify, and whether this run reached them. */
export function verdicts(results: Results): Verdict[] {
  return [
    ...results.scenarios.flatMap(ratioVerdicts),
    ...shareVerdicts(results),
    ...unchangedVerdict(results),
    ...millionVerdict(results),
    ...wholeReadingVerdicts(results),
  ];
}

function ratioVerdicts(found: ScenarioResults): Verdict[] {
  const others = found.scenario.targets.filter(({ against }) => against !== 'fastify');
  return others.map(({ against, atLeast }) => {
    const ratio = linesOf(found).find(({ contender }) => contender === against)?.ratio;
    return {
      what: `${found.scenario.title}, of ${labelOf(against)}`,
      wanted: `≥ ${atLeast}`,
      found: ratio ? withInterval(ratio) : 'not measured',
      reached: (ratio?.median ?? 0) >= atLeast,
    };
  });
}

/** An unchanged list must not cost more because it is long. */
function unchangedVerdict({ scenarios }: Results): Verdict[] {
  const [few, many] = ['unchanged-10', 'unchanged-100000'].map((name) => {
    const found = scenarios.find(({ scenario }) => scenario.name === name);
    return median(roundsOf(found, 'service').map(({ requestsPerSecond }) => requestsPerSecond));
  });
  if (!few || !many) return [];
  const share = many / few;
  const what = 'unchanged list of 100,000 pets, of the same of 10 pets';
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
  return [{ what, wanted: '≤ 450 MB', found, reached: most.peakMemoryMb <= 450 }];
}

function wholeReadingVerdicts({ wholeReading }: Results): Verdict[] {
  if (!wholeReading) return [];
  const { medianMs, heldMs } = wholeReading;
  const longest = Math.max(...heldMs);
  const what = 'list of 1,000,000 pets, read whole and sent';
  const held = 'longest hold of the event loop meanwhile';
  return [
    { what, wanted: '≤ 1,500 ms', found: `${digits(medianMs)} ms`, reached: medianMs <= 1_500 },
    { what: held, wanted: '≤ 20 ms', found: `${digits(longest)} ms`, reached: longest <= 20 },
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

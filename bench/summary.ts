import type { Measurement } from './measure.ts';
import type { Results, Round, ScenarioResults } from './results.ts';
import { labelOf } from './sides.ts';
import type { Contender, Scenario } from './scenarios.ts';
import { median, medianWithInterval, type Interval } from './statistics.ts';

export interface Line extends Measurement {
  contender: Contender;
  label: string;
  faults: string[];
  /** This service's requests a second by this contender's, round by round. */
  ratio: Interval | undefined;
}

/** One line per contender, the service first. */
export function linesOf({ rounds }: ScenarioResults): Line[] {
  const contenders = [...new Set<Contender>(['service', ...rounds.map(({ contender }) => contender)])];
  const service = new Map(rounds.filter(({ contender }) => contender === 'service').map((each) => [each.round, each]));
  return contenders.map((contender) => {
    const own = rounds.filter((each) => each.contender === contender);
    const middle = (figure: (round: Round) => number) => median(own.map(figure));
    const ratios = own
      .map((each) => (service.get(each.round)?.requestsPerSecond ?? NaN) / each.requestsPerSecond)
      .filter((ratio) => !Number.isNaN(ratio));
    return {
      contender,
      label: labelOf(contender),
      requestsPerSecond: middle((each) => each.requestsPerSecond),
      p50Ms: middle((each) => each.p50Ms),
      p99Ms: middle((each) => each.p99Ms),
      failures: own.reduce((sum, { failures }) => sum + failures, 0),
      programCpuUs: middle((each) => each.programCpuUs),
      postgresCpuUs: middle((each) => each.postgresCpuUs),
      peakMemoryMb: Math.max(...own.map((each) => each.peakMemoryMb)),
      updatesPerSecond: middle((each) => each.updatesPerSecond),
      faults: own.flatMap(({ fault }) => fault ?? []),
      ratio: contender === 'service' || ratios.length === 0 ? undefined : medianWithInterval(ratios),
    };
  });
}

export interface Verdict {
  what: string;
  wanted: string;
  found: string;
  /** Undefined for a control. */
  reached: boolean | undefined;
}

/** What the service's lists keep of their rate while something is written, paired by round. */
export function shares({ scenarios }: Results): Verdict[] {
  return scenarios.flatMap(({ scenario, rounds }) => {
    if (!scenario.share) return [];
    const { of, atLeast } = scenario.share;
    const base = scenarios.find(({ scenario: { name } }) => name === of)?.rounds ?? [];
    const rateIn = (all: readonly Round[], round: number) =>
      all.find((each) => each.contender === 'service' && each.round === round)?.requestsPerSecond ?? NaN;
    const paired = rounds
      .filter(({ contender }) => contender === 'service')
      .map(({ round }) => rateIn(rounds, round) / rateIn(base, round))
      .filter((share) => !Number.isNaN(share));
    if (paired.length === 0) return [];
    const share = medianWithInterval(paired);
    return [
      {
        what: scenario.title,
        wanted: atLeast === undefined ? 'control' : String(atLeast),
        found: withInterval(share),
        reached: atLeast === undefined ? undefined : share.median >= atLeast,
      },
    ];
  });
}

/** Nothing is written during these lists, on this machine or by another tenant. */
export function isQuietList({ kind, updatesPerSecond, commitsPerSecond }: Scenario): boolean {
  return kind === 'list' && updatesPerSecond === 0 && commitsPerSecond === 0;
}

/** Every figure that was set as a goal, and whether this run reached it. */
export function verdicts(results: Results): Verdict[] {
  return [
    ...ratioVerdicts(results),
    ...unchangedVerdict(results),
    ...millionVerdict(results),
    ...wholeReadingVerdicts(results),
    ...tailVerdict(results),
  ];
}

function ratioVerdicts(results: Results): Verdict[] {
  return results.scenarios.flatMap((found) =>
    found.scenario.targets.map(({ against, atLeast }) => {
      const ratio = linesOf(found).find(({ contender }) => contender === against)?.ratio;
      return {
        what: `${found.scenario.title}, against ${labelOf(against)}`,
        wanted: `${atLeast} times`,
        found: ratio ? `${withInterval(ratio)} times` : 'not measured',
        reached: (ratio?.median ?? 0) >= atLeast,
      };
    }),
  );
}

/** An unchanged list must not cost more because it is long. */
function unchangedVerdict(results: Results): Verdict[] {
  const [few, many] = ['unchanged-10', 'unchanged-100000'].map((name) => serviceLine(results, name)?.requestsPerSecond);
  if (!few || !many) return [];
  const share = many / few;
  const what = 'unchanged list of 100,000 pets, against the same of 10 pets';
  return [{ what, wanted: '0.9 times', found: `${digits(share)} times`, reached: share >= 0.9 }];
}

function millionVerdict(results: Results): Verdict[] {
  const peaks = results.scenarios
    .filter(({ scenario }) => scenario.pets === 1_000_000)
    .flatMap((found) => linesOf(found).map((line) => ({ ...line, title: found.scenario.title })))
    .filter(({ contender }) => contender === 'service')
    .sort((a, b) => b.peakMemoryMb - a.peakMemoryMb);
  const [most] = peaks;
  if (!most) return [];
  const what = 'memory of this service with 1,000,000 pets, at its peak';
  const found = `${digits(most.peakMemoryMb)} MB (${most.title})`;
  return [{ what, wanted: 'at most 450 MB', found, reached: most.peakMemoryMb <= 450 }];
}

function wholeReadingVerdicts({ wholeReading }: Results): Verdict[] {
  if (!wholeReading) return [];
  const { medianMs, heldMs } = wholeReading;
  const longest = Math.max(...heldMs);
  const each = heldMs.map(digits).join(', ');
  const what = 'list of 1,000,000 pets, read whole and sent';
  const held = `${what}: the longest that the event loop was held`;
  return [
    { what, wanted: 'at most 1,500 ms', found: `${digits(medianMs)} ms`, reached: medianMs <= 1_500 },
    { what: held, wanted: 'at most 20 ms', found: `${digits(longest)} ms (each: ${each})`, reached: longest <= 20 },
  ];
}

/** Where there is a goal, the slowest hundredth may not pay for it. */
function tailVerdict(results: Results): Verdict[] {
  const compared = results.scenarios.filter(({ scenario }) => scenario.targets.length > 0);
  const worse = compared.flatMap((found) => {
    const lines = linesOf(found);
    const service = lines.find(({ contender }) => contender === 'service')?.p99Ms ?? NaN;
    const peer = lines.find(({ contender }) => contender === 'fastify')?.p99Ms ?? NaN;
    return service > peer ? [`${found.scenario.title} (${digits(service)} against ${digits(peer)} ms)`] : [];
  });
  if (compared.every((found) => linesOf(found).every(({ contender }) => contender !== 'fastify'))) return [];
  const found = worse.length === 0 ? 'no worse anywhere' : `worse: ${worse.join('; ')}`;
  return [{ what: 'p99 in these scenarios', wanted: 'no worse than Fastify + pg', found, reached: worse.length === 0 }];
}

function serviceLine(results: Results, scenarioName: string): Line | undefined {
  const found = results.scenarios.find(({ scenario }) => scenario.name === scenarioName);
  return found && linesOf(found).find(({ contender }) => contender === 'service');
}

/** Three significant digits, and no fraction from a hundred on. */
export function digits(value: number): string {
  if (!Number.isFinite(value)) return '–';
  if (Math.abs(value) >= 100) return Math.round(value).toLocaleString('en');
  return String(Number(value.toPrecision(3)));
}

/** With the lowest and the highest round, where there is more than one. */
export function withInterval({ median, low, high }: Interval): string {
  return low === high ? digits(median) : `${digits(median)} (${digits(low)} to ${digits(high)})`;
}

export const operatorHead = [
  'program',
  'cold start to ready, ms',
  'memory idle, MB',
  'after one list of 10,000, MB',
  'list of 1,000 at 50/s, p99 ms',
  'update at 50/s, p99 ms',
] as const;

export function operatorRows({ operators = [] }: Results): string[][] {
  return operators.map(({ side, coldStartMs, idleMb, afterListMb, listP99Ms, updateP99Ms }) => [
    labelOf(side),
    ...[coldStartMs, idleMb, afterListMb, listP99Ms, updateP99Ms].map(digits),
  ]);
}

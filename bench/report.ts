import { readFileSync } from 'node:fs';
import type { OperatorFigures } from './operators.ts';
import type { Results, ScenarioResults } from './results.ts';
import type { Figure } from './scenarios.ts';
import { COMPARED, labelOf, type SideName } from './sides.ts';
import {
  digits,
  linesOf,
  scenarioVerdicts,
  wholeReadingVerdicts,
  withInterval,
  type Line,
  type Verdict,
} from './summary.ts';

/** The text of docs/performance.md: page.md with the results in its `{{…}}`. */
export function report(results: Results): string {
  const { machine, startedAt, minutes, postgresVersion, warmUpSeconds } = results;
  const versions = Object.entries(machine.versions).map(([name, version]) => `${name} ${version}`);
  const found: Record<string, string | number> = {
    minutes,
    date: startedAt.slice(0, 10),
    machine: `${machine.processor}, ${machine.cores} cores, ${machine.memoryGb} GB, Linux ${machine.kernel}, load ${digits(machine.loadAtStart)} at the start`,
    versions: [`PostgreSQL ${postgresVersion}`, ...versions].join(', '),
    cpu: cpu(results),
    rates: rates(results),
    beside: beside(results),
    goals: goals(results),
    missed: [missed(results), excluded(results)].join('\n\n'),
    operation: operation(results),
    firstWarmUp: warmUpSeconds.first,
    longWarmUp: warmUpSeconds.firstOfLong,
    laterWarmUp: warmUpSeconds.later,
  };
  const page = readFileSync(new URL('page.md', import.meta.url), 'utf8').replaceAll('](../docs/', '](');
  return page.replaceAll(/{{(\w+)}}/g, (_, name: string) => String(found[name]));
}

/** All tables, for the terminal. */
export function tables(results: Results): string {
  const all = [
    figures(results),
    excluded(results),
    cpu(results),
    rates(results),
    beside(results),
    goals(results),
    missed(results),
    operation(results),
  ];
  return all.filter((table) => table !== '').join('\n\n');
}

function judged({ wanted, since, reached }: Verdict): string {
  return `${wanted.replace(' ', '')} (${since}): ${reached ? 'yes' : '**no**'}`;
}

/** All CPU time with its interval, then that of the program, of PostgreSQL and of the pooler. */
function cpuCell({ cpuUs, programCpuUs, postgresCpuUs, poolerCpuUs, side }: Line): string {
  const parts = [programCpuUs, postgresCpuUs, ...(side === 'pooled' ? [poolerCpuUs] : [])];
  return `${withInterval(cpuUs)}: ${parts.map(digits).join(' + ')}`;
}

function lineOf(found: ScenarioResults, side: SideName): Line | undefined {
  return linesOf(found).find((each) => each.side === side);
}

/** Each scenario that all programs can have, with one figure of each, and the service's ratio to Fastify. */
function compared(results: Results, unit: string, figure: Figure, cellOf: (line: Line) => string): string {
  const verdicts = scenarioVerdicts(results).filter((each) => each.figure === figure && each.against === 'fastify');
  const rows = results.scenarios
    .filter(({ scenario }) => scenario.perSecond === undefined)
    .map((found) => {
      const { name, title } = found.scenario;
      const cells = COMPARED.map((side) => lineOf(found, side)).map((line) => (line ? cellOf(line) : '–'));
      const ratio = lineOf(found, 'fastify')?.ratios?.[figure];
      const verdict = verdicts.find(({ scenario }) => scenario.name === name);
      return [title, ...cells, ratio ? withInterval(ratio) : '', verdict ? judged(verdict) : ''];
    });
  return table([unit, ...COMPARED.map(labelOf), 'ratio', 'goal'], rows);
}

/** The first figure of the page. */
function cpu(results: Results): string {
  return compared(results, 'CPU µs', 'cpu', cpuCell);
}

function rates(results: Results): string {
  return compared(results, 'requests/s', 'rate', ({ rate }) => withInterval(rate));
}

/** Lists at a steady rate, with and without a writer and a pooler. */
function beside({ scenarios }: Results): string {
  const rows = scenarios
    .filter(({ scenario }) => scenario.perSecond !== undefined)
    .map((found) => {
      const cells = (['service', 'pooled'] as const).map((side) => lineOf(found, side));
      return [found.scenario.title, ...cells.map((line) => (line ? cpuCell(line) : '–'))];
    });
  return table(['CPU µs', labelOf('service'), labelOf('pooled')], rows);
}

/** The goals that are not compared with Fastify + pg. */
function goals(results: Results): string {
  const others: Verdict[] = scenarioVerdicts(results).filter(({ against }) => against !== 'fastify');
  const line = (verdict: Verdict) =>
    `- ${verdict.what}, ${withInterval(verdict.found)}${verdict.unit}; ${judged(verdict)}`;
  return [...others, ...wholeReadingVerdicts(results)].map(line).join('\n');
}

function missed(results: Results): string {
  const reason = ({ found, why }: Verdict) =>
    Number.isFinite(found.median) ? (why ?? 'The cause is not known yet.') : 'It was not measured.';
  const lines = [...scenarioVerdicts(results), ...wholeReadingVerdicts(results)]
    .filter(({ reached }) => !reached)
    .map((each) => {
      const { what, found, unit, wanted, since } = each;
      return `- ${what}, ${withInterval(found)}${unit} (${wanted}, set on ${since}). ${reason(each)}`;
    });
  return lines.length === 0 ? 'None.' : lines.join('\n');
}

/** Who was not measured, in one round at least. */
function excluded({ disqualified }: Results): string {
  const lines = disqualified.map(({ side, scenario, reason }) => `- ${labelOf(side)}, ${scenario}: ${reason}`);
  return lines.length === 0 ? '' : `Not measured in a round:\n\n${lines.join('\n')}`;
}

/** What operators ask first. */
function operation({ operators = [] }: Results): string {
  const line = (title: string, figure: (found: OperatorFigures) => number) => {
    const found = COMPARED.map((name) => operators.find(({ side }) => side === name));
    return `- ${title}: ${found.map((each) => (each ? digits(figure(each)) : '–')).join('/')}`;
  };
  const lines = [
    line('start to ready, ms', ({ coldStartMs }) => coldStartMs),
    line('idle memory, MB', ({ idleMb }) => idleMb),
    line('memory after a list of 10,000 pets, MB', ({ afterListMb }) => afterListMb),
    line('p99 of 50 lists/s of 1,000 pets, ms', ({ listP99Ms }) => listP99Ms),
    line('p99 of 50 updates/s, ms', ({ updateP99Ms }) => updateP99Ms),
  ];
  return operators.length === 0 ? '' : lines.join('\n');
}

/** Memory, failures and faults. */
function figures({ scenarios }: Results): string {
  const rows = scenarios.flatMap((found) =>
    linesOf(found).map((line, index) => [
      index === 0 ? found.scenario.title : '',
      labelOf(line.side),
      digits(line.peakMemoryMb),
      remarks(found, line).join('; '),
    ]),
  );
  return table(['scenario', 'program', 'MB', 'remarks'], rows);
}

function remarks({ scenario }: ScenarioResults, line: Line): string[] {
  const found = [...line.faults];
  if (scenario.updatesPerSecond > 0) found.unshift(`${digits(line.updatesPerSecond)} updates/s done`);
  if (line.failures > 0) found.unshift(`${line.failures} failed`);
  return found;
}

/** Nothing where nothing was measured. */
function table(head: readonly string[], rows: readonly (readonly string[])[]): string {
  if (rows.length === 0) return '';
  const line = (cells: readonly string[]) => `| ${cells.join(' | ')} |`;
  return [line(head), line(head.map(() => '---')), ...rows.map(line)].join('\n');
}

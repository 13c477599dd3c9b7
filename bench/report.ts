import { readFileSync } from 'node:fs';
import type { OperatorFigures } from './operators.ts';
import type { Results, ScenarioResults } from './results.ts';
import { labelOf, SIDES } from './sides.ts';
import { median } from './statistics.ts';
import {
  digits,
  fastifyVerdicts,
  intervalOf,
  linesOf,
  missedGoals,
  otherVerdicts,
  withInterval,
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
    goals: goals(results),
    missed: missed(results),
    pooled: pooled(results),
    operation: operation(results),
    firstWarmUp: warmUpSeconds.first,
    laterWarmUp: warmUpSeconds.later,
  };
  const page = readFileSync(new URL('page.md', import.meta.url), 'utf8').replaceAll('](../docs/', '](');
  return page.replaceAll(/{{(\w+)}}/g, (_, name: string) => String(found[name]));
}

/** All tables, for the terminal. */
export function tables(results: Results): string {
  const excluded = results.disqualified.map(({ side, scenario, reason }) => `- ${side}, ${scenario}: ${reason}`);
  const all = [
    figures(results),
    excluded.length > 0 ? `Not measured:\n\n${excluded.join('\n')}` : '',
    cpu(results),
    rates(results),
    pooled(results),
    goals(results),
    missed(results),
    operation(results),
  ];
  return all.filter((table) => table !== '').join('\n\n');
}

function judged(verdict: Verdict | undefined): string {
  if (!verdict) return '';
  return `${verdict.wanted.replace(' ', '')}: ${verdict.reached ? 'yes' : '**no**'}`;
}

/** The first figure of the page: CPU time of a request, as program + PostgreSQL. */
function cpu({ scenarios }: Results): string {
  const rows = scenarios.map((found) => {
    const lines = linesOf(found);
    const cells = SIDES.map((side) => {
      const line = lines.find((each) => each.side === side);
      return line ? `${digits(line.programCpuUs)} + ${digits(line.postgresCpuUs)}` : '–';
    });
    const ratio = lines.find(({ side }) => side === 'fastify')?.ratios?.cpu;
    return [found.scenario.title, ...cells, ratio ? withInterval(ratio) : '', judged(fastifyVerdicts(found).cpu)];
  });
  return table(['CPU µs', ...SIDES.map(labelOf), 'ratio', 'goal'], rows);
}

function rates({ scenarios }: Results): string {
  const rows = scenarios
    .filter(({ scenario }) => !scenario.perSecond)
    .map((found) => {
      const cells = SIDES.map((side) => {
        const interval = intervalOf(found, side, 'rate');
        return interval ? withInterval(interval) : '–';
      });
      const ratio = linesOf(found).find(({ side }) => side === 'fastify')?.ratios?.rate;
      return [found.scenario.title, ...cells, ratio ? withInterval(ratio) : '', judged(fastifyVerdicts(found).rate)];
    });
  return table(['requests/s', ...SIDES.map(labelOf), 'ratio', 'goal'], rows);
}

/** The goals that are not compared with Fastify + pg. */
function goals(results: Results): string {
  const line = (verdict: Verdict) => `- ${verdict.what}: ${verdict.found}; ${judged(verdict)}`;
  return otherVerdicts(results).map(line).join('\n');
}

function missed(results: Results): string {
  const line = ({ what, found, wanted, since, why }: Verdict) =>
    `- ${what}: ${found} (${wanted}, set on ${since}). ${why ?? 'The cause is not known yet.'}`;
  const lines = missedGoals(results).map(line);
  return lines.length === 0 ? 'None.' : lines.join('\n');
}

function pooled({ pooled = [] }: Results): string {
  const rows = pooled.flatMap(({ title, rounds }) => {
    const cells = (kind: 'pooled' | 'direct') => {
      const middle = (figure: (each: (typeof rounds)[number]['pooled']) => number) =>
        digits(median(rounds.map((round) => figure(round[kind]))));
      return [
        middle(({ programCpuUs }) => programCpuUs),
        middle(({ postgresCpuUs }) => postgresCpuUs),
        kind === 'pooled' ? middle(({ poolerCpuUs }) => poolerCpuUs) : '–',
      ];
    };
    return [
      [title, ...cells('pooled')],
      ['the same, direct', ...cells('direct')],
    ];
  });
  return table(['CPU µs', 'service', 'PostgreSQL', 'PgBouncer'], rows);
}

/** What operators ask first. */
function operation({ operators = [] }: Results): string {
  const line = (title: string, figure: (found: OperatorFigures) => number) => {
    const found = SIDES.map((name) => operators.find(({ side }) => side === name));
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

function remarks({ scenario }: ScenarioResults, line: ReturnType<typeof linesOf>[number]): string[] {
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

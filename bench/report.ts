import { readFileSync } from 'node:fs';
import type { OperatorFigures } from './operators.ts';
import type { Results, ScenarioResults } from './results.ts';
import type { Contender, Scenario } from './scenarios.ts';
import { labelOf } from './sides.ts';
import {
  digits,
  fastifyVerdicts,
  isQuietList,
  linesOf,
  verdicts,
  withInterval,
  type Line,
  type Verdict,
} from './summary.ts';

/** The programs of the page's main table. */
const COMPARED = ['service', 'fastify', 'nest'] as const;

export function isCompared(contender: Contender): boolean {
  return (COMPARED as readonly Contender[]).includes(contender);
}

const groups: readonly [heading: string, belongs: (scenario: Scenario) => boolean][] = [
  ['Lists, nothing written meanwhile', isQuietList],
  ['Lists while stock changes', (scenario) => ['list', 'anew'].includes(scenario.kind) && !isQuietList(scenario)],
  ['Lists that have not changed (`If-None-Match`, 304)', ({ kind }) => kind === 'unchanged'],
  ['Updates', ({ kind }) => kind === 'update' || kind === 'hot'],
];

/** The text of docs/performance.md: page.md with the results in its `{{…}}`. */
export function report(results: Results): string {
  const { machine, startedAt, minutes, postgresVersion, warmUpSeconds } = results;
  const named = Object.entries(machine.versions).filter(([name]) => name !== 'express');
  const versions = named.map(([name, version]) => `${name} ${version}`);
  const found: Record<string, string | number> = {
    minutes,
    date: startedAt.slice(0, 10),
    machine: `${machine.processor}, ${machine.cores} cores, ${machine.memoryGb} GB, Linux ${machine.kernel}, load ${digits(machine.loadAtStart)} at the start`,
    versions: [`PostgreSQL ${postgresVersion}`, ...versions].join(', '),
    goals: goals(results),
    withdrawals: withdrawals(results),
    comparison: comparison(results),
    operation: operation(results),
    firstWarmUp: warmUpSeconds.first,
    longWarmUp: warmUpSeconds.long,
    laterWarmUp: warmUpSeconds.later,
  };
  const page = readFileSync(new URL('page.md', import.meta.url), 'utf8').replaceAll('](../docs/', '](');
  return page.replaceAll(/{{(\w+)}}/g, (_, name: string) => String(found[name]));
}

/** All tables, for the terminal. */
export function tables(results: Results): string {
  const all = [figures(results), comparison(results), goals(results), withdrawals(results), operation(results)];
  return all.filter((table) => table !== '').join('\n\n');
}

function figures(results: Results): string {
  const tables = groups.flatMap(([heading, belongs]) => {
    const found = results.scenarios.filter(({ scenario }) => belongs(scenario));
    return found.length === 0 ? [] : [`### ${heading}`, scenariosTable(found)];
  });
  const excluded = results.disqualified.map(
    ({ contender, scenario, reason }) => `- ${contender}, ${scenario}: ${reason}`,
  );
  if (excluded.length > 0) tables.push('Not measured:', excluded.join('\n'));
  return tables.join('\n\n');
}

/** The goals that are not compared with Fastify + pg. */
function goals(results: Results): string {
  const shown = verdicts(results).filter(({ withdrawn, reached }) => reached || !withdrawn);
  return shown.map((verdict) => `- ${brief(verdict.what)}: ${judged(verdict)}`).join('\n');
}

/** Long lists are read over 8 connections, those of a million pets over 2, as the page says once. */
function brief(title: string): string {
  return title.replace(/(,000 pets.*), [82] connections/, '$1');
}

function judged(verdict: Verdict | undefined): string {
  if (!verdict) return '';
  const { found, wanted, reached, withdrawn } = verdict;
  return `${found} (${wanted.replace(' ', '')}) ${reached ? 'yes' : withdrawn ? 'withdrawn' : '**no**'}`;
}

/** A sentence for each reason, with the goals that it is for. */
function withdrawals(results: Results): string {
  const names = { rate: 'requests/s', cpu: 'CPU', p99: 'p99' };
  const compared = results.scenarios.flatMap((found) =>
    Object.entries(fastifyVerdicts(found)).map(([figure, verdict]) => ({
      ...verdict,
      what: `${verdict.what} (${names[figure as keyof typeof names]})`,
    })),
  );
  const withdrawn = [...compared, ...verdicts(results)].filter(({ withdrawn, reached }) => withdrawn && !reached);
  const reasons = Map.groupBy(withdrawn, (verdict) => verdict.withdrawn);
  return [...reasons]
    .map(
      ([reason, of]) =>
        `- ${of.map(({ what, found, wanted }) => `${what}, ${found} (${wanted})`).join('; ')}: ${reason}`,
    )
    .join('\n');
}

/** The scenarios with a goal against Fastify: a column for each program. */
function comparison({ scenarios }: Results): string {
  const rates = scenarios.flatMap((found) => {
    if (!found.scenario.targets.some(({ against }) => against === 'fastify')) return [];
    const lines = COMPARED.map((program) => linesOf(found).find(({ contender }) => contender === program));
    const cells = lines.map((line) => (line ? digits(line.requestsPerSecond) : '–'));
    const { rate, cpu, p99 } = fastifyVerdicts(found);
    return [[brief(found.scenario.title), ...cells, ...[rate, cpu, p99].map(judged)]];
  });
  return table(['requests/s', 'this service', 'Fastify + pg', 'NestJS + Prisma', 'ratio', 'CPU', 'p99'], rates);
}

/** What operators ask first. */
function operation({ operators = [] }: Results): string {
  const line = (title: string, figure: (found: OperatorFigures) => number) => {
    const found = COMPARED.map((program) => operators.find(({ side }) => side === program));
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

function scenariosTable(found: readonly ScenarioResults[]): string {
  const rows = found.flatMap((each) =>
    linesOf(each).map((line, index) => [
      index === 0 ? each.scenario.title : '',
      labelOf(line.contender),
      digits(line.requestsPerSecond),
      line.ratio ? withInterval(line.ratio) : '',
      `${digits(line.p50Ms)} / ${digits(line.p99Ms)}`,
      `${digits(line.programCpuUs)} + ${digits(line.postgresCpuUs)}`,
      digits(line.peakMemoryMb),
      remarks(each.scenario, line).join('; '),
    ]),
  );
  return table(['scenario', 'program', 'requests/s', 'times', 'p50 / p99 ms', 'CPU µs', 'MB', 'remarks'], rows);
}

function remarks({ updatesPerSecond }: Scenario, line: Line): string[] {
  const found = [...line.faults];
  if (updatesPerSecond > 0) found.unshift(`${digits(line.updatesPerSecond)} updates/s done`);
  if (line.failures > 0) found.unshift(`${line.failures} failed`);
  return found;
}

/** Nothing where nothing was measured. */
function table(head: readonly string[], rows: readonly (readonly string[])[]): string {
  if (rows.length === 0) return '';
  const line = (cells: readonly string[]) => `| ${cells.join(' | ')} |`;
  return [line(head), line(head.map(() => '---')), ...rows.map(line)].join('\n');
}

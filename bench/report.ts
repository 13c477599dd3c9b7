import { readFileSync } from 'node:fs';
import type { Results, ScenarioResults } from './results.ts';
import type { Scenario } from './scenarios.ts';
import { labelOf } from './sides.ts';
import { digits, isQuietList, linesOf, shares, verdicts, withInterval, type Line, type Verdict } from './summary.ts';

/** Of the two ideas that the peer "NestJS + Prisma" does without. */
const IDEAS_LINES = ['list-cache', 'stock-list', 'quantity-updates', 'update-statement', 'update-chain']
  .map((name) => readFileSync(new URL(`../src/inventory/${name}.ts`, import.meta.url), 'utf8').split('\n').length - 1)
  .reduce((sum, lines) => sum + lines);

const groups: readonly [heading: string, belongs: (scenario: Scenario) => boolean][] = [
  ['Lists, nothing written meanwhile', isQuietList],
  [
    'Lists while stock changes',
    (scenario) => ['list', 'anew', 'mixed'].includes(scenario.kind) && !isQuietList(scenario),
  ],
  ['Lists that have not changed (`If-None-Match`, 304)', ({ kind }) => kind === 'unchanged'],
  ['Updates', ({ kind }) => kind === 'update' || kind === 'hot'],
];

/** The whole of docs/performance.md: page.md with what was found in its `{{…}}`. */
export function report(results: Results): string {
  const { machine, startedAt, minutes, postgresVersion, pgbenchClients, warmUpSeconds } = results;
  const versions = Object.entries(machine.versions).map(([name, version]) => `${name} ${version}`);
  const found: Record<string, string | number> = {
    minutes,
    date: startedAt.slice(0, 10),
    machine: `${machine.processor}, ${machine.cores} cores, ${machine.memoryGb} GB, Linux ${machine.kernel}, load ${digits(machine.loadAtStart)} at the start`,
    versions: [`PostgreSQL ${postgresVersion}`, ...versions].join(', '),
    goals: goals(results),
    shares: sharesTable(results),
    operators: operatorsTable(results),
    figures: figures(results),
    ideasLines: IDEAS_LINES,
    firstWarmUp: warmUpSeconds.first,
    longWarmUp: warmUpSeconds.long,
    laterWarmUp: warmUpSeconds.later,
    limit: pgbenchClients
      ? `pgbench sends the peers' update with its history row from ${pgbenchClients} clients, the number at which it was fastest of 8, 16, 32 and 64, without HTTP, keys or JSON.`
      : 'pgbench was not installed, so that limit is missing.',
  };
  const page = readFileSync(new URL('page.md', import.meta.url), 'utf8').replaceAll('](../docs/', '](');
  return page.replaceAll(/{{(\w+)}}/g, (_, name: string) => String(found[name]));
}

/** What is told on the terminal: the tables alone. */
export function tables(results: Results): string {
  const all = [figures(results), sharesTable(results), operatorsTable(results), goals(results)];
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

function goals(results: Results): string {
  return verdictTable(['this service', 'wanted', 'measured', 'reached'], verdicts(results));
}

function sharesTable(results: Results): string {
  return verdictTable(['lists/s of this service', 'wanted', 'share of the same without', 'reached'], shares(results));
}

function verdictTable(head: readonly string[], found: readonly Verdict[]): string {
  const told = (reached?: boolean) => (reached === undefined ? '' : reached ? 'yes' : '**no**');
  const rows = found.map(({ what, wanted, found, reached }) => [what, wanted, found, told(reached)]);
  return table(head, rows);
}

function operatorsTable({ operators = [] }: Results): string {
  const head = [
    'program',
    'cold start to ready, ms',
    'memory idle, MB',
    'after one list of 10,000, MB',
    'list of 1,000 at 50/s, p99 ms',
    'update at 50/s, p99 ms',
  ];
  const rows = operators.map(({ side, ...found }) => [
    labelOf(side),
    ...[found.coldStartMs, found.idleMb, found.afterListMb, found.listP99Ms, found.updateP99Ms].map(digits),
  ]);
  return table(head, rows);
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

function remarks({ updatesPerSecond, elsewhere }: Scenario, line: Line): string[] {
  const found = [...line.faults];
  if (updatesPerSecond > 0 && !elsewhere) found.unshift(`${digits(line.updatesPerSecond)} updates/s done`);
  if (line.failures > 0) found.unshift(`${line.failures} failed`);
  return found;
}

/** Nothing where nothing was measured. */
function table(head: readonly string[], rows: readonly (readonly string[])[]): string {
  if (rows.length === 0) return '';
  const line = (cells: readonly string[]) => `| ${cells.join(' | ')} |`;
  return [line(head), line(head.map(() => '---')), ...rows.map(line)].join('\n');
}

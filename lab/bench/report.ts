import { readFileSync } from 'node:fs';
import type { Results, ScenarioResults } from './results.ts';
import type { Figure } from './scenarios.ts';
import { labelOf, type SideName } from './sides.ts';
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
  const { machine, startedAt, minutes, postgresVersion } = results;
  const versions = Object.entries(machine.versions).map(([name, version]) => `${name} ${version}`);
  const found: Record<string, string | number> = {
    minutes,
    date: startedAt.slice(0, 10),
    machine: `${machine.processor}, ${machine.cores} cores, ${machine.memoryGb} GB, Linux ${machine.kernel}, load ${digits(machine.loadAtStart)} at the start`,
    versions: [`PostgreSQL ${postgresVersion}`, ...versions].join(', '),
    cpu: cpu(results),
    rates: rates(results),
    missed: missed(results),
  };
  const page = readFileSync(new URL('page.md', import.meta.url), 'utf8').replaceAll('](../docs/', '](');
  return page.replaceAll(/{{(\w+)}}/g, (_, name: string) => String(found[name]));
}

/** All figures, for the terminal. */
export function tables(results: Results): string {
  return [figures(results), cpu(results), rates(results), missed(results), goals(results)].join('\n\n');
}

function judged({ wanted, since, reached }: Verdict): string {
  return `${wanted.replace(' ', '')} (${since}): ${reached ? 'yes' : '**no**'}`;
}

/** A row for each scenario: figures of the sides, and this service's ratio to Fastify + pg with its goal. */
function compared(
  results: Results,
  figure: Figure,
  isShown: (found: ScenarioResults['scenario']) => boolean,
  cells: (side: (name: SideName) => Line | undefined) => (number | undefined)[],
): string[][] {
  const verdicts = scenarioVerdicts(results).filter((each) => each.figure === figure && each.against === 'fastify');
  return results.scenarios
    .filter(({ scenario }) => isShown(scenario))
    .map((found) => {
      const lines = linesOf(found);
      const side = (name: SideName) => lines.find((each) => each.side === name);
      const ratio = side('fastify')?.ratios?.[figure];
      const verdict = verdicts.find(({ scenario }) => scenario.name === found.scenario.name);
      return [
        found.scenario.title,
        ...cells(side).map((value) => digits(value ?? NaN)),
        ratio ? withInterval(ratio) : '',
        verdict ? judged(verdict) : '',
      ];
    });
}

function cpu(results: Results): string {
  const isShown: Parameters<typeof compared>[2] = ({ kind, perSecond }) => kind !== 'hot' && perSecond === undefined;
  const rows = compared(results, 'cpu', isShown, (side) => [
    side('service')?.cpuUs.median,
    side('service')?.postgresCpuUs,
    side('fastify')?.cpuUs.median,
    side('nest')?.cpuUs.median,
  ]);
  return table(
    ['CPU µs', labelOf('service'), 'of it PostgreSQL', labelOf('fastify'), labelOf('nest'), 'ratio', 'goal'],
    rows,
  );
}

function rates(results: Results): string {
  const isShown: Parameters<typeof compared>[2] = ({ sides }) => sides.includes('fastify');
  const rows = compared(results, 'rate', isShown, (side) => [
    side('service')?.rate.median,
    side('fastify')?.rate.median,
  ]);
  return table(['requests/s', labelOf('service'), labelOf('fastify'), 'ratio', 'goal'], rows);
}

function allVerdicts(results: Results): Verdict[] {
  return [...scenarioVerdicts(results), ...wholeReadingVerdicts(results)];
}

/** The goals that are not compared with Fastify + pg. */
function goals(results: Results): string {
  const others = allVerdicts(results).filter((each) => !('against' in each && each.against === 'fastify'));
  return others.map((each) => `- ${each.what}, ${withInterval(each.found)}${each.unit}; ${judged(each)}`).join('\n');
}

/** Why goals were missed: one sentence for those with the same reason. */
function missed(results: Results): string {
  const reasons = allVerdicts(results).flatMap(({ reached, why }) =>
    reached ? [] : [why ?? 'The cause is not known yet.'],
  );
  return reasons.length === 0
    ? 'No goal was missed.'
    : `The reason for each **no**: ${[...new Set(reasons)].join(' ')}`;
}

/** Each program in each scenario. */
function figures({ scenarios }: Results): string {
  const rows = scenarios.flatMap((found) =>
    linesOf(found).map((line, index) => {
      const { programCpuUs, postgresCpuUs, poolerCpuUs } = line;
      const parts = [programCpuUs, postgresCpuUs, ...(line.side === 'pooled' ? [poolerCpuUs] : [])];
      return [
        index === 0 ? found.scenario.title : '',
        labelOf(line.side),
        `${withInterval(line.cpuUs)}: ${parts.map(digits).join(' + ')}`,
        withInterval(line.rate),
        remarks(found, line).join('; '),
      ];
    }),
  );
  return table(['scenario', 'program', 'CPU µs: program + PostgreSQL', 'requests/s', 'remarks'], rows);
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

// npm run bench -- [--quick] [--only <part of a scenario's name>] [--report] [--replicas <rounds>]
import { execFileSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { readFile, writeFile } from 'node:fs/promises';
import { parseArgs } from 'node:util';
import { projectFolder } from '../dev/build.ts';
import { hasPooler } from '../test/support/pooler.ts';
import { benchmark } from './benchmark.ts';
import { describeMachine } from './machine.ts';
import { WARM_UP_SECONDS } from './measure.ts';
import { measureOperators, measureWholeReading } from './operators.ts';
import { minutesOf, planTurns } from './plan.ts';
import { measurePooled, pooledRows } from './pooled.ts';
import { compareReplicas } from './replicas.ts';
import { report, tables } from './report.ts';
import type { Results } from './results.ts';
import { scenarios } from './scenarios.ts';

const { values: options } = parseArgs({
  options: {
    quick: { type: 'boolean', default: false },
    only: { type: 'string' },
    /** Measures nothing: prints all figures of the last full run, and writes its page and its plot anew. */
    report: { type: 'boolean', default: false },
    /** Measures two replicas beside one instead. */
    replicas: { type: 'string' },
  },
});
const resultsFile = new URL('results/full.json', import.meta.url);
/** What a run has measured so far. */
const unfinishedFile = new URL('results/unfinished.json', import.meta.url);

interface Part {
  name: string;
  minutes: number;
  measureIt: (quick: boolean, results: Results) => Promise<Partial<Results>>;
}

/** Measured beside the scenarios. */
const specialParts: readonly Part[] = [
  { name: 'operators', minutes: 2.3, measureIt: async () => ({ operators: await measureOperators() }) },
  { name: 'whole-reading', minutes: 0.5, measureIt: async () => ({ wholeReading: await measureWholeReading() }) },
  ...pooledRows.map((row) => ({
    name: row.name,
    minutes: 7,
    measureIt: async (quick: boolean, { pooled = [] }: Results) => ({
      pooled: [...pooled, await measurePooled(row, quick)],
    }),
  })),
];

if (!existsSync(new URL('node_modules', import.meta.url))) npm('ci', '--prefix', 'bench', '--no-audit', '--no-fund');

if (options.report) {
  const results = withPresentGoals(JSON.parse(await readFile(resultsFile, 'utf8'), nullToNaN) as Results);
  console.log(tables(results));
  await writeReport(results);
} else if (options.replicas !== undefined) {
  npm('run', '--silent', 'build');
  await compareReplicas(Number(options.replicas));
} else {
  npm('run', '--silent', 'build');
  await measureAll(options);
}

async function measureAll({ only, quick }: { only?: string; quick: boolean }): Promise<void> {
  const isAsked = (name: string, isQuick = false) => (only ? name.includes(only) : !quick || isQuick);
  const chosen = scenarios
    .filter((scenario) => isAsked(scenario.name, scenario.quick))
    .map((scenario) => (quick ? { ...scenario, rounds: 2, others: [] } : scenario));
  let parts = specialParts.filter(({ name }) => isAsked(name));
  if (chosen.length + parts.length === 0) {
    const names = [...scenarios, ...specialParts].map(({ name }) => name);
    throw new Error(`no scenario is called like that; there are ${names.join(', ')}`);
  }

  const isPooled = ({ name }: Part) => name.startsWith('pooled');
  if (parts.some(isPooled) && !hasPooler()) {
    console.log(
      'Lists behind a pooler are left out: there is no PgBouncer 1.21 or later (PGBOUNCER names the program).',
    );
    parts = parts.filter((part) => !isPooled(part));
  }

  const turns = planTurns(chosen);
  const planned = parts.reduce((sum, { minutes }) => sum + minutes, minutesOf(turns));
  console.log(`${turns.length} turns and ${parts.length} other parts, about ${Math.ceil(planned)} minutes`);
  const started = Date.now();
  const results: Results = {
    machine: describeMachine(),
    startedAt: new Date(started).toISOString(),
    minutes: 0,
    warmUpSeconds: WARM_UP_SECONDS,
    postgresVersion: '',
    scenarios: [],
    disqualified: [],
  };
  const keep = async (found: Partial<Results>): Promise<void> => {
    Object.assign(results, found, { minutes: Math.round((Date.now() - started) / 6_000) / 10 });
    await writeFile(unfinishedFile, `${JSON.stringify(results, toFourDigits)}\n`);
  };
  const steps: [name: string, measureIt: () => Promise<void>][] = parts.map(({ name, measureIt }) => [
    name,
    async () => keep(await measureIt(quick, results)),
  ]);
  if (turns.length > 0) steps.push(['scenarios', () => benchmark(turns, keep)]);
  const failures: string[] = [];
  for (const [name, measureIt] of steps) {
    await measureIt().catch((error: unknown) => {
      console.error(error);
      failures.push(`${name} failed: ${(error as Error).message}`);
    });
  }

  console.log(`\n${[tables(results), ...failures].join('\n')}`);
  if (failures.length > 0) process.exitCode = 1;
  if (only || quick) return;
  await writeFile(resultsFile, `${JSON.stringify(results, toFourDigits)}\n`);
  await writeReport(results);
}

/** Goals with the reasons that are known now. */
function withPresentGoals(results: Results): Results {
  const found = results.scenarios.flatMap(({ scenario, rounds }) => {
    const present = scenarios.find(({ name }) => name === scenario.name);
    return present ? [{ scenario: present, rounds }] : [];
  });
  return { ...results, scenarios: found };
}

async function writeReport(results: Results): Promise<void> {
  const { plot } = await import('./plot.ts');
  const docs = new URL('../docs/', import.meta.url);
  await writeFile(new URL('performance.svg', docs), await plot(results));
  await writeFile(new URL('performance.md', docs), report(results));
}

function toFourDigits(_name: string, value: unknown): unknown {
  return typeof value === 'number' && !Number.isInteger(value) ? Number(value.toPrecision(4)) : value;
}

/** JSON has no NaN, which stands for what was not measured. */
function nullToNaN(_name: string, value: unknown): unknown {
  return value ?? NaN;
}

function npm(...args: string[]): void {
  execFileSync('npm', ['--loglevel=error', ...args], { cwd: projectFolder, stdio: 'inherit' });
}

// npm run bench -- [--rounds <most>] [--only <part of a scenario's name>] [--into <folder>]
// npm run bench -- --report | --compare <results> <results> | --replicas <rounds>
import { execFileSync } from 'node:child_process';
import { existsSync, mkdirSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { resolve } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { parseArgs } from 'node:util';
import { format, resolveConfig } from 'prettier';
import { projectFolder } from '../dev/build.ts';
import { hasPooler } from '../test/support/pooler.ts';
import { benchmark } from './benchmark.ts';
import { compareRuns } from './compare.ts';
import { describeMachine } from './machine.ts';
import { WARM_UP_SECONDS } from './measure.ts';
import { measureOperators, measureWholeReading } from './operators.ts';
import { minutesOf, planTurns } from './plan.ts';
import { compareReplicas } from './replicas.ts';
import { report, tables } from './report.ts';
import { readResults, resultsText, withPresentReasons, type Results } from './results.ts';
import { scenarios } from './scenarios.ts';

const { values: options, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    /** Fewer rounds than a whole run has. */
    rounds: { type: 'string', default: 'Infinity' },
    only: { type: 'string' },
    /** A folder for the results, the page and its picture. Without it, only a whole run writes them, into the project. */
    into: { type: 'string' },
    /** Measures nothing: prints all figures of the last whole run, and writes its page and its picture anew. */
    report: { type: 'boolean', default: false },
    /** Measures nothing: says whether two runs, named by their files of results, agree. */
    compare: { type: 'boolean', default: false },
    /** Measures two replicas beside one instead. */
    replicas: { type: 'string' },
  },
});

interface Output {
  results: URL;
  docs: URL;
}

const project: Output = {
  results: new URL('results/full.json', import.meta.url),
  docs: new URL('../docs/', import.meta.url),
};
/** What a run has measured so far. */
const unfinishedFile = new URL('results/unfinished.json', import.meta.url);

interface Part {
  name: string;
  minutes: number;
  measureIt: () => Promise<Partial<Results>>;
}

/** Measured beside the scenarios. */
const specialParts: readonly Part[] = [
  { name: 'operators', minutes: 2.3, measureIt: async () => ({ operators: await measureOperators() }) },
  { name: 'whole-reading', minutes: 0.5, measureIt: async () => ({ wholeReading: await measureWholeReading() }) },
];

if (options.compare) {
  const [first, second] = positionals;
  if (first === undefined || second === undefined) throw new Error('--compare needs two files of results');
  const { lines, agree } = compareRuns(await readResults(first), await readResults(second));
  const verdict = agree
    ? 'The runs agree.'
    : 'The runs do not agree: of each figure, both need ten rounds, and intervals that overlap.';
  console.log([...lines, verdict].join('\n'));
  if (!agree) process.exitCode = 1;
} else {
  if (!existsSync(new URL('node_modules', import.meta.url))) npm('ci', '--prefix', 'bench', '--no-audit', '--no-fund');
  if (options.report) {
    const results = withPresentReasons(await readResults(project.results));
    console.log(tables(results));
    await writeReport(results, project.docs);
  } else {
    npm('run', '--silent', 'build');
    if (options.replicas === undefined) await measureAll(options);
    else await compareReplicas(Number(options.replicas));
  }
}

async function measureAll({ only, rounds, into }: { only?: string; rounds: string; into?: string }): Promise<void> {
  const isAsked = ({ name }: { name: string }) => only === undefined || name.includes(only);
  const mostRounds = Number(rounds);
  if (!(mostRounds >= 1)) throw new Error('--rounds needs a number from 1 on');
  const asked = scenarios.filter(isAsked).map((each) => ({ ...each, rounds: Math.min(each.rounds, mostRounds) }));
  const parts = specialParts.filter(isAsked);
  if (asked.length + parts.length === 0) {
    const names = [...scenarios, ...specialParts].map(({ name }) => name);
    throw new Error(`no scenario is called like that; there are ${names.join(', ')}`);
  }
  const isWhole = only === undefined && mostRounds >= Math.max(...scenarios.map((each) => each.rounds));
  const isPooled = asked.some(({ sides }) => sides.includes('pooled'));
  if (isPooled && !hasPooler()) {
    throw new Error('there is no PgBouncer 1.21 or later; install it, or name its program in PGBOUNCER');
  }

  const turns = planTurns(asked);
  const planned = Math.ceil(parts.reduce((sum, { minutes }) => sum + minutes, minutesOf(turns)));
  console.log(`${turns.length} turns and ${parts.length} other parts, about ${planned} minutes`);
  const started = Date.now();
  const minutes = () => Math.round((Date.now() - started) / 6_000) / 10;
  const passed = () => `${minutes()} of ${planned} min`;
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
    Object.assign(results, found, { minutes: minutes() });
    await writeFile(unfinishedFile, resultsText(results));
  };
  const steps: [name: string, measureIt: () => Promise<void>][] = parts.map(({ name, measureIt }) => [
    name,
    async () => {
      console.log(`[${name}, ${passed()}]`);
      await keep(await measureIt());
    },
  ]);
  if (turns.length > 0) steps.push(['scenarios', () => benchmark(turns, keep, passed)]);
  const failures: string[] = [];
  for (const [name, measureIt] of steps) {
    await measureIt().catch((error: unknown) => {
      console.error(error);
      failures.push(`${name} failed: ${(error as Error).message}`);
    });
  }

  console.log(`\n${[tables(results), ...failures, `It took ${passed()}.`].join('\n')}`);
  if (failures.length > 0) process.exitCode = 1;
  const output = into === undefined ? project : outputIn(into);
  if (into === undefined && !isWhole) return;
  await writeFile(output.results, resultsText(results));
  await writeReport(results, output.docs);
  console.log(`The results are in ${output.results.pathname}, the page is in ${output.docs.pathname}`);
}

function outputIn(folder: string): Output {
  mkdirSync(folder, { recursive: true });
  const docs = pathToFileURL(`${resolve(folder)}/`);
  return { results: new URL('results.json', docs), docs };
}

async function writeReport(results: Results, docs: URL): Promise<void> {
  const { plot } = await import('./plot.ts');
  await writeFile(new URL('performance.svg', docs), await plot(results));
  const style = await resolveConfig(fileURLToPath(project.docs));
  await writeFile(new URL('performance.md', docs), await format(report(results), { ...style, parser: 'markdown' }));
}

function npm(...args: string[]): void {
  execFileSync('npm', ['--loglevel=error', ...args], { cwd: projectFolder, stdio: 'inherit' });
}

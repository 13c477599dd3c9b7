// npm run bench -- [--rounds <most>] [--only <part of a scenario's name>] [--into <folder>]
// npm run bench -- --report
import { execFileSync } from 'node:child_process';
import { existsSync, mkdirSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { resolve } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { parseArgs } from 'node:util';
import { format, resolveConfig } from 'prettier';
import { projectFolder } from '../../dev/build.ts';
import { HAS_POOLER } from '../../test/support/pooler.ts';
import { benchmark } from './benchmark.ts';
import { describeMachine } from './machine.ts';
import { WARM_UP_SECONDS } from './measure.ts';
import { planTurns } from './plan.ts';
import { report, tables } from './report.ts';
import { readResults, resultsText, withPresentReasons, type Results } from './results.ts';
import { scenarios } from './scenarios.ts';
import { measureWholeReading } from './whole-reading.ts';

const { values: options } = parseArgs({
  options: {
    /** Fewer rounds than a whole run has. */
    rounds: { type: 'string', default: 'Infinity' },
    only: { type: 'string' },
    /** A folder for the results and the page. Without it, only a whole run writes them, into the project. */
    into: { type: 'string' },
    /** Measures nothing: prints all figures of the last whole run, and writes its page anew. */
    report: { type: 'boolean', default: false },
  },
});

const project = { results: new URL('results/full.json', import.meta.url), docs: new URL('../../docs/', import.meta.url) };
const WHOLE_READING = 'whole-reading';

if (options.report) {
  const results = withPresentReasons(await readResults(project.results));
  console.log(tables(results));
  await writeReport(results, project.docs);
} else {
  if (!existsSync(new URL('node_modules', import.meta.url))) npm('ci', '--prefix', 'bench', '--no-audit', '--no-fund');
  npm('run', '--silent', 'build');
  await measureAll(options);
}

async function measureAll({ only, rounds, into }: { only?: string; rounds: string; into?: string }): Promise<void> {
  const isAsked = (name: string) => only === undefined || name.includes(only);
  const mostRounds = Number(rounds);
  if (!(mostRounds >= 1)) throw new Error('--rounds needs a number from 1 on');
  const asked = scenarios
    .filter(({ name }) => isAsked(name))
    .map((each) => ({ ...each, rounds: Math.min(each.rounds, mostRounds) }));
  if (asked.length === 0 && !isAsked(WHOLE_READING)) {
    const names = [...scenarios.map(({ name }) => name), WHOLE_READING];
    throw new Error(`no scenario is called like that; there are ${names.join(', ')}`);
  }
  if (asked.some(({ sides }) => sides.includes('pooled')) && !HAS_POOLER) {
    throw new Error('there is no PgBouncer 1.21 or later; install it, or name its program in PGBOUNCER');
  }

  const machine = describeMachine();
  const started = Date.now();
  const wholeReading = isAsked(WHOLE_READING) ? await measureWholeReading() : undefined;
  const measured = await benchmark(planTurns(asked));
  const minutes = Math.round((Date.now() - started) / 6_000) / 10;
  const startedAt = new Date(started).toISOString();
  const results: Results = { machine, startedAt, minutes, warmUpSeconds: WARM_UP_SECONDS, ...measured, wholeReading };

  console.log(`\n${tables(results)}\n\nIt took ${minutes} min.`);
  const isWhole = only === undefined && mostRounds >= Math.max(...scenarios.map((each) => each.rounds));
  if (into === undefined && !isWhole) return;
  const output = into === undefined ? project : outputIn(into);
  await writeFile(output.results, resultsText(results));
  await writeReport(results, output.docs);
  console.log(`The results are in ${output.results.pathname}, the page is in ${output.docs.pathname}`);
}

function outputIn(folder: string): typeof project {
  mkdirSync(folder, { recursive: true });
  const docs = pathToFileURL(`${resolve(folder)}/`);
  return { results: new URL('results.json', docs), docs };
}

async function writeReport(results: Results, docs: URL): Promise<void> {
  const style = await resolveConfig(fileURLToPath(project.docs));
  await writeFile(new URL('performance.md', docs), await format(report(results), { ...style, parser: 'markdown' }));
}

function npm(...args: string[]): void {
  execFileSync('npm', ['--loglevel=error', ...args], { cwd: projectFolder, stdio: 'inherit' });
}

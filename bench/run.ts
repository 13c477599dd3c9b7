// npm run bench -- [--quick] [--only <part of a scenario's name>] [--report] [--replicas <rounds>]
import { execFileSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { readFile, writeFile } from 'node:fs/promises';
import { parseArgs } from 'node:util';
import { projectFolder } from '../dev/build.ts';
import { benchmark } from './benchmark.ts';
import { describeMachine } from './machine.ts';
import { WARM_UP_SECONDS } from './measure.ts';
import { measureOperators, measureWholeReading } from './operators.ts';
import { planTurns } from './plan.ts';
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

if (!existsSync(new URL('node_modules', import.meta.url))) npm('ci', '--prefix', 'bench', '--no-audit', '--no-fund');

if (options.report) {
  const results = JSON.parse(await readFile(resultsFile, 'utf8'), nullToNaN) as Results;
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
  const machine = describeMachine();
  const isAsked = (name: string, isQuick = false) => (only ? name.includes(only) : !quick || isQuick);
  const chosen = scenarios
    .filter((scenario) => isAsked(scenario.name, scenario.quick))
    .map((scenario) => (quick ? { ...scenario, rounds: 2, seconds: 2, others: [] } : scenario));
  if (chosen.length === 0 && !isAsked('operators') && !isAsked('whole-reading')) {
    const names = [...scenarios.map(({ name }) => name), 'operators', 'whole-reading'];
    throw new Error(`no scenario is called like that; there are ${names.join(', ')}`);
  }

  const started = Date.now();
  const results: Results = {
    machine,
    startedAt: new Date(started).toISOString(),
    warmUpSeconds: WARM_UP_SECONDS,
    // First what ends the whole run where it fails.
    operators: isAsked('operators') ? await measureOperators() : undefined,
    wholeReading: isAsked('whole-reading') ? await measureWholeReading() : undefined,
    ...(await benchmark(planTurns(chosen))),
    minutes: Math.round((Date.now() - started) / 6_000) / 10,
  };
  console.log(`\n${tables(results)}`);
  if (only || quick) return;
  await writeFile(resultsFile, `${JSON.stringify(results, toFourDigits)}\n`);
  await writeReport(results);
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

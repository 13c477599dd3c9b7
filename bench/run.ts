// npm run bench -- [--quick] [--only <part of a scenario's name>] [--built] [--report] [--replicas <rounds>]
import { execFileSync } from 'node:child_process';
import { existsSync, symlinkSync } from 'node:fs';
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { describeMachine } from './machine.ts';
import { Benchmark } from './benchmark.ts';
import { planRuns } from './plan.ts';
import { report, tables } from './report.ts';
import type { Results } from './results.ts';
import { measureOperators, measureWholeReading } from './operators.ts';
import { scenarios } from './scenarios.ts';

const { values: options } = parseArgs({
  options: {
    quick: { type: 'boolean', default: false },
    only: { type: 'string' },
    /** Measures dist/ as it is. */
    built: { type: 'boolean', default: false },
    /** Measures nothing: writes the report and the plots of the last full run anew. */
    report: { type: 'boolean', default: false },
    /** Measures two replicas beside one instead. */
    replicas: { type: 'string' },
  },
});

const projectFolder = fileURLToPath(new URL('..', import.meta.url));
const resultsFile = new URL('results/full.json', import.meta.url);

if (!existsSync(new URL('node_modules', import.meta.url))) npm('ci', '--prefix', 'bench', '--no-audit', '--no-fund');

if (options.replicas !== undefined) {
  build();
  const { compareReplicas } = await import('./replicas.ts');
  await compareReplicas(Number(options.replicas));
} else if (options.report) {
  await writeReport(JSON.parse(await readFile(resultsFile, 'utf8'), nullToNaN) as Results);
} else {
  if (!options.built) build();
  const { only, quick } = options;
  const chosen = scenarios.filter((scenario) => (only ? scenario.name.includes(only) : !quick || scenario.quick));
  const asks = (part: string) => (only ? part.includes(only) : !quick);
  if (chosen.length === 0 && !asks('operators') && !asks('whole-reading')) {
    const names = [...scenarios.map(({ name }) => name), 'operators', 'whole-reading'];
    throw new Error(`no scenario is called like that; there are ${names.join(', ')}`);
  }

  const machine = describeMachine();
  const started = Date.now();
  const results: Results = {
    machine,
    startedAt: new Date(started).toISOString(),
    ...(await Benchmark.run(planRuns(chosen, quick))),
    ...(asks('operators') ? await orNothing('operators', measureOperators) : {}),
    ...(asks('whole-reading') ? await orNothing('wholeReading', measureWholeReading) : {}),
    minutes: Math.round((Date.now() - started) / 6_000) / 10,
  };
  console.log(`\n${tables(results)}`);
  if (!only && !quick) {
    await mkdir(new URL('.', resultsFile), { recursive: true });
    await writeFile(resultsFile, `${JSON.stringify(results, toFourDigits, 1)}\n`);
    await writeReport(results);
  }
}

function build(): void {
  npm('run', '--silent', 'build');
  execFileSync(process.execPath, ['node_modules/typescript/bin/tsc', '-p', 'bench/peers'], {
    cwd: projectFolder,
    stdio: 'inherit',
  });
  // The compiled sources look for these where they are beside src/.
  for (const name of ['package.json', 'prisma']) {
    const link = new URL(`dist/${name}`, import.meta.url);
    if (!existsSync(link)) symlinkSync(`../../${name}`, link);
  }
}

/** What fails here leaves the report without its table, not without all that was measured before. */
async function orNothing<Name extends string, T>(
  name: Name,
  measure: () => Promise<T>,
): Promise<Partial<Record<Name, T>>> {
  console.log(`${name} …`);
  try {
    return { [name]: await measure() } as Record<Name, T>;
  } catch (error) {
    console.error(`${name} could not be measured: ${(error as Error).message}`);
    return {};
  }
}

async function writeReport(results: Results): Promise<void> {
  const { plots } = await import('./plots.ts');
  const docs = new URL('../docs/', import.meta.url);
  for (const [name, svg] of Object.entries(await plots(results))) await writeFile(new URL(name, docs), svg);
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

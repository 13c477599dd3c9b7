// npm run --silent bench -- [--rounds <most>] [--only <part of a scenario's name>] > <file>
// The table goes to standard output, as Markdown for docs/performance.md. The progress goes to standard error.
import { execFileSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { parseArgs } from 'node:util';
import { projectFolder } from '../../dev/build.ts';
import { HAS_POOLER } from '../../test/support/pooler.ts';
import { benchmark } from './benchmark.ts';
import { describeMachine, watchDisturbance } from './machine.ts';
import { planTurns } from './plan.ts';
import { scenarios } from './scenarios.ts';
import { table } from './table.ts';
import { measureWholeReading } from './whole-reading.ts';

const { values: options } = parseArgs({
  options: {
    /** Fewer rounds than a whole run has. */
    rounds: { type: 'string', default: 'Infinity' },
    only: { type: 'string', default: '' },
  },
});

const WHOLE_READING = 'whole-reading';
const isChosen = (name: string) => name.includes(options.only);
const mostRounds = Number(options.rounds);
if (!(mostRounds >= 1)) throw new Error('--rounds needs a number from 1 on');
const chosen = scenarios
  .filter(({ name }) => isChosen(name))
  .map((each) => ({ ...each, rounds: Math.min(each.rounds, mostRounds) }));
if (chosen.length === 0 && !isChosen(WHOLE_READING)) {
  const names = [...scenarios.map(({ name }) => name), WHOLE_READING];
  throw new Error(`no scenario is called like that; there are ${names.join(', ')}`);
}
if (chosen.some(({ sides }) => sides.includes('pooled')) && !HAS_POOLER) {
  throw new Error('there is no PgBouncer 1.21 or later; install it, or name its program in PGBOUNCER');
}
if (!existsSync(new URL('node_modules', import.meta.url)))
  npm('ci', '--prefix', 'lab/bench', '--no-audit', '--no-fund');
npm('run', '--silent', 'build');
const machine = describeMachine();

const disturbance = watchDisturbance();
const started = new Date();
const readings = isChosen(WHOLE_READING) ? await measureWholeReading() : [];
const measured = await benchmark(planTurns(chosen));
const minutes = ((Date.now() - started.getTime()) / 60_000).toFixed(1);
console.log(
  `Measured on ${started.toISOString().slice(0, 10)} in ${minutes} minutes: ${disturbance()}.\n\n${machine}\n\n${table(measured, readings)}`,
);

function npm(...args: string[]): void {
  const stdio = ['inherit', process.stderr, 'inherit'] as const;
  execFileSync('npm', ['--loglevel=error', ...args], { cwd: projectFolder, stdio: [...stdio] });
}

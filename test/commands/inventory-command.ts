import { type ChildProcess, type ChildProcessWithoutNullStreams, fork, spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { expect } from 'vitest';
import { endWithUs } from '../../dev/child.ts';
import type { Database } from '../support/database.ts';
import type { Job, Reply } from './command-host.ts';

const CLI = join(import.meta.dirname, '../../dist/cli.js');

/** Arguments for an import from standard input. */
export const IMPORT_CSV = ['import', '-'];
export const END_MARK = '# end\n';
/** The last line of an export that failed. */
export const EXPORT_FAILED = '\n# failed\n';

export interface Outcome {
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

/** The outcome of a command that succeeded and wrote nothing to standard error. */
export function printed(stdout = ''): Outcome {
  return { code: 0, stdout, stderr: '' };
}

/** The outcome of a command that failed with one line. */
export function failed(line: string, stdout = ''): Outcome {
  return { code: 1, stdout, stderr: `error: ${line}\n` };
}

/** The command, as a shell script starts it. */
export const SHELL_COMMAND = `'${process.execPath}' '${CLI}'`;

/** Starts the real `inventory` command as a process of its own. */
export function startInventory(databaseUrl: string, args: readonly string[], environment: NodeJS.ProcessEnv = {}) {
  const env = { DATABASE_URL: databaseUrl, NODE_COMPILE_CACHE: process.env['NODE_COMPILE_CACHE'], ...environment };
  const follows = args.includes('--follow');
  const child = spawn(process.execPath, [CLI, ...args], { env, detached: follows });
  if (follows) endWithUs(child, 'KILL'); // the others end by themselves
  return child;
}

/** The environment of a process whose clock goes wrong. */
export function withClockAhead(ms: number): NodeJS.ProcessEnv {
  const shift = `const now = Date.now; Date.now = () => now() + ${ms};
    Date = new Proxy(Date, { construct: (date, values) => new date(...(values.length > 0 ? values : [Date.now()])) })`;
  return { NODE_OPTIONS: `--import data:text/javascript,${encodeURIComponent(shift)}` };
}

/** Waits for the end of a command. */
export async function outcomeOf(child: ChildProcessWithoutNullStreams): Promise<Outcome> {
  const [stdout, stderr] = await Promise.all([text(child.stdout), text(child.stderr), once(child, 'close')]);
  return { code: child.exitCode, stdout, stderr };
}

/** Processes that have run a command and can run the next one. */
const idleHosts: ChildProcess[] = [];

/**
 * Runs the command to its end, in a process that may have run others before: starts of processes would take a third of
 * the tests' time. {@link startInventory} gives it one of its own.
 */
export async function inventory(
  databaseUrl: string,
  args: readonly string[],
  input: string | Buffer = '',
  environment: NodeJS.ProcessEnv = {},
): Promise<Outcome> {
  const host = idleHosts.pop() ?? startHost();
  const { isReusable, ...outcome } = await new Promise<Reply>((resolve, reject) => {
    const fail = () => reject(new Error(`inventory ${args.join(' ')} ended its process`));
    host.once('exit', fail).once('message', (reply: Reply) => {
      host.off('exit', fail);
      resolve(reply);
    });
    host.send({ args, input, env: { DATABASE_URL: databaseUrl, ...environment } } satisfies Job);
  });
  if (isReusable) idleHosts.push(host);
  else host.disconnect();
  return outcome;
}

function startHost(): ChildProcess {
  const { NODE_COMPILE_CACHE } = process.env;
  const host = fork(join(import.meta.dirname, 'command-host.ts'), {
    env: { NODE_COMPILE_CACHE },
    execArgv: [],
    serialization: 'advanced',
  });
  host.unref();
  host.channel?.unref();
  return host;
}

/**
 * The sessions of a command that fulfil the condition: when the last statement of each began, in seconds since 1970.
 */
export function sessionsOf(command: string, database: Pick<Database, 'sql'>, condition = 'true') {
  return database.sql<{ at: string }>(
    `SELECT extract(epoch FROM query_start)::text AS at FROM pg_stat_activity
      WHERE datname = current_database() AND application_name = 'inventory ${command}' AND ${condition}`,
  );
}

export async function untilSessionOf(command: string, database: Database, condition: string): Promise<void> {
  const session = await database.session(); // for all of the wait
  const sql = async <Row extends object>(statement: string) => (await session.query<Row>(statement)).rows;
  await expect.poll(() => sessionsOf(command, { sql }, condition)).toHaveLength(1);
  await session.end();
}

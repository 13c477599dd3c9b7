import { type ChildProcessWithoutNullStreams, spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { expect } from 'vitest';
import { endWithUs } from '../../dev/child.ts';
import { MEMBERS } from '../../src/inventory/stock-item.ts';
import type { Database } from '../support/database.ts';

const CLI = join(import.meta.dirname, '../../dist/cli.js');

/** Arguments for an import from standard input. */
export const IMPORT_CSV = ['import', '-', '--format', 'csv'];
export const CSV_HEADER = `${MEMBERS.map(({ name }) => name).join()}\n`;
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

/** Waits for the end of a command. */
export async function outcomeOf(child: ChildProcessWithoutNullStreams): Promise<Outcome> {
  const [stdout, stderr] = await Promise.all([text(child.stdout), text(child.stderr), once(child, 'close')]);
  return { code: child.exitCode, stdout, stderr };
}

/** Runs the command to its end. */
export function inventory(
  databaseUrl: string,
  args: readonly string[],
  input: string | Buffer = '',
  environment: NodeJS.ProcessEnv = {},
): Promise<Outcome> {
  const child = startInventory(databaseUrl, args, environment);
  child.stdin.on('error', () => undefined); // a command that refuses its arguments reads no input
  child.stdin.end(input);
  return outcomeOf(child);
}

/** The sessions of a command that fulfil the condition: when the last statement of each began, in seconds since 1970. */
export function sessionsOf(command: string, database: Pick<Database, 'sql'>, condition = 'true') {
  return database.sql<{ at: string }>(
    `SELECT extract(epoch FROM query_start)::text AS at FROM pg_stat_activity
      WHERE datname = current_database() AND application_name = 'inventory ${command}' AND ${condition}`,
  );
}

export function untilSessionOf(command: string, database: Database, condition: string): Promise<void> {
  return expect.poll(() => sessionsOf(command, database, condition), { timeout: 40_000 }).toHaveLength(1);
}

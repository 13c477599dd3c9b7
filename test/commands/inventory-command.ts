import { type ChildProcess, type ChildProcessWithoutNullStreams, execFile, fork, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { type AddressInfo, createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { promisify } from 'node:util';
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
  { cwd = process.cwd(), clockAheadMs = 0 }: Partial<Pick<Job, 'cwd' | 'clockAheadMs'>> = {},
): Promise<Outcome> {
  const host = idleHosts.pop() ?? startHost();
  const { isReusable, ...outcome } = await new Promise<Reply>((resolve, reject) => {
    const fail = () => reject(new Error(`inventory ${args.join(' ')} ended its process`));
    host.once('exit', fail).once('message', (reply: Reply) => {
      host.off('exit', fail);
      resolve(reply);
    });
    const env = { DATABASE_URL: databaseUrl, ...environment };
    host.send({ args, input, env, cwd, clockAheadMs } satisfies Job);
  });
  if (isReusable) idleHosts.push(host);
  else host.disconnect();
  return outcome;
}

/**
 * Runs a script of bash in which `inventory` is the command: {@link inventory} runs it, when its input has ended.
 *
 * @throws if the script fails, with its output in the message
 */
export async function shell(script: string, databaseUrl: string, cwd: string): Promise<void> {
  const jobs = mkdtempSync(`${tmpdir()}/inventory-jobs-`);
  const server = createServer((socket) => {
    socket.once('data', (line: Buffer) => {
      const file = (name: string) => join(line.toString().trim(), name);
      const [url = '', folder = '', ...args] = readFileSync(file('args'), 'utf8').split('\0').slice(0, -1);
      void inventory(url, args, readFileSync(file('input')), {}, { cwd: folder }).then((outcome) => {
        for (const name of ['stdout', 'stderr'] as const) writeFileSync(file(name), outcome[name]);
        socket.end(`${outcome.code}\n`);
      });
    });
  });
  await once(server.listen(0, '127.0.0.1'), 'listening');
  const command = `set -e; inventory() {
    local job=$(mktemp -d '${jobs}/XXXXXX') host code
    cat > $job/input; printf '%s\\0' "$DATABASE_URL" "$PWD" "$@" > $job/args
    exec {host}<> /dev/tcp/127.0.0.1/${(server.address() as AddressInfo).port}
    echo $job >& $host; read -r code <& $host; exec {host}>&-
    cat $job/stdout; cat $job/stderr >&2; return $code
  }`;
  try {
    const ran = promisify(execFile)('bash', ['-c', `${command}\n${script}`], {
      cwd,
      env: { ...process.env, DATABASE_URL: databaseUrl },
    });
    ran.child.stdin?.end();
    await ran;
  } finally {
    server.close();
    rmSync(jobs, { recursive: true });
  }
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

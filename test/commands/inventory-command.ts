import { type ChildProcessByStdio, spawn } from 'node:child_process';
import { once } from 'node:events';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Readable, Writable } from 'node:stream';
import { text } from 'node:stream/consumers';
import { fileURLToPath } from 'node:url';

const command = fileURLToPath(new URL('../../dist/cli.js', import.meta.url));

/** Starting is mostly compiling, and tests start it a hundred times. */
const compileCache = join(tmpdir(), 'inventory-compile-cache');

export interface Outcome {
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

/** How a script of a test's own starts the command. */
export function inventoryCommand(): { command: string; args: readonly string[] } {
  return { command: process.execPath, args: [command] };
}

/** Starts the real `inventory` command as a process of its own. */
export function startInventory(
  databaseUrl: string,
  args: readonly string[],
): ChildProcessByStdio<Writable, Readable, Readable> {
  return spawn(process.execPath, [command, ...args], {
    env: { DATABASE_URL: databaseUrl, NODE_COMPILE_CACHE: compileCache },
    stdio: ['pipe', 'pipe', 'pipe'],
  });
}

/** Runs the command to its end. */
export async function inventory(
  databaseUrl: string,
  args: readonly string[],
  input: string | Buffer = '',
): Promise<Outcome> {
  const child = startInventory(databaseUrl, args);
  child.stdin.on('error', () => undefined); // a command that refuses its arguments reads no input
  child.stdin.end(input);
  const [stdout, stderr] = await Promise.all([text(child.stdout), text(child.stderr), once(child, 'close')]);
  return { code: child.exitCode, stdout, stderr };
}

import { spawn, type ChildProcess, type SpawnOptions } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { projectFolder } from './build.ts';

/**
 * Runs the built `inventory` command in silence.
 *
 * @param settings its environment, DATABASE_URL included
 * @throws with what the command wrote to stderr, when it fails
 */
export async function runInventory(settings: NodeJS.ProcessEnv, ...args: string[]): Promise<void> {
  const command = spawnInventory(settings, args, { cwd: projectFolder, stdio: ['ignore', 'ignore', 'pipe'] });
  const [stderr] = await Promise.all([command.stderr ? text(command.stderr) : '', once(command, 'exit')]);
  if (command.exitCode !== 0) throw new Error(stderr.trim() || `inventory ${args.join(' ')} failed`);
}

/** The same on the terminal, in the folder where npm was called. @returns its exit code */
export async function showInventory(settings: NodeJS.ProcessEnv, args: string[]): Promise<number> {
  const command = spawnInventory(settings, args, { cwd: process.env['INIT_CWD'], stdio: 'inherit' });
  process.on('SIGINT', () => undefined); // a Ctrl-C reaches the command by itself; here it is only waited for
  process.on('SIGTERM', () => command.kill('SIGTERM'));
  const [code] = (await once(command, 'exit')) as [number | null];
  return code ?? 1;
}

function spawnInventory(settings: NodeJS.ProcessEnv, args: string[], options: SpawnOptions): ChildProcess {
  return spawn(process.execPath, [join(projectFolder, 'dist/cli.js'), ...args], { ...options, env: settings });
}

import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { promisify } from 'node:util';

export const contractFolder = import.meta.dirname;
export const documentFile = join(contractFolder, '../../openapi.json');

/** The path of a command from the packages of this folder. */
export function tool(name: string): string {
  return join(contractFolder, 'node_modules/.bin', name);
}

/**
 * Runs a command in this folder to its end.
 *
 * @returns its standard output
 * @throws with its whole output when it fails
 */
export async function run(command: string, args: readonly string[], environment = {}): Promise<string> {
  const env = { ...process.env, REDOCLY_TELEMETRY: 'off', ...environment };
  try {
    return (await promisify(execFile)(command, args, { cwd: contractFolder, env })).stdout;
  } catch (error) {
    const { stdout, stderr } = error as { stdout: string; stderr: string };
    throw new Error(`${command} ${args.join(' ')} failed:\n${stdout}${stderr}`);
  }
}

/** True when this machine has each of these commands. Logs the missing ones. */
export async function areHere(...commands: readonly string[]): Promise<boolean> {
  const missing: string[] = [];
  for (const command of commands) {
    await run(command, [command === 'go' ? 'version' : '--version']).catch(() => missing.push(command));
  }
  if (missing.length > 0) console.warn(`Skipped, because this machine has no ${missing.join(', ')}`);
  return missing.length === 0;
}

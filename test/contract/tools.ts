import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { promisify } from 'node:util';

export const contractFolder = import.meta.dirname;
export const documentFile = join(contractFolder, '../../openapi.json');

/** The path of a command that this folder's own packages bring. */
export function tool(name: string): string {
  return join(contractFolder, 'node_modules/.bin', name);
}

/**
 * Runs a command in this folder to its end.
 *
 * @returns what it wrote to its standard output
 * @throws with all that it wrote when it fails
 */
export async function run(
  command: string,
  args: readonly string[],
  environment: NodeJS.ProcessEnv = {},
): Promise<string> {
  try {
    const { stdout } = await promisify(execFile)(command, args, {
      cwd: contractFolder,
      env: { ...process.env, REDOCLY_TELEMETRY: 'off', ...environment },
    });
    return stdout;
  } catch (error) {
    const { stdout, stderr } = error as { stdout: string; stderr: string };
    throw new Error(`${command} ${args.join(' ')} failed:\n${stdout}${stderr}`);
  }
}

/** Whether each of these commands can be run here; says which cannot. */
export async function areHere(...commands: readonly string[]): Promise<boolean> {
  const found = await Promise.all(
    commands.map((command) =>
      run(command, [command === 'go' ? 'version' : '--version']).then(
        () => true,
        () => false,
      ),
    ),
  );
  const missing = commands.filter((_command, at) => !found[at]);
  if (missing.length > 0) console.warn(`Not here, so what needs it is not tried: ${missing.join(', ')}`);
  return missing.length === 0;
}

import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { promisify } from 'node:util';

/** Where the tools are, and where they write. */
export const contractFolder = import.meta.dirname;
export const documentFile = join(contractFolder, '../../openapi.json');

/**
 * Runs one of this folder's own commands to its end.
 *
 * @returns what it wrote to its standard output
 * @throws with all that it wrote when it fails
 */
export async function run(
  command: string,
  args: readonly string[],
  environment: NodeJS.ProcessEnv = {},
): Promise<string> {
  const path = command === 'node' ? process.execPath : join(contractFolder, 'node_modules/.bin', command);
  try {
    const { stdout } = await promisify(execFile)(path, args, {
      cwd: contractFolder,
      env: { ...process.env, REDOCLY_TELEMETRY: 'off', ...environment },
    });
    return stdout;
  } catch (error) {
    const { stdout, stderr } = error as { stdout: string; stderr: string };
    throw new Error(`${command} ${args.join(' ')} failed:\n${stdout}${stderr}`, { cause: error });
  }
}

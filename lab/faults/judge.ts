import { spawnSync } from 'node:child_process';
import { resolve } from 'node:path';
import { fileURLToPath } from 'node:url';

const FOLDER = fileURLToPath(new URL('judge', import.meta.url));
const PATIENCE_MS = 15 * 60_000;

/**
 * Lets Porcupine decide whether each history of a file is linearizable. Draws the others beside the file. Needs Go.
 *
 * @param limit for each history, as Go writes durations
 * @returns a report, and the names of the histories that are not linearizable, or for which the time was too short
 * @throws when the judge ends without a verdict
 */
export function judge(historyFile: string, limit = '60s') {
  const args = ['run', '.', '-limit', limit, resolve(historyFile)];
  const { stdout, stderr, status } = spawnSync('go', args, { cwd: FOLDER, encoding: 'utf8', timeout: PATIENCE_MS });
  const refused = [...stdout.matchAll(/^(?:Illegal|Unknown) (\S+):/gm)].map(([, name = '']) => name);
  if (status !== 0 && refused.length === 0) throw new Error(`the judge failed: ${stdout}${stderr}`);
  return { report: stdout.trimEnd(), refused };
}

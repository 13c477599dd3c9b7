import { readdirSync, statSync } from 'node:fs';
import { join } from 'node:path';

/**
 * When any of these was last changed, in milliseconds since 1970; 0 when none exists. A folder stands for all that it
 * holds, and for what was removed from it.
 *
 * @param paths relative to the project's folder
 */
export function newestChange(paths: string[]): number {
  return Math.max(0, ...paths.flatMap((path) => changesOf(join(import.meta.dirname, '..', path))));
}

function changesOf(path: string): number[] {
  const stat = statSync(path, { throwIfNoEntry: false });
  if (!stat) return [];
  if (!stat.isDirectory()) return [stat.mtimeMs];
  return [stat.mtimeMs, ...readdirSync(path).flatMap((name) => changesOf(join(path, name)))];
}

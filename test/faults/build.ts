import { execFileSync } from 'node:child_process';
import { globSync, statSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

const PROJECT = fileURLToPath(new URL('../../', import.meta.url));

/** Builds the service where what is built is older than what it is built from: the processes under test run `dist`. */
export function buildIfStale(): void {
  const sources = globSync('src/**/*.ts', { cwd: PROJECT, exclude: ['src/generated/**'] });
  const built = globSync('dist/**/*.js', { cwd: PROJECT });
  if (built.length > 0 && newest(built) > newest(sources)) return;
  execFileSync('npm', ['run', '--silent', 'build'], { cwd: PROJECT, stdio: ['ignore', 'ignore', 'inherit'] });
}

function newest(files: readonly string[]): number {
  return Math.max(...files.map((file) => statSync(`${PROJECT}/${file}`).mtimeMs));
}

import { execFileSync } from 'node:child_process';
import { statSync } from 'node:fs';
import { join } from 'node:path';
import { contractFolder } from './tools.ts';

/** Installs the packages of this folder, unless they already match its lock file. */
export default function install(): void {
  const changedAt = (file: string) => statSync(join(contractFolder, file), { throwIfNoEntry: false })?.mtimeMs ?? 0;
  if (changedAt('node_modules/.package-lock.json') >= changedAt('package-lock.json')) return;
  const quietly = ['--ignore-scripts', '--no-audit', '--no-fund', '--loglevel=error'];
  execFileSync('npm', ['ci', ...quietly], { cwd: contractFolder, stdio: 'inherit' });
}

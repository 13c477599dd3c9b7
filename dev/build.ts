import { spawnSync } from 'node:child_process';
import { accessSync, constants, existsSync, rmSync } from 'node:fs';
import { join } from 'node:path';

/** As the Dockerfile has it: what requests leave behind is looked through less often. */
export const SEMI_SPACE = '--max-semi-space-size=64';

export const projectFolder = join(import.meta.dirname, '..');

/**
 * What `npm run build` does, in a tenth of a second when nothing has changed. It prints to stderr, because stdout may
 * be data.
 *
 * @throws when it fails
 */
export function buildIfStale(): void {
  if (!existsSync(join(projectFolder, 'dist/main.js'))) {
    try {
      accessSync(projectFolder, constants.W_OK);
    } catch {
      throw new Error(`${projectFolder} is read-only for this user; the first build writes to it`);
    }
    console.error('Building, a few seconds the first time …');
    rmSync(join(projectFolder, 'dist/.tsbuildinfo'), { force: true }); // it would say that all is built
  }
  const compile = ['node_modules/typescript/bin/tsc', '--build', 'tsconfig.build.json', '--pretty'];
  for (const script of [['dev/prisma.ts', 'generate'], compile]) {
    const { status, signal } = spawnSync(process.execPath, script, { cwd: projectFolder, stdio: ['ignore', 2, 2] });
    if (signal) process.exit(130); // a Ctrl-C
    if (status !== 0) throw new Error('the build failed');
  }
}

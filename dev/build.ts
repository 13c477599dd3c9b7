import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, utimesSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { newestChange } from './freshness.ts';

export const projectFolder = join(import.meta.dirname, '..');

const sources = ['src', 'prisma/schema.prisma', 'prisma.config.ts', 'nest-cli.json', 'package-lock.json'];
const compilerSettings = ['tsconfig.json', 'tsconfig.build.json'];
const stamp = 'dist/.built';

/**
 * Generates and compiles when a source is newer than the last successful build. Says so on stderr, for stdout may be data.
 *
 * @returns whether anything had to be built
 * @throws when it fails; the compiler has then told why
 */
export async function buildIfStale(): Promise<boolean> {
  if (newestChange([stamp]) > newestChange([...sources, ...compilerSettings])) return false;
  process.stderr.write('Building … ');
  await run('dev/prisma.ts', 'generate');
  const startedAt = new Date();
  await run('node_modules/@nestjs/cli/bin/nest.js', 'build');
  process.stderr.write(`done in ${((Date.now() - startedAt.getTime()) / 1000).toFixed(1)} s\n`);
  mkdirSync(join(projectFolder, 'dist'), { recursive: true });
  writeFileSync(join(projectFolder, stamp), '');
  utimesSync(join(projectFolder, stamp), startedAt, startedAt); // what changed meanwhile counts as newer
  return true;
}

async function run(script: string, command: string): Promise<void> {
  const child = spawn(process.execPath, [join(projectFolder, script), command], {
    cwd: projectFolder,
    stdio: ['ignore', 2, 2],
  });
  const [code] = (await once(child, 'exit')) as [number | null];
  if (code !== 0) throw new Error('the build failed');
}

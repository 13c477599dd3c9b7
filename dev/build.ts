import { spawnSync } from 'node:child_process';
import { globSync, statSync, utimesSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

export const projectFolder = join(import.meta.dirname, '..');

const sources = [
  'src/**',
  'prisma/schema.prisma',
  '*.config.ts',
  'tsconfig*.json',
  'nest-cli.json',
  'package-lock.json',
];
const stamp = 'dist/.built';

/**
 * Generates and compiles when a source is newer than the last successful build. Says so on stderr, for stdout may be data.
 *
 * @throws when it fails; the compiler has then told why
 */
export function buildIfStale(): void {
  if (!isStale(stamp, sources)) return;
  process.stderr.write('Building … ');
  const startedAt = new Date();
  for (const step of [
    ['dev/prisma.ts', 'generate'],
    ['node_modules/@nestjs/cli/bin/nest.js', 'build'],
  ]) {
    const { status } = spawnSync(process.execPath, step, { cwd: projectFolder, stdio: ['ignore', 2, 2] });
    if (status !== 0) throw new Error('the build failed');
  }
  process.stderr.write(`done in ${((Date.now() - startedAt.getTime()) / 1000).toFixed(1)} s\n`);
  writeFileSync(join(projectFolder, stamp), '');
  utimesSync(join(projectFolder, stamp), startedAt, startedAt); // what changed meanwhile counts as newer
}

/**
 * Whether a file is missing, or older than one of the files and folders that it is made from.
 *
 * @param madeFrom glob patterns, like `product` relative to the project's folder
 */
export function isStale(product: string, madeFrom: string[]): boolean {
  const changedAt = (path: string) => statSync(join(projectFolder, path), { throwIfNoEntry: false })?.mtimeMs ?? 0;
  const madeAt = changedAt(product);
  return globSync(madeFrom, { cwd: projectFolder, exclude: ['src/generated/**'] }).some(
    (path) => changedAt(path) >= madeAt,
  );
}

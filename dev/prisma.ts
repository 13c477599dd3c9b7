import { spawnSync } from 'node:child_process';
import { existsSync, rmSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { projectFolder } from './build.ts';

/*
 * Prisma's CLI without a download. Migrations are plain SQL here, so it needs no engine, but it downloads one unless
 * the variable names a file; any file will do. With such a file, commands that do need an engine would do nothing, some
 * with exit code 0. `generate` does nothing when the client is newer than what it is made from.
 */
const { PRISMA_SCHEMA_ENGINE_BINARY: engine = '' } = process.env;
const [command = ''] = process.argv.slice(2);
if (engine === '' && ['migrate', 'db'].includes(command)) {
  const here = 'write migrations by hand (CONTRIBUTING.md), and apply them: npm run inventory -- migrate';
  console.error(`prisma ${command} needs Prisma's schema engine, which is not installed; ${here}`);
  process.exit(1);
}
const prisma = join(projectFolder, 'node_modules/prisma/build/index.js');
const madeFrom = ['prisma/schema.prisma', 'prisma.config.ts', 'node_modules/prisma/package.json'];

const isPlainGenerate = process.argv.slice(2).join() === 'generate';
const isInstalledForProduction = process.env['npm_lifecycle_event'] === 'postinstall' && !existsSync(prisma);
if (isPlainGenerate) {
  const generatedAt = changedAt('src/generated/prisma/client.ts');
  if (isInstalledForProduction || madeFrom.every((path) => changedAt(path) < generatedAt)) process.exit();
  // Prisma refuses to write over half a client.
  rmSync(join(projectFolder, 'src/generated'), { recursive: true, force: true });
}
const { status, stderr } = spawnSync(process.execPath, [prisma, ...process.argv.slice(2)], {
  stdio: isPlainGenerate ? ['ignore', 'ignore', 'pipe'] : 'inherit',
  env: {
    PRISMA_HIDE_UPDATE_MESSAGE: '1',
    CHECKPOINT_DISABLE: '1', // no report of versions to its maker
    ...process.env,
    PRISMA_SCHEMA_ENGINE_BINARY: engine === '' ? process.execPath : engine,
  },
});
if (isPlainGenerate && status !== 0) process.stderr.write(stderr);
process.exitCode = status ?? 1;

function changedAt(path: string): number {
  return statSync(join(projectFolder, path), { throwIfNoEntry: false })?.mtimeMs ?? 0;
}

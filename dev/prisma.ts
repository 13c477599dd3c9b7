import { spawnSync } from 'node:child_process';
import { existsSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { isStale, projectFolder } from './build.ts';

/* Prisma's CLI without a download. `generate` does nothing when the client is newer than what it is made from. */
const prisma = join(projectFolder, 'node_modules/prisma/build/index.js');
const client = 'src/generated/prisma/client.ts';

/** These need no engine, but Prisma would download one unless told of a file; any file that exists will do. */
const withoutEngine = ['generate', 'validate', 'format', 'version'];

const [command = '', ...rest] = process.argv.slice(2);
const isPlainGenerate = command === 'generate' && rest.length === 0;
const isInstalledForProduction = process.env['npm_lifecycle_event'] === 'postinstall' && !existsSync(prisma);
const isUpToDate = !isStale(client, ['prisma/schema.prisma', 'prisma.config.ts', 'node_modules/prisma/package.json']);
if (isInstalledForProduction || (isPlainGenerate && isUpToDate)) process.exit();
// Prisma refuses to write over half a client.
if (isPlainGenerate) rmSync(join(projectFolder, 'src/generated'), { recursive: true, force: true });

const { status, stderr } = spawnSync(process.execPath, [prisma, command, ...rest], {
  stdio: isPlainGenerate ? ['ignore', 'ignore', 'pipe'] : 'inherit',
  env: {
    ...(withoutEngine.includes(command) ? { PRISMA_SCHEMA_ENGINE_BINARY: process.execPath } : {}),
    PRISMA_HIDE_UPDATE_MESSAGE: '1',
    CHECKPOINT_DISABLE: '1', // no report of versions to its maker
    ...process.env,
  },
});
if (isPlainGenerate && status !== 0) process.stderr.write(stderr);
process.exitCode = status ?? 1;

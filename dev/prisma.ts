import { spawnSync } from 'node:child_process';
import { rmSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname } from 'node:path';
import { newestChange } from './freshness.ts';

/** These need no engine, but Prisma would download one unless told of a file; any file that exists will do. */
const withoutEngine = ['generate', 'validate', 'format', 'version'];

const client = 'src/generated/prisma/client.ts';

const [command = '', ...rest] = process.argv.slice(2);
if (command === 'generate') {
  if (rest.length === 0 && isGenerated()) process.exit(0);
  if (newestChange([client]) === 0) rmSync(dirname(client), { recursive: true, force: true }); // Prisma refuses half of one
}

const isQuiet = command === 'generate';
const { status, stderr } = spawnSync(
  process.execPath,
  [createRequire(import.meta.url).resolve('prisma/build/index.js'), ...process.argv.slice(2)],
  {
    stdio: isQuiet ? ['ignore', 'ignore', 'pipe'] : 'inherit',
    env: {
      ...(withoutEngine.includes(command) ? { PRISMA_SCHEMA_ENGINE_BINARY: process.execPath } : {}),
      PRISMA_HIDE_UPDATE_MESSAGE: '1',
      CHECKPOINT_DISABLE: '1', // no report of versions to its maker
      ...process.env,
    },
  },
);
if (isQuiet && status !== 0) process.stderr.write(stderr);
process.exitCode = status ?? 1;

function isGenerated(): boolean {
  const sources = ['prisma/schema.prisma', 'prisma.config.ts', 'node_modules/prisma/package.json'];
  return newestChange([client]) > newestChange(sources);
}

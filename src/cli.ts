#!/usr/bin/env node
import './node-version.js';
import { createRequire } from 'node:module';
import { constants } from 'node:os';
import { Command, CommanderError } from 'commander';
import { hasUnconfirmedCommit } from './commands/connection.js';
import { addExport } from './commands/export.js';
import { describeFailure } from './errors/error-text.js';
import { addHistory } from './commands/history.js';
import { addImport } from './commands/import.js';
import { addKeys } from './commands/keys.js';
import { addMigrate } from './commands/migrate.js';

const { version } = createRequire(import.meta.url)('../package.json') as { version: string };

const program = new Command('inventory')
  .description('Manages the stock of the pet store in the database of DATABASE_URL.')
  .version(version)
  .exitOverride()
  .addHelpText('after', '\nExit codes: 0 done, 1 failed, 2 wrong use.');

process.stdout.on('error', ({ code, message }: NodeJS.ErrnoException) => {
  if (code === 'EPIPE') process.exit(0); // the reader has had enough, as "head" does
  console.error(`error: standard output cannot be written: ${message}`);
  process.exit(1);
});
process.stderr.on('error', () => undefined); // nobody has to read it

// A signal ends process 1 of a container only if the process listens for it. The exit code is as shells count.
for (const signal of ['SIGINT', 'SIGTERM'] as const) {
  process.on(signal, () => process.exit(128 + constants.signals[signal]));
}

for (const add of [addMigrate, addKeys, addImport, addExport, addHistory]) add(program);

try {
  await program.parseAsync();
} catch (error) {
  const isUse = error instanceof CommanderError; // commander has said what is wrong
  if (!isUse) console.error(`error: ${describeFailure(error)}`);
  process.exitCode = !isUse ? 1 : error.exitCode === 0 ? 0 : 2;
}
if (hasUnconfirmedCommit) {
  console.error('error: committed here, but not confirmed by the synchronous standby: a failover may lose it');
  process.exitCode = 1;
}

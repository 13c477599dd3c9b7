#!/usr/bin/env node
import './node-version.js';
import { fstatSync, readSync, statSync } from 'node:fs';
import { createRequire } from 'node:module';
import { constants, devNull } from 'node:os';
import { Command, CommanderError } from 'commander';
import { hasUnconfirmedCommit } from './commands/connection.js';
import { addExport } from './commands/export.js';
import { describeFailure } from './errors/error-text.js';
import { addHistory } from './commands/history.js';
import { addImport } from './commands/import.js';
import { addKeys } from './commands/keys.js';
import { addMigrate } from './commands/migrate.js';

const FAILED = 1;
const WRONG_USE = 2;

const { version } = createRequire(import.meta.url)('../package.json') as { version: string };

const program = new Command('inventory')
  .description('Runs the stock of the pet store whose database DATABASE_URL names.')
  .version(version)
  .exitOverride()
  .showSuggestionAfterError()
  .addHelpText(
    'after',
    '\nExit codes: 0 done, 1 failed, 2 wrong use.\nEvery command explains itself: inventory help keys, inventory keys create --help\n',
  );

process.stdout.on('error', ({ code, message }: NodeJS.ErrnoException) => {
  if (code === 'EPIPE') process.exit(0); // whoever reads has had enough, as "head" does
  console.error(`error: standard output cannot be written: ${message}`);
  process.exit(FAILED);
});
if (isClosed(process.stdout)) process.stdout.write = () => process.stdout.emit('error', new Error('it is closed'));

process.stderr.on('error', () => undefined); // nobody has to read it

// Process 1 of a container is not even ended by a signal that it does not listen for. The exit code is as shells count.
for (const signal of ['SIGINT', 'SIGTERM'] as const) {
  process.on(signal, () => process.exit(128 + constants.signals[signal]));
}

addMigrate(program);
addKeys(program);
addImport(program);
addExport(program);
addHistory(program);

try {
  await program.parseAsync();
} catch (error) {
  if (error instanceof CommanderError) {
    process.exitCode = error.exitCode === 0 ? 0 : WRONG_USE; // commander has said what is wrong
  } else {
    console.error(`error: ${describeFailure(error)}`);
    process.exitCode = FAILED;
  }
}
if (hasUnconfirmedCommit) {
  console.error('error: committed here, but not confirmed by the synchronous standby: a failover may lose it');
  process.exitCode = FAILED;
}

/** Where a stream was closed by the caller, Node.js has the null device, and unlike a shell opens it for reading, too. */
function isClosed({ fd }: { fd: number }): boolean {
  try {
    return fstatSync(fd).rdev === statSync(devNull).rdev && readSync(fd, Buffer.alloc(1)) === 0;
  } catch {
    return false;
  }
}

#!/usr/bin/env node
import './node-version.ts';
import { constants } from 'node:os';
import { runCommand } from './commands/command-line.ts';

process.stdout.on('error', ({ code, message }: NodeJS.ErrnoException) => {
  if (code === 'EPIPE') process.exit(0); // the reader has had enough, as "head" does
  console.error(`error: standard output cannot be written: ${message}`);
  process.exit(1);
});
process.stderr.on('error', () => undefined); // nobody has to read it

// A command says at its exit what has become of its work. A signal ends process 1 of a container only if the process
// listens for it. The exit code is as shells count.
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP', 'SIGQUIT'] as const) {
  process.on(signal, () => process.exit(128 + constants.signals[signal]));
}

process.exitCode = await runCommand(process.argv.slice(2));

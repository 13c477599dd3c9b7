import { createRequire } from 'node:module';
import { Command, CommanderError } from 'commander';
import { failureOf } from '../database/database-failure.js';
import { hasUnconfirmedCommit } from './connection.js';
import { addExport } from './export.js';
import { addHistory } from './history.js';
import { addImport } from './import.js';
import { addKeys } from './keys.js';
import { addMigrate } from './migrate.js';

const { version } = createRequire(import.meta.url)('../../package.json') as { version: string };

/** The parser of the command, which runs what it has parsed. */
export function commandLine(): Command {
  const program = new Command('inventory')
    .description('Manages the stock of the pet store in the database of DATABASE_URL.')
    .version(version)
    .exitOverride()
    .addHelpText('after', '\nExit codes: 0 done, 1 failed, 2 wrong use.');
  for (const add of [addMigrate, addKeys, addImport, addExport, addHistory]) add(program);
  return program;
}

/** @returns the exit code */
export async function runCommand(args: readonly string[]): Promise<number> {
  let code = 0;
  try {
    await commandLine().parseAsync(args, { from: 'user' });
  } catch (error) {
    const isUse = error instanceof CommanderError; // commander has said what is wrong
    if (!isUse) console.error(`error: ${failureOf(error).words}`);
    code = !isUse ? 1 : error.exitCode === 0 ? 0 : 2;
  }
  if (!hasUnconfirmedCommit) return code;
  console.error('error: committed here, but not confirmed by the synchronous standby: a failover may lose it');
  return 1;
}

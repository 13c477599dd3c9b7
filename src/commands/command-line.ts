import { Command, CommanderError } from 'commander';
import { failureOf } from '../database-errors.ts';
import { version } from '../version.ts';
import { hasUnconfirmedCommit } from './connection.ts';
import { addCheck } from './check.ts';
import { addExport } from './export.ts';
import { addHistory } from './history.ts';
import { addImport } from './import.ts';
import { addKeys } from './keys.ts';
import { addMigrate } from './migrate.ts';

/** The parser of the command, which runs what it has parsed. */
export function commandLine(): Command {
  const program = new Command('inventory')
    .description('Manages the stock of the pet store in the database of DATABASE_URL.')
    .version(version)
    .exitOverride()
    .addHelpText('after', '\nExit codes: 0 done, 1 failed, 2 wrong use.');
  for (const add of [addCheck, addMigrate, addKeys, addImport, addExport, addHistory]) add(program);
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

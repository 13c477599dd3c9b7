import { type Command, Option } from 'commander';
import { existsSync, statSync } from 'node:fs';
import { hostname, userInfo } from 'node:os';
import { basename } from 'node:path';
import type { Client } from 'pg';
import { Failure, describeFailure } from '../errors/error-text.js';
import { MEMBERS } from '../inventory/stock-item.js';
import { whileInterruptible, withNewestSchema } from './connection.js';
import { lineReader } from './option-values.js';
import { printJson, withoutControls } from './output.js';
import { END_MARK, type Format, FORMATS, formatOf, readStockFile } from './stock-file.js';
import { compareIncoming, loadRows, mergeIncoming, refuseProblems, type Summary } from './stock-merge.js';
import { readers } from './stock-rows.js';

const SHOWN_EVERY_MS = 2_000;
const UNSURE = 'interrupted during the commit: "inventory history" tells whether it happened';

export interface ImportOptions {
  readonly format?: Format;
  readonly by?: string;
  readonly missing: 'keep' | 'remove';
  readonly dryRun?: true;
  readonly quiet?: true;
  readonly json?: true;
}

export function addImport(program: Command): void {
  program
    .command('import')
    .summary('Sets the stock from a file.')
    .description('Sets the stock from a file: all rows or none. Pets that do not change are not written.')
    .argument('<file>', 'the file, or - for standard input; a file named *.gz is unpacked')
    .addOption(new Option('--format <format>', 'the format of the file (default: by its name)').choices(FORMATS))
    .addOption(
      new Option('--missing <what>', 'what happens to pets that are not in the file')
        .choices(['keep', 'remove'])
        .default('keep'),
    )
    .option('--by <who>', 'the author in the history (default: user@host and the name of the file)', lineReader(200))
    .option('--dry-run', 'check the file and count the changes, but write nothing')
    .option('--quiet', 'show only errors')
    .option('--json', 'write the summary to standard output as JSON')
    .addHelpText('after', details)
    .action(showImport);
}

const details = `
csv has a header line. ndjson has an object in each line. json is an array of such objects. Each pet has:
${MEMBERS.map(({ name, rule }) => `  ${name}: ${rule}\n`).join('')}
From standard input, "--missing remove" needs "${END_MARK}" as the last line, so that an interrupted transfer removes nothing:
  inventory export --end-mark | ssh elsewhere inventory import - --format csv --missing remove`;

async function showImport(name: string, options: ImportOptions): Promise<void> {
  const { dryRun = false, quiet, json } = options;
  const startedAt = performance.now();
  const summary = await importStock(name, options);
  const seconds = ((performance.now() - startedAt) / 1_000).toFixed(1);
  const { added, changed, unchanged, removed } = summary;
  const told = `${added} added, ${changed} changed, ${unchanged} unchanged, ${removed} removed in ${seconds} s`;
  if (!quiet) console.error(dryRun ? `dry run, nothing was written: ${told}` : told);
  if (json) printJson({ ...summary, dryRun });
}

/** Makes the stock what a file says, in one transaction. @throws Failure when it cannot be read or breaks a rule */
export async function importStock(name: string, options: ImportOptions): Promise<Summary> {
  const { format = formatOf(name), dryRun, by = `${userName()}@${hostname()} ${basename(name)}` } = options;
  if (!format) throw new Failure(`the name does not tell the format; add --format ${FORMATS.join(', --format ')}`);
  const removes = options.missing === 'remove';
  const isFile = name !== '-' && existsSync(name) && statSync(name).isFile();
  const ending = isFile ? 'whole line' : removes ? 'mark' : 'line break';
  let stage = 'reading';
  let pets = 0;
  let interrupted = 'interrupted: nothing was changed';
  const csv = async function* () {
    for await (const rows of readers[format](readStockFile(name), ending)) {
      pets += rows.length;
      yield rows.join('');
    }
  };
  async function work(client: Client): Promise<Summary> {
    await loadRows(client, csv());
    await refuseProblems(client, format === 'json' ? 'item' : 'line');
    if (pets === 0 && removes) throw new Failure('the file has no pet; it would remove them all');
    stage = dryRun ? 'comparing' : 'writing';
    if (dryRun) return compareIncoming(client, removes);
    // A file's name may be longer than what may be stored.
    const summary = await mergeIncoming(client, removes, `command:import ${withoutControls(by).slice(0, 200)}`);
    interrupted = UNSURE;
    await commit(client);
    interrupted = 'interrupted after the commit: the import is done';
    return summary;
  }
  const startedAt = performance.now();
  const show = () => console.error(`${stage}: ${pets} pets, ${Math.round((performance.now() - startedAt) / 1_000)} s`);
  const timer = options.quiet ? undefined : setInterval(show, SHOWN_EVERY_MS);
  try {
    const tell = () => console.error(interrupted);
    return await whileInterruptible(tell, () => withNewestSchema('import', work));
  } finally {
    clearInterval(timer);
  }
}

/** @throws Failure when the answer is lost, for the commit may have taken place */
async function commit(client: Client): Promise<void> {
  try {
    await client.query('COMMIT');
  } catch (error) {
    const { outcomeOf } = await import('../database/database-failure.js'); // only now: it loads Prisma
    if (outcomeOf(error) !== 'unknown') throw error;
    throw new Failure(`${describeFailure(error)}\n${UNSURE}`);
  }
}

export function userName(): string {
  try {
    return userInfo().username;
  } catch {
    return `uid ${process.getuid?.() ?? '?'}`; // a container's user may have no name
  }
}

import { type Command, InvalidArgumentError, Option } from 'commander';
import { hostname, userInfo } from 'node:os';
import { basename } from 'node:path';
import type { Client } from 'pg';
import { Failure, describeFailure } from '../errors/error-text.js';
import { MEMBERS } from '../inventory/stock-item.js';
import { withNewestSchema } from './connection.js';
import { printJson, withoutControls } from './output.js';
import { showProgress } from './progress.js';
import { END_MARK, type Format, FORMATS, formatOf, openStockFile } from './stock-file.js';
import { compareIncoming, loadRows, mergeIncoming, refuseProblems, type Summary } from './stock-merge.js';
import { readers } from './stock-rows.js';

const UNSURE = 'interrupted during the commit: "inventory history" tells whether it happened';

interface ImportOptions {
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
    .summary('set the stock from a file')
    .description('Sets the stock from a file, all or nothing. Pets that the file does not change are not touched.')
    .argument('<file>', 'the file, or - for standard input; a name that ends in .gz is unpacked')
    .addOption(new Option('--format <format>', 'what the file is (default: by its name)').choices(FORMATS))
    .addOption(
      new Option('--missing <what>', 'what to do with pets that the file does not have')
        .choices(['keep', 'remove'])
        .default('keep'),
    )
    .option('--by <who>', 'who imports what, for the history (default: user@host and the name of the file)', readSigner)
    .option('--dry-run', 'check the file and say what would change, without changing it')
    .option('--quiet', 'no progress and no summary, only errors')
    .option('--json', 'the summary as JSON on standard output')
    .addHelpText('after', details)
    .action(showImport);
}

const NAMES = MEMBERS.map(({ name }) => name);

const details = `
Formats:
  csv     a header with ${NAMES.join(', ')} in any order, then a line for each pet
  ndjson  {"petId":1,"quantity":5,"status":"available"} on each line (.ndjson, .jsonl)
  json    an array of such objects, of at most 100 million characters; the other two can have any length

Each pet:
${MEMBERS.map(({ name, rule }) => `  ${name}: ${rule}\n`).join('')}  Other names, and a petId that is there twice, are refused: the first 20 problems are told by line, or by item of an array,
  and nothing is written.

The end:
  Every line of csv and ndjson ends with a line break. The last line of a file may do without if it cannot have been longer.
  From standard input, "--missing remove" wants "${END_MARK}" as the last line, which "inventory export --end-mark" writes:
  a transfer that was cut would remove what it lost. An array has its bracket.

While it runs:
  The list shows the old stock until the import is done, then the new one. While it writes, setting the quantity of a pet
  that the file changes is answered 503 and can be repeated; other pets can be set all the while. Imports take turns.

Examples:
  inventory import stock.csv
  inventory import stock.ndjson.gz --missing remove --dry-run
  inventory export --end-mark | ssh elsewhere inventory import - --format csv --missing remove
`;

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

/**
 * Makes the stock what a file says, in one transaction.
 *
 * @throws Failure when the file cannot be read or breaks a rule; nothing is written then
 */
export async function importStock(name: string, options: ImportOptions): Promise<Summary> {
  const { format = formatOf(name), dryRun, by = `${userName()}@${hostname()} ${basename(name)}` } = options;
  if (!format) throw new Failure(`the name does not tell the format; add --format ${FORMATS.join(', --format ')}`);
  const removes = options.missing === 'remove';
  const progress = showProgress(options.quiet === true);
  let interrupted = 'interrupted: nothing was changed';
  const tellInterrupted = () => {
    progress.stop();
    console.error(interrupted);
  };
  process.once('exit', tellInterrupted);
  try {
    return await withNewestSchema('import', async (client) => {
      const { text, isRegular } = await openStockFile(name, (share) => (progress.share = share));
      const ending = isRegular ? 'whole line' : removes ? 'mark' : 'line break';
      const csv = async function* () {
        for await (const rows of readers[format](text, ending)) {
          progress.pets += rows.length;
          yield rows.join('');
        }
      };
      await loadRows(client, csv());
      progress.stage = 'checking';
      await refuseProblems(client, format === 'json' ? 'item' : 'line');
      if (progress.pets === 0 && removes) throw new Failure('the file has no pet; it would remove them all');
      progress.stage = dryRun ? 'comparing' : 'writing';
      if (dryRun) return await compareIncoming(client, removes);
      // A file's name may be longer than what may be stored.
      const summary = await mergeIncoming(client, removes, `command:import ${withoutControls(by).slice(0, 200)}`);
      progress.stage = 'committing';
      interrupted = UNSURE;
      await commit(client);
      interrupted = 'interrupted after the commit: the import is done';
      return summary;
    });
  } finally {
    process.off('exit', tellInterrupted);
    progress.stop();
  }
}

/** @throws Failure when the answer is lost, for the commit may have taken place */
async function commit(client: Client): Promise<void> {
  try {
    await client.query('COMMIT');
  } catch (error) {
    const { outcomeOf } = await import('../database/database-failure.js'); // only now: it loads Prisma
    if (outcomeOf(error) !== 'unknown') throw error;
    throw new Failure(`${describeFailure(error)}\n${UNSURE}`, { cause: error });
  }
}

function readSigner(text: string): string {
  if (!/^[^\p{Cc}]{1,200}$/u.test(text)) throw new InvalidArgumentError('It must have 1 to 200 printable characters.');
  return text;
}

function userName(): string {
  try {
    return userInfo().username;
  } catch {
    return `uid ${process.getuid?.() ?? '?'}`; // a container's user may have no name
  }
}

import { type Command, Option } from 'commander';
import type { Client } from 'pg';
import { withConnection } from './connection.js';
import { Failure } from './failure.js';
import { note, printJson } from './output.js';
import { Problems } from './problems.js';
import { type Progress, showProgress } from './progress.js';
import { type Format, FORMATS, formatOf, openStockFile, readers, type StockFile } from './stock-file.js';
import { checkLine } from './stock.line.js';
import {
  beginImport,
  compareIncoming,
  copyIncoming,
  mergeIncoming,
  type Missing,
  refuseDuplicates,
  type Summary,
} from './stock.merge.js';

interface ImportOptions {
  readonly format?: Format;
  readonly missing: Missing;
  readonly dryRun?: true;
  readonly quiet?: true;
  readonly json?: true;
}

export function addImport(program: Command): void {
  program
    .command('import')
    .summary('set the stock from a file')
    .description(
      'Sets the stock from a file, all or nothing in one transaction. A pet that the file does not change is not touched.',
    )
    .argument('<file>', 'the file, or - for standard input; a name that ends in .gz is unpacked')
    .addOption(new Option('--format <format>', 'what the file is (default: by its name)').choices(FORMATS))
    .addOption(
      new Option('--missing <what>', 'what to do with pets that the file does not have')
        .choices(['keep', 'remove'])
        .default('keep'),
    )
    .option('--dry-run', 'check the file and say what would change, without changing it')
    .option('--quiet', 'no progress and no summary, only errors')
    .option('--json', 'the summary as JSON on standard output')
    .addHelpText('after', details)
    .action(showImport);
}

const details = `
Formats:
  csv     a header with petId, quantity and status in any order, then a line for each pet
  ndjson  {"petId":1,"quantity":5,"status":"available"} on each line (.ndjson, .jsonl)
  json    an array of such objects
petId is any int64, quantity 0 to 2147483647, status available, pending or sold. Columns and members of other names
are refused, and so is a petId that is there twice. The first 20 problems are told with their lines, and nothing is written.

While it runs:
  The list shows the old stock until the import is done, then the new one. In the last part, when the summary is near,
  setting the quantity of a pet that the file changes is answered 503 and can be repeated; other pets can be set all the while.
  Imports take turns.

Examples:
  inventory import stock.csv
  inventory import stock.ndjson.gz --missing remove --dry-run
  inventory export | ssh elsewhere inventory import - --format csv
`;

async function showImport(name: string, options: ImportOptions): Promise<void> {
  const summary = await importStock(name, options);
  const { added, changed, unchanged, removed } = summary;
  const would = options.dryRun ? 'dry run, nothing was written: ' : '';
  if (!options.quiet) note(`${would}${added} added, ${changed} changed, ${unchanged} unchanged, ${removed} removed`);
  if (options.json) printJson({ ...summary, dryRun: options.dryRun === true });
}

/**
 * Makes the stock what a file says, in one transaction.
 *
 * @param name of the file; `-` is standard input
 * @throws Failure when the file cannot be read or breaks a rule; nothing is written then
 */
export async function importStock(name: string, options: ImportOptions): Promise<Summary> {
  const format = options.format ?? formatOf(name);
  if (!format) throw new Failure(`the name does not tell the format; add --format ${FORMATS.join(', --format ')}`);
  const file = await openStockFile(name);
  const progress = showProgress(options.quiet === true);
  try {
    return await withConnection('import', async (client) => {
      await beginImport(client);
      const total = await copySoundLines(client, file, format, progress);
      if (total === 0 && options.missing === 'remove')
        throw new Failure('the file has no pet; it would remove them all');
      progress.stage(options.dryRun ? 'comparing' : 'writing');
      if (options.dryRun) return await compareIncoming(client, options.missing);
      const summary = await mergeIncoming(client, options.missing, total);
      await client.query('COMMIT');
      return summary;
    });
  } finally {
    file.close();
    progress.end();
  }
}

/** @returns how many pets the file has, when all of its lines are sound */
async function copySoundLines(client: Client, file: StockFile, format: Format, progress: Progress): Promise<number> {
  const problems = new Problems();
  let total = 0;

  async function* copyText(): AsyncGenerator<string> {
    for await (const lines of readers[format](file.chunks, problems)) {
      let text = '';
      for (const line of lines) {
        if (checkLine(line, problems)) text += `${line.petId}\t${line.quantity}\t${line.status}\t${line.line}\n`;
      }
      total += lines.length;
      progress.rows(total, file.totalBytes === undefined ? undefined : file.bytesRead() / file.totalBytes);
      if (text !== '') yield text;
    }
  }

  await copyIncoming(client, copyText());
  progress.stage('checking');
  await refuseDuplicates(client, problems);
  if (problems.count > 0) throw problems.asFailure();
  return total;
}

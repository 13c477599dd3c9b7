import { type Command, Option } from 'commander';
import { pipeline } from 'node:stream/promises';
import type { Client } from 'pg';
import { to as copyTo } from 'pg-copy-streams';
import { itemJson, MEMBERS } from '../inventory/stock-item.js';
import { withConnection } from './connection.js';
import { END_MARK, FAILED_MARK, type Format, FORMATS } from './stock-file.js';

const item = itemJson('inventory_item');
const columns = MEMBERS.map(({ name, column }) => `${column} AS "${name}"`).join(', ');

/** Lines as they are: no JSON has these two characters. The text format would double each backslash. */
const LINES = String.raw`TO STDOUT (FORMAT csv, QUOTE E'\x01', DELIMITER E'\x02')`;

/** PostgreSQL writes the very lines: int64 exact, one snapshot, no object made here. */
const statements = {
  csv: `COPY (SELECT ${columns} FROM inventory_item ORDER BY pet_id) TO STDOUT (FORMAT csv, HEADER)`,
  ndjson: `COPY (SELECT ${item} FROM inventory_item ORDER BY pet_id) ${LINES}`,
  json: `COPY (SELECT CASE row_number() OVER (ORDER BY pet_id) WHEN 1 THEN ' ' ELSE ',' END || ${item}
                 FROM inventory_item ORDER BY pet_id) ${LINES}`,
};

const details = `
An export that fails ends with a line "${FAILED_MARK}": no import takes it.

Examples:
  inventory export > stock.csv
  inventory export --format ndjson | gzip > stock.ndjson.gz
  inventory export --end-mark | ssh elsewhere inventory import - --format csv --missing remove
`;

interface ExportOptions {
  readonly format: Format;
  readonly endMark?: true;
}

export function addExport(program: Command): void {
  program
    .command('export')
    .summary('write the stock to standard output')
    .description('Writes all pets as they are at one moment, by id. The same stock gives the same bytes.')
    .addOption(new Option('--format <format>', 'how to write it').choices(FORMATS).default('csv'))
    .option('--end-mark', `end csv and ndjson with a line "${END_MARK}", by which an import knows that it has all pets`)
    .addHelpText('after', details)
    .action(exportStock);
}

/** What was written must not be taken for the whole stock when this fails, nor when a signal ends it. */
async function exportStock(options: ExportOptions): Promise<void> {
  const tellFailed = () => process.stdout.write(`\n${FAILED_MARK}\n`);
  const tellInterrupted = (code: number) => {
    if (code < 128) return; // no signal: nobody reads any more
    tellFailed();
    console.error('interrupted: the export is not complete');
  };
  process.once('exit', tellInterrupted);
  try {
    await withConnection('export', (client) => writeStock(client, options));
  } catch (error) {
    tellFailed();
    throw error;
  } finally {
    process.off('exit', tellInterrupted);
  }
}

/**
 * COPY takes its snapshot before its lock: beside a transaction that rewrites the table it would wait, and then see neither
 * the old rows nor the new ones. So the lock comes first, in a statement of its own.
 */
async function writeStock(client: Client, { format, endMark }: ExportOptions): Promise<void> {
  await client.query(`
    BEGIN ISOLATION LEVEL READ COMMITTED READ ONLY;
    SET LOCAL statement_timeout = 0; -- a reader may be slow
    LOCK TABLE inventory_item IN ACCESS SHARE MODE`);
  if (format === 'json') process.stdout.write('[\n');
  await pipeline(client.query(copyTo(statements[format])), process.stdout, { end: false });
  if (format === 'json') process.stdout.write(']\n');
  else if (endMark) process.stdout.write(`${END_MARK}\n`);
}

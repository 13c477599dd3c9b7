import { type Command, Option } from 'commander';
import { pipeline } from 'node:stream/promises';
import type { Client } from 'pg';
import { to as copyTo } from 'pg-copy-streams';
import { ITEM_COLUMNS, itemJson } from '../inventory/stock-item.js';
import { whileInterruptible, withConnection } from './connection.js';
import { refuseClosedOutput } from './output.js';
import { END_MARK, FAILED_MARK, type Format, FORMATS } from './stock-file.js';
import { type At, AT_FORM, readAt, settledMoment, stockAt } from './stock-moment.js';

const item = itemJson('inventory_item');

/** Lines as they are: no JSON has these two characters. The text format would double each backslash. */
const LINES = String.raw`FORMAT csv, QUOTE E'\x01', DELIMITER E'\x02'`;

/** PostgreSQL writes the lines: int64 stays exact, and Node.js makes no object for each pet. */
const statements = {
  csv: [ITEM_COLUMNS, 'FORMAT csv, HEADER'],
  ndjson: [item, LINES],
  json: [`CASE row_number() OVER (ORDER BY pet_id) WHEN 1 THEN ' ' ELSE ',' END || ${item}`, LINES],
} as const;

interface ExportOptions {
  readonly format: Format;
  readonly endMark?: true;
  readonly at?: At;
}

export function addExport(program: Command): void {
  program
    .command('export')
    .summary('Writes the stock to standard output.')
    .description(
      `Writes all pets of one moment, by ascending id. If it fails, the last line is "${FAILED_MARK}", which no import accepts.`,
    )
    .addOption(new Option('--format <format>', 'the format of the output').choices(FORMATS).default('csv'))
    .option('--end-mark', `end csv and ndjson with a line "${END_MARK}", which tells an import that it has all pets`)
    .addOption(
      new Option('--at <moment>', `the stock at a moment, from the history: ${AT_FORM}`)
        .argParser(readAt)
        .conflicts(['endMark', 'editable']),
    )
    .action(exportStock);
}

/** Nobody must take a part of the stock for the whole, when this fails or a signal ends it. */
async function exportStock(options: ExportOptions): Promise<void> {
  refuseClosedOutput();
  const tellFailed = () => process.stdout.write(`\n${FAILED_MARK}\n`);
  const tellInterrupted = () => {
    tellFailed();
    console.error('interrupted: the export is not complete');
  };
  try {
    await whileInterruptible(tellInterrupted, () => withConnection('export', (client) => writeStock(client, options)));
  } catch (error) {
    tellFailed();
    throw error;
  }
}

/** COPY takes its snapshot before its lock, and would not see the rows that a TRUNCATE meanwhile puts in: the lock comes first. */
async function writeStock(client: Client, { format, endMark, at }: ExportOptions): Promise<void> {
  const moment = at !== undefined && (await settledMoment(client, at));
  await client.query(`
    BEGIN ISOLATION LEVEL ${moment ? 'REPEATABLE READ' : 'READ COMMITTED'} READ ONLY;
    SET LOCAL statement_timeout = 0; -- a reader may be slow
    LOCK TABLE inventory_item${moment ? ', stock_change, stock_change_pruned' : ''} IN ACCESS SHARE MODE`);
  const { stock, told } = moment ? await stockAt(client, moment) : { stock: 'inventory_item' };
  const [selected, options] = statements[format];
  const copy = `COPY (SELECT ${selected} FROM ${stock} ORDER BY pet_id) TO STDOUT (${options})`;
  if (format === 'json') process.stdout.write('[\n');
  await pipeline(client.query(copyTo(copy)), process.stdout, { end: false });
  if (format === 'json') process.stdout.write(']\n');
  else if (endMark) process.stdout.write(`${END_MARK}\n`);
  if (told) console.error(told);
}

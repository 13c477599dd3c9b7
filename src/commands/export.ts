import { type Command, Option } from 'commander';
import { pipeline } from 'node:stream/promises';
import type { Client } from 'pg';
import { to as copyTo } from 'pg-copy-streams';
import { Failure, type Query, queryOfClient } from '../lib/postgres/index.ts';
import { failureOf } from '../database-errors.ts';
import { waitForOpenWriters } from '../history/open-writers.ts';
import { waitForMoment, stockAt } from '../history/stock-moment.ts';
import { whileInterruptible, withConnection } from './connection.ts';
import { AT_FORM, readAt } from './option-values.ts';
import { LINES } from './output.ts';
import { withProgress } from './progress.ts';

/** The last line of CSV and NDJSON says whether something is missing. No line of a pet looks like these. */
export const END_MARK = '# end';
export const FAILED_MARK = '# failed';

/** The column or member of `--editable`: which pet a row was made from, and from which state of it. */
export const EXPORTED = 'exported';

const ITEM_COLUMNS = 'pet_id AS "petId", quantity, status';
const ITEM_JSON = `'{"petId":' || pet_id || ',"quantity":' || quantity || ',"status":"' || status || '"}'`;
/** SQL for {@link EXPORTED}. Its last colon shows that it is whole; with it, it is text to every spreadsheet. */
const EXPORTED_SQL = `pet_id || ':' || status || '-' || quantity || ':'`;

const FORMATS = ['csv', 'ndjson', 'json'] as const;

const LONGEST_WAIT_MS = 10_000;

/** PostgreSQL writes the lines: int64 stays exact, and Node.js makes no object for each pet. */
function copyOf({ format, editable }: ExportOptions, stock: string): string {
  const item = editable ? `rtrim(${ITEM_JSON}, '}') || ',"${EXPORTED}":"' || ${EXPORTED_SQL} || '"}'` : ITEM_JSON;
  const [selected, options] = {
    csv: [editable ? `${ITEM_COLUMNS}, ${EXPORTED_SQL} AS ${EXPORTED}` : ITEM_COLUMNS, 'FORMAT csv, HEADER'],
    ndjson: [item, LINES],
    json: [`CASE row_number() OVER (ORDER BY pet_id) WHEN 1 THEN ' ' ELSE ',' END || ${item}`, LINES],
  }[format];
  return `COPY (SELECT ${selected} FROM ${stock} ORDER BY pet_id) TO STDOUT (${options})`;
}

interface ExportOptions {
  readonly format: (typeof FORMATS)[number];
  readonly endMark?: true;
  readonly editable?: true;
  readonly at?: ReturnType<typeof readAt>;
}

export function addExport(program: Command): void {
  program
    .command('export')
    .summary('Writes the stock to standard output.')
    .description(
      `Writes all pets of one moment, by ascending id. If it fails, the last line is "${FAILED_MARK}", which no import accepts.`,
    )
    .addOption(new Option('--format <format>', 'the format of the output').choices(FORMATS).default('csv'))
    .option(
      '--end-mark',
      `end csv and ndjson with a line "${END_MARK}", which tells an import that it has all pets, and of when`,
    )
    .option(
      '--editable',
      `add a column "${EXPORTED}", by which an import knows what was edited, and what has changed since`,
    )
    .addOption(
      new Option('--at <moment>', `the stock at a moment, from the history: ${AT_FORM}`)
        .argParser(readAt)
        .conflicts(['endMark', 'editable']),
    )
    .action(exportStock);
}

/** Marks the output if the export fails or a signal ends it: nobody must take a part of the stock for the whole. */
async function exportStock(options: ExportOptions): Promise<void> {
  const writeFailedMark = () => process.stdout.write(`\n${FAILED_MARK}\n`);
  const onSignal = () => {
    writeFailedMark();
    console.error('interrupted: the export is not complete');
  };
  try {
    await whileInterruptible(onSignal, () => withConnection('export', (client) => writeStock(client, options)));
  } catch (error) {
    writeFailedMark();
    throw error;
  }
}

/**
 * Lock first: COPY takes its snapshot before its own lock, and a TRUNCATE in between would make the stock look empty.
 */
async function writeStock(client: Client, options: ExportOptions): Promise<void> {
  const { format, endMark, at } = options;
  const mark = endMark && format !== 'json' ? await endMarkOf(client) : undefined;
  const time = typeof at === 'function' ? await at(queryOfClient(client)) : at;
  const moment = time !== undefined && (await waitForMoment(client, time, console.error));
  await client.query(`
    BEGIN ISOLATION LEVEL ${moment ? 'REPEATABLE READ' : 'READ COMMITTED'} READ ONLY;
    SET LOCAL statement_timeout = 0; -- a reader may be slow
    LOCK TABLE inventory_item${moment ? ', stock_change, stock_change_pruned' : ''} IN ACCESS SHARE MODE`);
  const { stock, message } = moment ? await stockAt(client, moment) : { stock: 'inventory_item' };
  if (format === 'json') process.stdout.write('[\n');
  const copy = client.query(copyTo(copyOf(options, stock)));
  let lines = 0;
  if (process.stderr.isTTY) copy.on('data', (chunk: Buffer) => (lines += chunk.filter((byte) => byte === 10).length));
  const write = () => pipeline(copy, process.stdout, { end: false });
  await withProgress(() => `${lines} lines written`, write, !process.stdout.isTTY);
  if (format === 'json') process.stdout.write(']\n');
  else if (mark) process.stdout.write(`${mark}\n`);
  if (message) console.error(message);
}

/** The end mark, with the newest change up to which an export that begins now has all changes, if that can be known. */
async function endMarkOf(client: Client): Promise<string> {
  const giveUpAt = performance.now() + LONGEST_WAIT_MS;
  const query: Query = (sql) => {
    if (performance.now() > giveUpAt)
      throw new Failure(`a transaction that writes stock was still open after ${LONGEST_WAIT_MS / 1_000} s`);
    return queryOfClient(client)(sql);
  };
  try {
    const { newest } = await waitForOpenWriters(query);
    if (newest === 0n) return END_MARK; // nothing has changed yet
    const text = `SELECT changed_at FROM stock_change WHERE id = $1`;
    const { rows } = await client.query<{ changed_at: Date }>(text, [newest]);
    return [END_MARK, newest, ...rows.map(({ changed_at }) => changed_at.toISOString())].join(' ');
  } catch (error) {
    console.error(`the end mark does not tell when the export was made: ${failureOf(error).words}`);
    return END_MARK;
  }
}

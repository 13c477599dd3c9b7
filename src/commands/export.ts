import { type Command, Option } from 'commander';
import { pipeline } from 'node:stream/promises';
import { to as copyTo } from 'pg-copy-streams';
import { withConnection } from './connection.js';
import { type Format, FORMATS } from './stock-file.js';

const object = `'{"petId":' || pet_id || ',"quantity":' || quantity || ',"status":"' || status || '"}'`;

/** PostgreSQL writes the very lines: int64 exact, one snapshot, no object made here. */
const statements = {
  csv: `COPY (SELECT pet_id AS "petId", quantity, status FROM inventory_item ORDER BY pet_id) TO STDOUT (FORMAT csv, HEADER)`,
  ndjson: `COPY (SELECT ${object} FROM inventory_item ORDER BY pet_id) TO STDOUT`,
  json: `COPY (SELECT CASE row_number() OVER (ORDER BY pet_id) WHEN 1 THEN ' ' ELSE ',' END || ${object}
                 FROM inventory_item ORDER BY pet_id) TO STDOUT`,
};

export function addExport(program: Command): void {
  program
    .command('export')
    .summary('write the stock to standard output')
    .description('Writes all pets as they are at one moment, by id. The same stock gives the same bytes.')
    .addOption(new Option('--format <format>', 'how to write it').choices(FORMATS).default('csv'))
    .addHelpText(
      'after',
      '\nExamples:\n  inventory export > stock.csv\n  inventory export --format ndjson | gzip > stock.ndjson.gz\n',
    )
    .action(exportStock);
}

/**
 * COPY takes its snapshot before its lock: beside a transaction that rewrites the table it would wait, and then see neither
 * the old rows nor the new ones. So the lock comes first, in a statement of its own.
 */
async function exportStock({ format }: { format: Format }): Promise<void> {
  await withConnection('export', async (client) => {
    await client.query(`
      BEGIN ISOLATION LEVEL READ COMMITTED READ ONLY;
      SET LOCAL statement_timeout = 0; -- a reader may be slow
      LOCK TABLE inventory_item IN ACCESS SHARE MODE`);
    if (format === 'json') process.stdout.write('[\n');
    await pipeline(client.query(copyTo(statements[format])), process.stdout, { end: false });
    if (format === 'json') process.stdout.write(']\n');
  });
}

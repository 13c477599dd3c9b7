import { readFile } from 'node:fs/promises';
import { OWN } from '../database-errors.ts';
import type { Query } from '../lib/postgres/index.ts';

/** What the migrations make, a line for each fact. A test writes it from a database. */
const MADE = new URL('../../prisma/schema.txt', import.meta.url);

const NAMES = `unnest('{${OWN.tables.join()}}'::text[]) AS name`;
/** The oids of our tables that are there. It waits for no lock. */
export const OUR_TABLES = `(SELECT to_regclass(name)::oid FROM ${NAMES})`;
export const GONE_TABLES = `SELECT string_agg(name, ', ') AS gone FROM ${NAMES} WHERE to_regclass(name) IS NULL`;

/** Each statement gives lines. Where it can, a line is the statement that makes this part again. */
const PARTS = {
  tables: `
    SELECT concat_ws(' ', relname, fact) AS line FROM pg_class, LATERAL (
      SELECT concat_ws(' ', 'kind', relkind, 'persistence', relpersistence)
      UNION ALL
      SELECT 'REPLICA IDENTITY FULL' WHERE relreplident = 'f'
      UNION ALL
      SELECT concat_ws(' ', attname, format_type(atttypid, atttypmod), CASE WHEN attnotnull THEN 'NOT NULL' END,
             (SELECT 'IDENTITY CACHE ' || seqcache FROM pg_sequence JOIN pg_depend ON objid = seqrelid
               WHERE refobjid = attrelid AND refobjsubid = attnum AND attidentity = 'd' AND deptype = 'i'),
             pg_get_expr(adbin, 0))
        FROM pg_attribute LEFT JOIN pg_attrdef ON adrelid = attrelid AND adnum = attnum
       WHERE attrelid = pg_class.oid AND attnum > 0 AND NOT attisdropped
      UNION ALL
      SELECT pg_get_constraintdef(pg_constraint.oid) FROM pg_constraint WHERE conrelid = pg_class.oid AND contype = 'c'
    ) AS facts (fact) WHERE pg_class.oid IN ${OUR_TABLES}`,
  triggers: `
    SELECT line FROM pg_trigger, LATERAL (VALUES (pg_get_triggerdef(oid, true)),
           ('ALTER TABLE ' || tgrelid::regclass || CASE tgenabled WHEN 'R' THEN ' ENABLE REPLICA TRIGGER ' WHEN 'D' THEN NULL
            ELSE ' ENABLE TRIGGER ' END || tgname)) AS statements (line)
     WHERE NOT tgisinternal AND tgrelid IN ${OUR_TABLES} AND line IS NOT NULL`,
  indexes: `
    SELECT CASE WHEN NOT (indisvalid AND indisready AND indislive) THEN 'REINDEX INDEX ' || indexrelid::regclass
                WHEN indisprimary THEN format('ALTER TABLE %s ADD CONSTRAINT %s %s', indrelid::regclass, conname, pg_get_constraintdef(pg_constraint.oid))
                ELSE regexp_replace(pg_get_indexdef(indexrelid, 0, true), ' WITH \\([^)]*\\)', '') END AS line
      FROM pg_index LEFT JOIN pg_constraint ON conindid = indexrelid AND contype = 'p' WHERE indrelid IN ${OUR_TABLES}`,
} as const;

type Part = keyof typeof PARTS;
export const PART_NAMES = Object.keys(PARTS) as Part[];

/** Sorted, and without the quotes that `quote_all_identifiers` adds. */
export async function linesOf(part: Part, query: Query): Promise<string[]> {
  const rows = (await query(PARTS[part])) as { line: string }[];
  return rows.map(({ line }) => `${part}: ${line.replaceAll('"', '')}`).sort();
}

/**
 * @returns the lines that a database lacks; for one of our indexes that is not valid, the statement that repairs it. It
 *   may have more: columns, triggers and indexes of the operator, and what a REINDEX CONCURRENTLY left
 */
export async function missingLines(part: Part, query: Query): Promise<string[]> {
  const made = (await readFile(MADE, 'utf8')).split('\n').filter((line) => line.startsWith(`${part}: `));
  const present = await linesOf(part, query);
  const repairs = present.filter((line) => line.startsWith(`${part}: REINDEX INDEX `));
  const repairOf = (line: string) => repairs.find((repair) => line.includes(` ${repair.split(' ').at(-1)} `));
  const missing = made.filter((line) => !present.includes(line)).map((line) => repairOf(line) ?? line);
  return missing.reverse().map((line) => line.slice(part.length + 2)); // CREATE TRIGGER, then ALTER TABLE
}

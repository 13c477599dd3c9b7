import type { Client } from 'pg';

/** The tables' schema. As text it is quoted. */
const SCHEMA = `(SELECT relnamespace::regnamespace FROM pg_class WHERE oid = to_regclass('inventory_item'))`;

/** Compared without quotes, which `quote_all_identifiers` adds. */
const KEEPS_ANOTHER_PATH = `EXISTS (
  SELECT FROM unnest(proconfig) AS setting WHERE setting LIKE 'search_path=%'
     AND NOT starts_with(replace(setting, '"', '') || ',', 'search_path=' || replace(${SCHEMA}::text, '"', '') || ','))`;

/** The functions that the schema of the tables lacks, or whose search path is that of another schema. */
export async function misplacedFunctions(
  names: readonly string[],
  query: (sql: string) => Promise<unknown>,
): Promise<string[]> {
  const rows = await query(`
    SELECT name FROM unnest('{${names.join()}}'::text[]) AS name
      LEFT JOIN pg_proc ON proname = name AND pronamespace = ${SCHEMA}
     WHERE pg_proc.oid IS NULL OR ${KEEPS_ANOTHER_PATH} ORDER BY name COLLATE "C"`);
  return (rows as { name: string }[]).map(({ name }) => name);
}

/** Tables that move leave their functions and types behind. These follow, unless the old schema has a store of its own. */
const MOVES = `
  WITH left_in AS (
    SELECT DISTINCT pronamespace AS schema FROM pg_trigger JOIN pg_proc ON pg_proc.oid = tgfoid
     WHERE tgrelid IN (to_regclass('inventory_item'), to_regclass('stock_change'))
       AND proname = ANY ($1) AND pronamespace <> ${SCHEMA}
       AND NOT EXISTS (SELECT FROM pg_class WHERE relnamespace = pronamespace AND relname = 'inventory_item'))
  SELECT format('ALTER FUNCTION %s SET SCHEMA %s', pg_proc.oid::regprocedure, ${SCHEMA}) AS sql
    FROM pg_proc JOIN left_in ON pronamespace = schema WHERE proname = ANY ($1)
     AND NOT EXISTS (SELECT FROM pg_proc AS own WHERE own.pronamespace = ${SCHEMA} AND own.proname = pg_proc.proname)
  UNION ALL
  SELECT DISTINCT format('ALTER TYPE %s SET SCHEMA %s', atttypid::regtype, ${SCHEMA})
    FROM pg_attribute JOIN pg_type ON pg_type.oid = atttypid JOIN left_in ON typnamespace = schema
   WHERE attrelid = to_regclass('inventory_item') AND attnum > 0`;

const PATHS = `
  SELECT format('ALTER FUNCTION %s SET search_path = %s, pg_temp', oid::regprocedure, ${SCHEMA}) AS sql
    FROM pg_proc WHERE pronamespace = ${SCHEMA} AND proname = ANY ($1) AND ${KEEPS_ANOTHER_PATH}`;

/** Gives the functions the schema of their tables, after a schema was renamed, copied or restored, or the tables moved. */
export async function mendFunctions(names: readonly string[], client: Client): Promise<void> {
  for (const mending of [MOVES, PATHS]) {
    const { rows } = await client.query<{ sql: string }>(mending, [names]);
    if (rows.length > 0) await client.query(rows.map(({ sql }) => sql).join(';'));
  }
}

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

const PATHS = `
  SELECT format('ALTER FUNCTION %s SET search_path = %s, pg_temp', oid::regprocedure, ${SCHEMA}) AS sql
    FROM pg_proc WHERE pronamespace = ${SCHEMA} AND proname = ANY ($1) AND ${KEEPS_ANOTHER_PATH}`;

/** After a schema was renamed, copied or restored. @returns what was repaired, in a line */
export async function repairFunctions(names: readonly string[], client: Client): Promise<string[]> {
  const { rows } = await client.query<{ sql: string }>(PATHS, [names]);
  if (rows.length === 0) return [];
  await client.query(rows.map(({ sql }) => sql).join(';'));
  return ['the functions find the tables of their schema'];
}

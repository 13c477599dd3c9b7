import type { Client } from 'pg';
import type { Query } from '../lib/postgres/index.ts';

/** The tables' schema. As text it is quoted. */
const SCHEMA = `(SELECT relnamespace::regnamespace FROM pg_class WHERE oid = to_regclass('inventory_item'))`;

/** Compared without quotes, which `quote_all_identifiers` adds. */
const KEEPS_ANOTHER_PATH = `EXISTS (
  SELECT FROM unnest(proconfig) AS setting WHERE setting LIKE 'search_path=%'
     AND NOT starts_with(replace(setting, '"', '') || ',', 'search_path=' || replace(${SCHEMA}::text, '"', '') || ','))`;

/** By name, the statement that makes each function. */
export type FunctionDefinitions = ReadonlyMap<string, string>;

/** What a function must have. An operator may give it more, such as another setting. */
function partsOf(definition = ''): readonly string[] {
  const [head = '', body = ''] = definition.split('$$');
  return [body, ...(head.match(/SECURITY DEFINER|SET \w+/g) ?? [])];
}
const PARTS = `ARRAY[prosrc, CASE WHEN prosecdef THEN 'SECURITY DEFINER' END]
  || ARRAY(SELECT 'SET ' || split_part(setting, '=', 1) FROM unnest(proconfig) AS setting)`;

export type FunctionFault = 'missing' | 'misplaced' | 'changed';

/**
 * @returns `missing`: the functions that the schema of the tables lacks; `misplaced`: those whose search path is that
 *   of another schema; `changed`: those with another body, or without SECURITY DEFINER or a setting of their own. An
 *   operator may have more functions of the same name.
 */
export async function functionFaults(
  definitions: FunctionDefinitions,
  query: Query,
): Promise<Record<FunctionFault, string[]>> {
  const rows = (await query(`
    SELECT name, coalesce(json_agg(${PARTS}) FILTER (WHERE prosrc IS NOT NULL), '[]') AS present,
           bool_and(${KEEPS_ANOTHER_PATH}) AS "isMisplaced"
      FROM unnest('{${[...definitions.keys()].join()}}'::text[]) AS name
      LEFT JOIN pg_proc ON proname = name AND pronamespace = ${SCHEMA}
     GROUP BY name ORDER BY name COLLATE "C"`)) as { name: string; present: string[][]; isMisplaced: boolean }[];
  const namesWhere = (isFaulty: (row: (typeof rows)[number]) => boolean) =>
    rows.filter(isFaulty).map(({ name }) => name);
  return {
    missing: namesWhere(({ present }) => present.length === 0),
    misplaced: namesWhere(({ isMisplaced }) => isMisplaced),
    changed: namesWhere(({ name, present }) => {
      const needed = partsOf(definitions.get(name));
      return present.length > 0 && !present.some((parts) => needed.every((part) => parts.includes(part)));
    }),
  };
}

const PATHS = `
  SELECT format('ALTER FUNCTION %s SET search_path = %s, pg_temp', oid::regprocedure, ${SCHEMA}) AS sql
    FROM pg_proc WHERE pronamespace = ${SCHEMA} AND proname = ANY ($1) AND ${KEEPS_ANOTHER_PATH}`;

/** After a schema was renamed, copied or restored. @returns what was repaired, in a line */
export async function repairPaths(definitions: FunctionDefinitions, client: Client): Promise<string[]> {
  const { rows } = await client.query<{ sql: string }>(PATHS, [[...definitions.keys()]]);
  if (rows.length === 0) return [];
  await client.query(rows.map(({ sql }) => sql).join(';'));
  return ['the functions find the tables of their schema'];
}

/** Makes functions again that somebody changed or dropped, as the tables' owner. @returns what was repaired, in a line */
export async function makeFunctions(
  names: readonly string[],
  definitions: FunctionDefinitions,
  client: Client,
): Promise<string[]> {
  if (names.length === 0) return [];
  const asOwner = `
    SELECT set_config('search_path', quote_ident(current_schema()) || ', pg_temp', true), set_config('role', pg_get_userbyid(relowner), true)
      FROM pg_class WHERE oid = to_regclass('inventory_item')`;
  await client.query([asOwner, ...names.map((name) => definitions.get(name))].join(';'));
  return [`functions are as migrated again: ${names.join(', ')}; "inventory check" names triggers that went with them`];
}

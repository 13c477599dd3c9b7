import { inject } from 'vitest';
import type { Database } from './database.ts';

/** What an operator, or a tool of his, may have set on the role or the database: what goes together, by kind. */
export const HOSTILE: readonly (readonly string[])[] = [
  ['default_transaction_isolation = serializable'],
  ['default_transaction_isolation = "repeatable read"'],
  [
    ...(inject('postgresMajor') < 17 ? [] : ['transaction_timeout = 40']),
    ...['statement_timeout = 1', 'lock_timeout = 1', 'idle_session_timeout = 200'],
    'idle_in_transaction_session_timeout = 1',
  ],
  ['client_min_messages = error', 'search_path = nowhere', 'synchronous_commit = off'],
  [
    ...['array_nulls = off', 'bytea_output = escape', 'client_encoding = LATIN1', 'DateStyle = "SQL, DMY"'],
    ...['TimeZone = "Asia/Kathmandu"', 'standard_conforming_strings = off'],
  ],
  ['enable_nestloop = off', 'enable_hashjoin = off', 'enable_indexscan = off'],
  // Nothing relies on these.
  `IntervalStyle = sql_standard|extra_float_digits = -15|row_security = off|quote_all_identifiers = on|transform_null_equals = on|
plan_cache_mode = force_custom_plan|enable_indexscan = off|application_name = theirs`.split('|'),
];

/**
 * Adds a column to each table, as an operator may, which PostgreSQL computes from others. The catalog has rows of a
 * dropped table before those of ours, so that a scan meets the new ones where it likes.
 */
export async function addGeneratedColumns(database: Database): Promise<void> {
  const columns = {
    inventory_item: 'pet_id / 2',
    stock_change: 'quantity_after - quantity_before',
    stock_change_pruned: 'last_id * 2',
    unrecorded_change: 'changed_in',
    api_key: 'length(name)',
    server_life_token: 'NOT is_only',
  };
  await database.sql(`CREATE TABLE gone (a int DEFAULT 1, b int DEFAULT 2, c text DEFAULT 'c'); DROP TABLE gone`);
  await database.sql('VACUUM pg_attrdef');
  for (const [table, sql] of Object.entries(columns))
    await database.sql(`ALTER TABLE ${table} ADD computed text GENERATED ALWAYS AS ((${sql})::text) STORED`);
}

import { inject } from 'vitest';

/** What an operator, or a tool of his, may have set on the role or the database. */
export const HOSTILE: readonly (readonly string[])[] = [
  ['default_transaction_isolation = serializable'],
  ['default_transaction_isolation = "repeatable read"'],
  ...(inject('postgresMajor') < 17 ? [] : [['transaction_timeout = 40']]),
  ['statement_timeout = 1'],
  ['lock_timeout = 1'],
  ['idle_session_timeout = 200'],
  ['idle_in_transaction_session_timeout = 1'],
  ['client_min_messages = error'],
  ['array_nulls = off'],
  ['bytea_output = escape'],
  ['client_encoding = LATIN1'],
  ['DateStyle = "SQL, DMY"'],
  ['TimeZone = "Asia/Kathmandu"'],
  ['standard_conforming_strings = off'],
  ['search_path = nowhere'],
  ['synchronous_commit = off'],
  // Nothing relies on these.
  `IntervalStyle = sql_standard|extra_float_digits = -15|row_security = off|quote_all_identifiers = on|transform_null_equals = on|
plan_cache_mode = force_custom_plan|enable_indexscan = off|application_name = theirs`.split('|'),
];

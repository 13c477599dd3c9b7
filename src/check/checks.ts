import { setTimeout as pause } from 'node:timers/promises';
import { indexDamage } from '../inventory/list/stock-index.ts';
import { AS_OWNER, failureOf, MIGRATE, NOT_NEWEST, OUR_OBJECTS } from '../database-errors.ts';
import { type Query, SQLSTATE } from '../lib/postgres/index.ts';
import { historyToRepair } from '../migrations/history-repair.ts';
import { requireMigrations } from '../migrations/migrations.ts';
import { missingRights, RIGHTS_OF_SERVICE } from './rights.ts';

export interface Finding {
  readonly state: 'ok' | 'warn' | 'fault';
  readonly message: string;
  /** What was found and what to do, a line or command each. */
  readonly below: readonly string[];
}
type Report = (message: string, ...below: readonly string[]) => Finding;
export const ok: Report = (message, ...below) => ({ state: 'ok', message, below });
export const warn: Report = (message, ...below) => ({ state: 'warn', message, below });
export const fault: Report = (message, ...below) => ({ state: 'fault', message, below });
export const skipped: Report = (why, ...below) => warn(`not looked at: ${why}`, ...below);

/** The parts of words that {@link failureOf} gives: what is wrong, and what to do; or one line for each setting. */
export const partsOf = (words: string) => words.split(/; |\n/) as [string, ...string[]];

/** What an error says of something that is not there, although all migrations are applied. */
export const missing = (error: unknown): [string, string] => [
  (error as Error).message,
  'somebody dropped or renamed it: rename it back, make it as prisma/migrations does, or restore a backup',
];

/** Reads only. What it throws becomes a finding, too. */
export type Check = (query: Query) => Promise<Finding>;

/** The oids of our tables that are there. It waits for no lock. */
const OUR_TABLES = `(SELECT to_regclass(name)::oid FROM unnest('{${OUR_OBJECTS.tables.join()}}'::text[]) AS name)`;

const utc = (time: string) => `to_char(${time} AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"')`;

const firstOf = (items: readonly string[]) =>
  items.length > 5 ? [...items.slice(0, 5), `and ${items.length - 5} more`] : items;

const one = async <Row>(query: Query, sql: string) => ((await query(sql)) as [Row])[0];
const wordsOf = async (query: Query, sql: string) =>
  (await one<{ words: string }>(query, `SELECT ${sql} AS words`)).words;
const asOwner = (query: Query) => wordsOf(query, AS_OWNER);
/** @param statement with `%I` for the role */
const forRole = (query: Query, statement: string) => wordsOf(query, `format('${statement}', current_user)`);

const version: Check = async (query) => {
  const { server_version } = await one<{ server_version: string }>(query, 'SHOW server_version');
  return ok(`PostgreSQL ${server_version}`); // another one is refused at the connection
};

const schema: Check = async (query) => {
  const sql = `
    SELECT current_schema() AS name, (SELECT count(oid) > 0 FROM ${OUR_TABLES} AS ours (oid)) AS "hasTables",
           (SELECT string_agg(relnamespace::regnamespace::text, ', ') FROM pg_class
             WHERE relname = 'inventory_item' AND relkind = 'r' AND has_schema_privilege(relnamespace, 'USAGE')) AS elsewhere`;
  type Row = Readonly<{ name: string | null; hasTables: boolean; elsewhere: string | null }>;
  const { name, hasTables, elsewhere } = await one<Row>(query, sql);
  if (hasTables) return ok(name ?? '');
  if (name === null) {
    return fault(
      'the schema of DATABASE_URL is not there, or the role may not use it',
      'set ?schema=, or run GRANT USAGE ON SCHEMA as its owner',
      ...(elsewhere === null ? [] : [`${elsewhere} has inventory tables`]),
    );
  }
  if (elsewhere === null) return fault(...partsOf(NOT_NEWEST));
  return fault(
    `the schema ${name} has no inventory tables, but ${elsewhere} has`,
    'if that is the store, set ?schema= in DATABASE_URL',
  );
};

const migrations: Check = async (query) => {
  const unknown = await requireMigrations(query);
  if (unknown.length === 0) return ok('all applied');
  return warn('the database has migrations of a later version: look with that version', ...firstOf(unknown));
};

/** Made by this file, which has their definitions. */
const DEFINITIONS = 'prisma/migrations/20261126150000_init/migration.sql';

/** The type of a trigger is a sum: each row 1, BEFORE 2, INSERT 4, DELETE 8, UPDATE 16, TRUNCATE 32. */
const TRIGGERS = `
  WITH ours AS (
    SELECT trigger, to_regclass(relation)::oid AS relation, to_regprocedure(function || '()')::oid AS function, type, states
      FROM (VALUES ('inventory_item_history', 'inventory_item', 'record_stock_change', 29, 'OA'),
                   ('inventory_item_replicated', 'inventory_item', 'mark_unrecorded_change', 29, 'R'),
                   ('inventory_item_truncate_history', 'inventory_item', 'record_truncated_stock', 34, 'OA'),
                   ('stock_change_append_only', 'stock_change', 'refuse_stock_change_edit', 58, 'OA'),
                   ('stock_change_pruning', 'stock_change', 'note_pruned_stock_change', 8, 'OA'))
           AS made (trigger, relation, function, type, states)
  )
  SELECT trigger || ' is off, missing or changed' AS fault FROM ours
   WHERE NOT EXISTS (SELECT FROM pg_trigger WHERE tgname = trigger AND tgrelid = relation AND tgfoid = function
                        AND tgtype = type AND strpos(states, tgenabled::text) > 0)
  UNION ALL
  SELECT format('%I on %s calls a function of ours: drop it', tgname, tgrelid::regclass) FROM pg_trigger
   WHERE tgfoid IN (SELECT function FROM ours) AND (tgname, tgrelid) NOT IN (SELECT trigger, relation FROM ours)
  UNION ALL
  SELECT 'inventory_item lacks its CHECK (quantity >= 0)'
   WHERE NOT EXISTS (SELECT FROM pg_constraint WHERE conrelid = to_regclass('inventory_item') AND contype = 'c'
                        AND replace(pg_get_constraintdef(oid), '"', '') = 'CHECK ((quantity >= 0))')
  UNION ALL
  SELECT format('the sequence %s has CACHE %s, not 1', seqrelid::regclass, seqcache) FROM pg_sequence
   WHERE seqrelid = pg_get_serial_sequence('stock_change', 'id')::regclass AND seqcache <> 1`;

const triggers: Check = async (query) => {
  const faults = ((await query(TRIGGERS)) as { fault: string }[]).map((row) => row.fault);
  if (faults.length === 0) return ok('as migrated');
  return fault(
    'the history may lack changes, or have them twice',
    ...firstOf(faults),
    await asOwner(query),
    `the definitions in ${DEFINITIONS}`,
    'then "inventory history --verify" names the pets',
  );
};

const index: Check = async (query) => {
  try {
    const damage = await indexDamage((sql) => query(`SET LOCAL enable_seqscan = off;${sql}`));
    return damage === undefined ? ok('leads to all pets') : fault(...damage);
  } catch (error) {
    if (failureOf(error).code !== SQLSTATE.queryCanceled) throw error;
    return skipped(
      'a second is too short for all pets',
      'the service audits them each hour, and logs an error if this index is damaged',
    );
  }
};

const history: Check = async (query) => {
  const repairs = await historyToRepair(query);
  if (repairs === undefined)
    return skipped(
      'a right is missing',
      await asOwner(query),
      await forRole(query, 'GRANT SELECT ON stock_change_id_seq TO %I'),
    );
  if (repairs.length === 0) return ok('nothing to repair');
  return fault(
    'a restore, replication or SQL left the history in need of repair',
    MIGRATE,
    `it prints "repaired: ${repairs.join('", "repaired: ')}"`,
  );
};

const rights: Check = async (query) => {
  const missing = await missingRights(query, RIGHTS_OF_SERVICE);
  return missing === undefined ? ok('all that the service needs') : fault(...missing);
};

/** How many standbys a commit waits for, by `synchronous_standby_names`. */
const standbysOf = (names: string) => Number(/^\s*(?:(?:FIRST|ANY)\s+)?(\d+)\s*\(/i.exec(names)?.[1] ?? 1);

interface Replication extends Record<'isStandby' | 'seesAll', boolean> {
  /** Where `default_transaction_read_only` is on: user, database, configuration file … */
  readonly readOnlyBy: string | null;
  readonly names: string;
  readonly commit: string;
  readonly senders: number;
  readonly synchronous: number;
  readonly waiting: number;
}

const REPLICATION = `
  SELECT pg_is_in_recovery() AS "isStandby",
         (SELECT source FROM pg_settings WHERE name = 'default_transaction_read_only' AND reset_val = 'on') AS "readOnlyBy",
         current_setting('synchronous_standby_names') AS names,
         (SELECT reset_val FROM pg_settings WHERE name = 'synchronous_commit') AS commit,
         (SELECT count(*)::int FROM pg_stat_replication) AS senders,
         (SELECT count(*)::int FROM pg_stat_replication WHERE sync_state IN ('sync', 'quorum')) AS synchronous,
         (SELECT count(*)::int FROM pg_stat_activity
           WHERE wait_event = 'SyncRep' AND query_start < clock_timestamp() - interval '1 s') AS waiting,
         pg_has_role('pg_read_all_stats', 'USAGE') AS "seesAll"`;

const primary: Check = async (query) => {
  const found = await one<Replication>(query, REPLICATION);
  const { isStandby, readOnlyBy, names, commit, senders, synchronous, waiting, seesAll } = found;
  const needed = names === '' ? 0 : standbysOf(names);
  if (isStandby) return fault('this server is a standby', 'write the address of the primary into DATABASE_URL');
  if (readOnlyBy !== null)
    return fault(
      `default_transaction_read_only is on by "${readOnlyBy}"`,
      'ask first who stopped writes, and why (after a move, those here would be lost)',
      'only then, as a superuser, run',
      'SET default_transaction_read_only = off',
      'ALTER ROLE, ALTER DATABASE or ALTER SYSTEM … RESET default_transaction_read_only',
      'SELECT pg_reload_conf()',
    );
  if (senders < needed || waiting > 0 || (seesAll && synchronous < needed))
    return fault(
      'commits wait for a synchronous standby',
      'bring it back, and restart nothing',
      `synchronous_standby_names = ${names}`,
      `standbys needed: ${needed}, connected: ${seesAll ? synchronous : senders}`,
      `commits that wait: ${waiting}`,
    );
  if (needed > 0 && !seesAll)
    return skipped(
      'the standbys are hidden',
      'as a superuser, run',
      await forRole(query, 'GRANT pg_read_all_stats TO %I'),
      `or look: in pg_stat_replication, ${needed} must have the sync_state sync or quorum`,
    );
  if (commit === 'off' || (commit === 'local' && needed > 0))
    return warn(
      `synchronous_commit is ${commit} by default`,
      'as a superuser, run',
      await forRole(query, 'ALTER ROLE %I SET synchronous_commit = on'),
    );
  return ok(needed === 0 ? 'the primary, without a synchronous standby' : `the primary, synchronous: ${synchronous}`);
};

const LARGEST_DIFFERENCE_MS = 5_000;

const clock: Check = async (query) => {
  const before = Date.now();
  const sql = 'SELECT (extract(epoch FROM clock_timestamp()) * 1000)::text AS ms';
  const now = Number((await one<{ ms: string }>(query, sql)).ms);
  const differenceMs = now < before ? before - now : Math.max(0, now - Date.now());
  if (differenceMs <= LARGEST_DIFFERENCE_MS) return ok('as on this machine');
  const seconds = Math.round(differenceMs / 1_000);
  const direction = now < before ? 'behind' : 'ahead of';
  return warn(
    `the database is ${seconds} s ${direction} this machine`,
    'set both by NTP: keys expire, and the history tells times, by the clock of the database',
  );
};

/** A key that has a successor is being replaced. */
const keys: Check = async (query) => {
  const rows = (await query(`
    SELECT id, ${utc('expires_at')} AS at FROM api_key
     WHERE revoked_at IS NULL AND successor_id IS NULL
       AND expires_at > clock_timestamp() AND expires_at < clock_timestamp() + interval '7 days'
     ORDER BY expires_at, id`)) as { id: string; at: string }[];
  if (rows.length === 0) return ok('none expires within a week');
  return warn(
    'keys expire within a week',
    ...firstOf(rows.map(({ id, at }) => `${id} (${at})`)),
    'for each, give its client the key that this prints',
    'inventory keys rotate <id> --overlap 7d --expires <when>',
  );
};

/**
 * Transactions that hold our tables or their rows, prepared ones too, which have no process. Every role may see that;
 * the words about a session only some.
 */
const HOLDERS = `
  SELECT DISTINCT virtualtransaction AS id,
         coalesce('pid ' || pid || concat(' (', application_name, ', role ', usename, ') since ', coalesce(${utc('xact_start')}, 'an unknown time')),
                  'a prepared transaction') AS words
    FROM pg_locks LEFT JOIN pg_stat_activity USING (pid)
   WHERE relation IN ${OUR_TABLES} AND locktype = 'relation' AND granted AND pid IS DISTINCT FROM pg_backend_pid()
     AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
     AND mode IN ('RowShareLock', 'RowExclusiveLock', 'ShareLock', 'ShareRowExclusiveLock', 'ExclusiveLock', 'AccessExclusiveLock')`;

const locks: Check = async (query) => {
  const look = async () => (await query(HOLDERS)) as Readonly<Record<'id' | 'words', string>>[];
  let held = await look();
  // For a second: transactions of requests are shorter. In parts, because the session may be one that is soon idle.
  for (let n = 0; n < 10 && held.length > 0; n++) {
    await pause(100);
    const before = new Set(held.map(({ id }) => id));
    held = (await look()).filter(({ id }) => before.has(id));
  }
  if (held.length === 0) return ok('nobody keeps others from the tables');
  return fault(
    'transactions keep others from pets or tables',
    ...firstOf(held.map(({ words }) => words)),
    'let them end',
    'or, if the line primary is ok, as their role or a superuser',
    'SELECT pg_terminate_backend(<pid>)',
    `ROLLBACK PREPARED '<gid>', which pg_prepared_xacts has`,
  );
};

/** In this order. A check is skipped where the one that it needs is not `ok`. */
export const CHECKS: readonly (readonly [name: string, check: Check, needs?: string])[] = [
  ['version', version],
  ['primary', primary],
  ['clock', clock],
  ['schema', schema],
  ['migrations', migrations, 'schema'],
  ['rights', rights, 'schema'],
  ['triggers', triggers, 'migrations'],
  ['index', index, 'migrations'],
  ['history', history, 'migrations'],
  ['keys', keys, 'schema'],
  ['locks', locks, 'schema'],
];

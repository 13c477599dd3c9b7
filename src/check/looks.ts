import { indexDamage } from '../inventory/list/stock-index.ts';
import { AS_OWNER, failureOf, MIGRATE, NOT_NEWEST } from '../database-errors.ts';
import type { Query } from '../lib/postgres/index.ts';
import { historyToRepair } from '../migrations/history-repair.ts';
import { functionFault, requireMigrations } from '../migrations/migrations.ts';
import { missingRights, RIGHTS_OF_SERVICE } from './rights.ts';
import { GONE_TABLES, missingLines, OUR_TABLES } from './schema-parts.ts';

export interface Finding {
  readonly state: 'ok' | 'warn' | 'fault';
  /** What is so, then what to do. */
  readonly says: string;
}
export const ok = (says: string): Finding => ({ state: 'ok', says });
export const warn = (says: string): Finding => ({ state: 'warn', says });
export const fault = (says: string): Finding => ({ state: 'fault', says });
export const notLookedAt = (why: string) => warn(`not looked at: ${why}`);

/** Reads only. What it throws becomes a finding, too. */
export type Look = (query: Query) => Promise<Finding>;

const utc = (time: string) => `to_char(${time} AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"')`;

/** Not more than a line can show. */
function listed(items: readonly string[], separator = ', '): string {
  const more = items.length - 5;
  return items.slice(0, 5).join(separator) + (more > 0 ? ` … and ${more} more` : '');
}

const one = async <Row>(query: Query, sql: string) => ((await query(sql)) as [Row])[0];
const wordsOf = async (query: Query, sql: string) =>
  (await one<{ words: string }>(query, `SELECT ${sql} AS words`)).words;
const asOwner = (query: Query) => wordsOf(query, AS_OWNER);
/** @param statement with `%I` for the role */
const forRole = (query: Query, statement: string) => wordsOf(query, `format('${statement}', current_user)`);

const version: Look = async (query) => {
  const { server_version } = await one<{ server_version: string }>(query, 'SHOW server_version');
  return ok(`PostgreSQL ${server_version}`); // another one is refused at the connection
};

const schema: Look = async (query) => {
  const sql = `
    SELECT current_schema() AS name, (SELECT count(name) > 0 FROM ${OUR_TABLES} AS ours (name)) AS "hasTables",
           (SELECT string_agg(relnamespace::regnamespace::text, ', ') FROM pg_class
             WHERE relname = 'inventory_item' AND relkind = 'r' AND has_schema_privilege(relnamespace, 'USAGE')) AS elsewhere`;
  type Row = Readonly<{ name: string | null; hasTables: boolean; elsewhere: string | null }>;
  const { name, hasTables, elsewhere } = await one<Row>(query, sql);
  if (hasTables) return ok(name ?? '');
  if (name === null) {
    const found = elsewhere === null ? '' : `; ${elsewhere} has inventory tables`;
    return fault(
      `the schema of DATABASE_URL is not there, or the role may not use it: set ?schema=, or run GRANT USAGE ON SCHEMA as its owner${found}`,
    );
  }
  if (elsewhere === null) return fault(NOT_NEWEST);
  return fault(
    `the schema ${name} has no inventory tables, but ${elsewhere} has; if that is the store, set ?schema= in DATABASE_URL`,
  );
};

const migrations: Look = async (query) => {
  const unknown = await requireMigrations(query);
  if (unknown.length === 0) return ok('all applied');
  return warn(`the database has migrations of a later version: ${listed(unknown)}; look with that version`);
};

const tables: Look = async (query) => {
  const missing = await missingLines('tables', query);
  if (missing.length === 0) return ok('as migrated');
  const { gone } = await one<{ gone: string | null }>(query, GONE_TABLES);
  if (gone !== null)
    return fault(`somebody dropped or renamed tables: rename them back, or restore a backup; missing: ${gone}`);
  return fault(
    `somebody changed the tables; ${await asOwner(query)}: ALTER TABLE, until they have this again: ${listed(missing, '; ')}; restore a backup only if values are lost`,
  );
};

const functions: Look = async (query) => {
  const found = await functionFault(query, 'missing', 'misplaced', 'changed');
  return found === undefined ? ok('as migrated') : fault(found);
};

const makeAgain = async (query: Query, statements: readonly string[]) =>
  `rename them back, or ${await asOwner(query)} (before CREATE, drop one of the same name; meanwhile requests can get 503): ${statements.join('; ')}`;

const triggers: Look = async (query) => {
  const missing = await missingLines('triggers', query);
  if (missing.length === 0) return ok('as migrated');
  return fault(
    `triggers are off, missing or renamed, so the history may lack changes; ${await makeAgain(query, missing)}; then "inventory history --verify" names the pets`,
  );
};

/** As by the statement_timeout. */
const QUERY_CANCELED = '57014';

const indexes: Look = async (query) => {
  const missing = await missingLines('indexes', query);
  if (missing.length > 0) return fault(`indexes are missing, damaged or renamed; ${await makeAgain(query, missing)}`);
  try {
    const damage = await indexDamage((sql) => query(`SET LOCAL enable_seqscan = off;${sql}`));
    return damage === undefined ? ok('as migrated, and lead to all pets') : fault(damage);
  } catch (error) {
    if (failureOf(error).code !== QUERY_CANCELED) throw error;
    return notLookedAt(
      'a second is too short for all pets; the service audits them each hour, and logs an error if this index is damaged',
    );
  }
};

const history: Look = async (query) => {
  const repairs = await historyToRepair(query);
  if (repairs === undefined)
    return notLookedAt(`${await asOwner(query)}: ${await forRole(query, 'GRANT SELECT ON stock_change_id_seq TO %I')}`);
  if (repairs.length === 0) return ok('nothing to repair');
  return fault(
    `a restore, replication or SQL left the history in need of repair; ${MIGRATE}; it prints "repaired: ${repairs.join('", "repaired: ')}"`,
  );
};

const rights: Look = async (query) => {
  const missing = await missingRights(query, RIGHTS_OF_SERVICE);
  return missing === undefined ? ok('all that the service needs') : fault(missing);
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

const primary: Look = async (query) => {
  const found = await one<Replication>(query, REPLICATION);
  const { isStandby, readOnlyBy, names, commit, senders, synchronous, waiting, seesAll } = found;
  const needed = names === '' ? 0 : standbysOf(names);
  if (isStandby) return fault('this server is a standby; write the address of the primary into DATABASE_URL');
  if (readOnlyBy !== null)
    return fault(
      `default_transaction_read_only is on by "${readOnlyBy}"; ask first who stopped writes, and why: after a move, those here would be lost; only then, as a superuser, run SET default_transaction_read_only = off; ALTER ROLE, ALTER DATABASE or ALTER SYSTEM … RESET default_transaction_read_only; SELECT pg_reload_conf()`,
    );
  if (senders < needed || waiting > 0 || (seesAll && synchronous < needed))
    return fault(
      `commits wait for a synchronous standby; bring it back, and restart nothing; synchronous_standby_names = ${names}; standbys needed: ${needed}, connected: ${seesAll ? synchronous : senders}; commits that wait: ${waiting}`,
    );
  if (needed > 0 && !seesAll)
    return notLookedAt(
      `as a superuser, run ${await forRole(query, 'GRANT pg_read_all_stats TO %I')}, or look: in pg_stat_replication, ${needed} must have the sync_state sync or quorum`,
    );
  if (commit === 'off' || (commit === 'local' && needed > 0))
    return warn(
      `synchronous_commit is ${commit} by default: as a superuser, run ${await forRole(query, 'ALTER ROLE %I SET synchronous_commit = on')}`,
    );
  return ok(needed === 0 ? 'the primary; no synchronous standby is set' : `the primary; synchronous: ${synchronous}`);
};

const LARGEST_DIFFERENCE_MS = 5_000;

const clock: Look = async (query) => {
  const before = Date.now();
  const sql = 'SELECT (extract(epoch FROM clock_timestamp()) * 1000)::text AS ms';
  const now = Number((await one<{ ms: string }>(query, sql)).ms);
  const differenceMs = now < before ? before - now : Math.max(0, now - Date.now());
  if (differenceMs <= LARGEST_DIFFERENCE_MS) return ok('as on this machine');
  const seconds = Math.round(differenceMs / 1_000);
  const direction = now < before ? 'behind' : 'ahead of';
  return warn(
    `the clock of the database is ${seconds} s ${direction} that of this machine; set both by NTP: keys expire, and the history tells times, by the clock of the database`,
  );
};

/** A key that has a successor is being replaced. */
const keys: Look = async (query) => {
  const rows = (await query(`
    SELECT id, ${utc('expires_at')} AS at FROM api_key
     WHERE revoked_at IS NULL AND successor_id IS NULL
       AND expires_at > clock_timestamp() AND expires_at < clock_timestamp() + interval '7 days'
     ORDER BY expires_at, id`)) as { id: string; at: string }[];
  if (rows.length === 0) return ok('none expires within a week');
  const shown = rows.map(({ id, at }) => `${id} (${at})`);
  return warn(
    `keys expire within a week; for each, run "inventory keys rotate <id> --overlap 7d --expires <when>", and give the printed key to its client: ${listed(shown)}`,
  );
};

/**
 * Sessions that keep others from our tables, not those that wait themselves. A wait for a row is one for a transaction,
 * by a session that has a lock on the table. Updates of the service do not wait for a row, so an idle transaction that
 * may hold some counts, too. Without the right to see when a transaction began, the wait counts: those of the service
 * begin again each half second.
 */
const HOLDERS = `
  WITH of_ours AS MATERIALIZED (SELECT pid, mode, granted FROM pg_locks WHERE relation IN ${OUR_TABLES} AND locktype = 'relation'
          AND database = (SELECT oid FROM pg_database WHERE datname = current_database())),
       waits AS MATERIALIZED (SELECT pid, waitstart FROM pg_locks WHERE NOT granted AND pid IN (SELECT pid FROM of_ours)),
       holders AS (SELECT unnest(pg_blocking_pids(pid)) AS pid, waitstart FROM waits
         UNION ALL SELECT pid, NULL FROM of_ours WHERE granted
          AND mode IN ('ShareLock', 'ShareRowExclusiveLock', 'ExclusiveLock', 'AccessExclusiveLock')
         UNION ALL SELECT pid, NULL FROM of_ours JOIN pg_stat_activity USING (pid)
                    WHERE mode IN ('RowShareLock', 'RowExclusiveLock') AND state LIKE 'idle in transaction%'
                      AND state_change < clock_timestamp() - interval '1 s')
  SELECT pid, application_name AS program, usename AS role, ${utc('xact_start')} AS since
    FROM holders LEFT JOIN pg_stat_activity USING (pid)
   WHERE pid <> pg_backend_pid() AND pid NOT IN (SELECT pid FROM waits)
   GROUP BY pid, application_name, usename, xact_start
  HAVING coalesce(xact_start < clock_timestamp() - interval '1 s', min(waitstart) < clock_timestamp() - interval '200 ms', true)
   ORDER BY xact_start, pid`;

const locks: Look = async (query) => {
  const rows = (await query(HOLDERS)) as { pid: number; program?: string; role?: string; since: string | null }[];
  if (rows.length === 0) return ok('nobody keeps others from the tables');
  const shown = rows.map(({ pid, program, role, since }) =>
    pid === 0
      ? 'a prepared transaction (ROLLBACK PREPARED; pg_prepared_xacts has its gid)'
      : `pid ${pid} (${program}, role ${role}) since ${since ?? 'an unknown time'}`,
  );
  return fault(
    `sessions lock the tables; let them end, or, if the line primary is ok, run as their role or a superuser SELECT pg_terminate_backend(<pid>): ${listed(shown)}`,
  );
};

/** In this order. Where the look that one needs is not `ok`, it is not looked at. */
export const LOOKS: readonly (readonly [name: string, look: Look, needs?: string])[] = [
  ['version', version],
  ['primary', primary],
  ['clock', clock],
  ['schema', schema],
  ['migrations', migrations, 'schema'],
  ['rights', rights, 'schema'],
  ['tables', tables, 'migrations'],
  ['functions', functions, 'migrations'],
  ['triggers', triggers, 'migrations'],
  ['indexes', indexes, 'migrations'],
  ['history', history, 'migrations'],
  ['keys', keys, 'schema'],
  ['locks', locks, 'schema'],
];

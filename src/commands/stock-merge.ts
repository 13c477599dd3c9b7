import type { Client } from 'pg';
import { from as copyFrom } from 'pg-copy-streams';
import { pipeline } from 'node:stream/promises';
import { Failure } from '../errors/error-text.js';
import { MEMBERS, stateList } from '../inventory/stock-item.js';

/** What an import did, or with `--dry-run` would do; counts of pets. */
export type Summary = Record<'added' | 'changed' | 'unchanged' | 'removed', number>;

const SHOWN_PROBLEMS = 20;

/** Imports take turns; one may wait this long for the one before it. */
const importLockTimeoutMs = 60_000;
/** Anyone else who holds a row that changes has this long to let go. */
const rowLockTimeoutMs = 3_000;
const statementTimeoutMs = 30 * 60_000;

/**
 * Begins the transaction and sends a file's rows, in CSV, into a temporary table; nothing of the stock is touched or locked.
 * Work memory is for the sorts of a million pets. The connection check, which not every platform has, lets go of all locks
 * soon after this process is killed. A file may come slowly, so only what comes after it has a bound on its time.
 */
export async function loadRows(client: Client, csv: AsyncIterable<string>): Promise<void> {
  await client.query(`
    SET temp_buffers = '64MB';
    BEGIN ISOLATION LEVEL READ COMMITTED;
    SET LOCAL statement_timeout = 0;
    SET LOCAL work_mem = '64MB';
    DO $$ BEGIN SET LOCAL client_connection_check_interval = '1s'; EXCEPTION WHEN invalid_parameter_value THEN NULL; END $$;
    CREATE TEMP TABLE incoming (place bigint, fault text COLLATE "C",
      ${MEMBERS.map(({ column, type }) => `${column} ${type}`).join(', ')})
      ON COMMIT DROP`);
  await pipeline(csv, client.query(copyFrom('COPY incoming FROM STDIN (FORMAT csv)')));
  await client.query(`SET LOCAL statement_timeout = ${statementTimeoutMs}; ANALYZE incoming`);
}

/** Duplicates have a sort of their own: a join would cost seconds with a million pets. */
const findProblems = `
  WITH problem AS (
    SELECT place, fault FROM incoming WHERE fault IS NOT NULL
    UNION ALL
    SELECT place, 'petId is the same as in ' || $1 || ' ' || first_place
      FROM (SELECT place, min(place) OVER (PARTITION BY pet_id) AS first_place FROM incoming WHERE pet_id IS NOT NULL) AS pet
     WHERE place > first_place)
  SELECT $1 || ' ' || place || ': ' || fault AS text, (count(*) OVER ())::integer AS total
    FROM problem ORDER BY place, fault LIMIT ${SHOWN_PROBLEMS}`;

/** @throws Failure with the first problems of the file and the count of all */
export async function refuseProblems(client: Client, unit: 'line' | 'item'): Promise<void> {
  const { rows } = await client.query<{ text: string; total: number }>(findProblems, [unit]);
  const total = rows[0]?.total ?? 0;
  if (total === 0) return;
  const told = rows.map(({ text }) => text);
  if (total > rows.length) told.push(`… and ${total - rows.length} more`);
  throw new Failure([...told, `${total} problem${total === 1 ? '' : 's'} in the file; nothing was written`].join('\n'));
}

const DIFFERS = `((${stateList('i.#')}) IS DISTINCT FROM (${stateList('file.#')}))`;

/** What {@link mergeIncoming} would do, without a lock or a write. */
export async function compareIncoming(client: Client, removes: boolean): Promise<Summary> {
  const { rows } = await client.query<Summary>(`
    SELECT (count(*) FILTER (WHERE i.pet_id IS NULL))::integer AS added,
           (count(*) FILTER (WHERE i.pet_id = file.pet_id AND ${DIFFERS}))::integer AS changed,
           (count(*) FILTER (WHERE i.pet_id = file.pet_id AND NOT ${DIFFERS}))::integer AS unchanged,
           (count(*) FILTER (WHERE file.pet_id IS NULL))::integer AS removed
      FROM incoming AS file ${removes ? 'FULL' : 'LEFT'} JOIN inventory_item i USING (pet_id)`);
  const [summary] = rows as [Summary];
  return summary;
}

/**
 * Makes the stock what the file says and writes one history row for each pet that really changes; other rows are not
 * touched. Readers are never blocked. A writer of a pet that changes waits for this transaction's end, others do not.
 */
export async function mergeIncoming(client: Client, removes: boolean, changedBy: string): Promise<Summary> {
  await client.query(`
    SET LOCAL lock_timeout = ${importLockTimeoutMs};
    SELECT pg_advisory_xact_lock(hashtextextended('inventory import', 0));
    SET LOCAL lock_timeout = ${rowLockTimeoutMs};
    SELECT set_config('inventory.recorded_in', pg_current_xact_id()::text, true)`);
  const { rows } = await client.query<Summary>(merge, [changedBy, removes]);
  const [summary] = rows as [Summary];
  return summary;
}

/**
 * A row to be changed is locked first, so that "before" is what a writer who came in between has left, and history ids rise
 * in the order of the changes. Pets are added in the order of their ids, so that lists find them on disk in that order.
 */
const merge = `
  WITH old AS MATERIALIZED (
    SELECT i.pet_id, ${stateList('i.# AS #_before')}, ${stateList('file.#')}
      FROM inventory_item i JOIN incoming file USING (pet_id)
     WHERE ${DIFFERS}
     ORDER BY i.pet_id
       FOR NO KEY UPDATE OF i),
  changed AS (
    UPDATE inventory_item i SET ${stateList('# = old.#')} FROM old WHERE i.pet_id = old.pet_id),
  added AS (
    INSERT INTO inventory_item (pet_id, ${stateList()})
    SELECT pet_id, ${stateList()} FROM incoming file
     WHERE NOT EXISTS (SELECT FROM inventory_item i WHERE i.pet_id = file.pet_id)
     ORDER BY pet_id
    RETURNING pet_id, ${stateList()}),
  removed AS (
    DELETE FROM inventory_item i WHERE $2 AND NOT EXISTS (SELECT FROM incoming file WHERE file.pet_id = i.pet_id)
    RETURNING pet_id, ${stateList()}),
  recorded AS (
    INSERT INTO stock_change (pet_id, ${stateList('#_before')}, ${stateList('#_after')}, changed_at, changed_by)
    SELECT change.*, statement_timestamp(), $1
      FROM (TABLE old
            UNION ALL SELECT pet_id, ${stateList('NULL')}, ${stateList()} FROM added
            UNION ALL SELECT pet_id, ${stateList()}, ${stateList('NULL')} FROM removed) AS change)
  SELECT added, changed, file - added - changed AS unchanged, removed
    FROM (SELECT count(*)::integer AS file FROM incoming) AS f, (SELECT count(*)::integer AS added FROM added) AS a,
         (SELECT count(*)::integer AS changed FROM old) AS c, (SELECT count(*)::integer AS removed FROM removed) AS r`;

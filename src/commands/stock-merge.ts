import type { Client } from 'pg';
import { from as copyFrom } from 'pg-copy-streams';
import { pipeline } from 'node:stream/promises';
import { Failure } from '../errors/error-text.js';
import { MEMBERS, stateList } from '../inventory/stock-item.js';

/** Counts of pets. */
export type Summary = Record<'added' | 'changed' | 'unchanged' | 'removed', number>;

/** Begins the transaction and sends a file's rows, in CSV, into a temporary table. Nothing of the stock is locked. */
export async function loadRows(client: Client, csv: AsyncIterable<string>): Promise<void> {
  await client.query(`
    SET temp_buffers = '64MB';
    BEGIN ISOLATION LEVEL READ COMMITTED;
    SET LOCAL statement_timeout = 0; -- a file may come slowly
    SET LOCAL work_mem = '64MB';
    -- Where the platform has this check, it frees all locks soon after this process is killed.
    DO $$ BEGIN SET LOCAL client_connection_check_interval = '1s'; EXCEPTION WHEN invalid_parameter_value THEN NULL; END $$;
    CREATE TEMP TABLE incoming (place bigint, fault text COLLATE "C",
      ${MEMBERS.map(({ column, type }) => `${column} ${type}`).join(', ')})
      ON COMMIT DROP`);
  await pipeline(csv, client.query(copyFrom('COPY incoming FROM STDIN (FORMAT csv)')));
  await client.query(`SET LOCAL statement_timeout = '30min'; ANALYZE incoming`);
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
    FROM problem ORDER BY place, fault LIMIT 20`;

/** @throws Failure with the first problems of the file and the count of all */
export async function refuseProblems(client: Client, unit: 'line' | 'item'): Promise<void> {
  const { rows } = await client.query<{ text: string; total: number }>(findProblems, [unit]);
  const [first] = rows;
  if (!first) return;
  const told = rows.map(({ text }) => text).join('\n');
  throw new Failure(`${told}\nproblems in the file, all together: ${first.total}; nothing was written`);
}

const DIFFERS = `((${stateList('i.#')}) IS DISTINCT FROM (${stateList('file.#')}))`;

/** What {@link mergeIncoming} would do, without a lock or a write. */
export async function compareIncoming(client: Client, removes: boolean): Promise<Summary> {
  const { rows } = await client.query<Summary>(`
    SELECT (count(*) FILTER (WHERE i.pet_id IS NULL))::integer AS added,
           (count(*) FILTER (WHERE i.pet_id = file.pet_id AND ${DIFFERS}))::integer AS changed,
           (count(*) FILTER (WHERE NOT ${DIFFERS}))::integer AS unchanged,
           (count(*) FILTER (WHERE file.pet_id IS NULL))::integer AS removed
      FROM incoming AS file ${removes ? 'FULL' : 'LEFT'} JOIN inventory_item i USING (pet_id)`);
  return (rows as [Summary])[0];
}

/** Writes each pet that changes, with a history row. Readers never wait; a writer waits only for a pet that changes. */
export async function mergeIncoming(client: Client, removes: boolean, changedBy: string): Promise<Summary> {
  await client.query(`
    SET LOCAL lock_timeout = '1min'; -- imports take turns
    SELECT pg_advisory_xact_lock(hashtextextended('inventory import', 0));
    SET LOCAL lock_timeout = '3s';
    SELECT set_config('inventory.recorded_in', pg_current_xact_id()::text, true)`);
  const { rows } = await client.query<Summary>(merge, [changedBy, removes]);
  return (rows as [Summary])[0];
}

/**
 * Locks each row before it reads its old state and takes history ids, because another writer may come in between. Adds
 * pets by id, so that lists find them on disk in that order.
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
    FROM (SELECT (SELECT count(*)::integer FROM incoming) AS file, (SELECT count(*)::integer FROM added) AS added,
                 (SELECT count(*)::integer FROM old) AS changed, (SELECT count(*)::integer FROM removed) AS removed) AS n`;

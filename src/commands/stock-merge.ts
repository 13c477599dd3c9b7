import type { Client } from 'pg';
import { from as copyFrom } from 'pg-copy-streams';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { PetStatus } from '../generated/prisma/enums.js';
import { MAX_PET_ID, MAX_QUANTITY, MIN_PET_ID } from '../inventory/stock.limits.js';
import { Failure } from '../errors/failure.js';
import { quote } from './output.js';

/** What an import did, or with `--dry-run` would do; counts of pets. */
export interface Summary {
  readonly added: number;
  readonly changed: number;
  readonly unchanged: number;
  readonly removed: number;
}

/** What becomes of pets that the file does not have. */
export type Missing = 'keep' | 'remove';

const SHOWN_PROBLEMS = 20;

/** Imports take turns; one may wait this long for the one before it. */
const importLockTimeoutMs = 60_000;
/** Anyone else who holds a row that changes has this long to let go. */
const rowLockTimeoutMs = 3_000;
const statementTimeoutMs = 30 * 60_000;

const STATUSES = Object.keys(PetStatus);

/**
 * Begins the transaction and sends the rows of a file into a temporary table; nothing of the stock is touched or locked.
 * Work memory is for the sorts of a million pets; the connection check, which not every platform has, ends the work on the
 * server soon after this process is killed, so that it holds no locks for nobody. Only what comes after the file, which may
 * be slow, has a bound on its time.
 *
 * @param rows in CSV
 */
export async function loadRows(client: Client, rows: AsyncIterable<string>): Promise<void> {
  await client.query(`
    SET temp_buffers = '64MB';
    BEGIN ISOLATION LEVEL READ COMMITTED;
    SET LOCAL statement_timeout = 0;
    SET LOCAL work_mem = '64MB';
    DO $$ BEGIN SET LOCAL client_connection_check_interval = '1s'; EXCEPTION WHEN invalid_parameter_value THEN NULL; END $$;
    CREATE TEMP TABLE incoming (place bigint, fault text, pet_id text COLLATE "C", quantity text, status text) ON COMMIT DROP`);
  await pipeline(Readable.from(rows), client.query(copyFrom('COPY incoming FROM STDIN (FORMAT csv)')));
  await client.query(`SET LOCAL statement_timeout = ${statementTimeoutMs}; ANALYZE incoming`);
}

/** Patterns have no bounded repetition, and duplicates a sort of their own: either costs seconds with a million pets. */
const findProblems = `
  WITH judged AS (
    SELECT *,
           CASE WHEN pet_id ~ '^(0|-?[1-9][0-9]*)$' AND length(pet_id) <= 20
                THEN pet_id::numeric BETWEEN ${MIN_PET_ID} AND ${MAX_PET_ID} ELSE false END AS pet_id_holds,
           CASE WHEN quantity ~ '^(0|[1-9][0-9]*)$' AND length(quantity) <= 10
                THEN quantity::bigint <= ${MAX_QUANTITY} ELSE false END AS quantity_holds,
           coalesce(status IN ('${STATUSES.join("', '")}'), false) AS status_holds
      FROM incoming),
  problem AS (
    SELECT place, member,
           CASE WHEN fault IS NOT NULL THEN fault WHEN value > '' THEN member || ' must be ' || rule ELSE member || ' is missing' END AS text,
           value, CASE WHEN pet_id_holds AND member <> 'petId' THEN pet_id END AS pet
      FROM judged CROSS JOIN LATERAL (VALUES
             ('petId', pet_id, 'an integer from ${MIN_PET_ID} to ${MAX_PET_ID}, in plain digits', pet_id_holds),
             ('quantity', quantity, 'an integer from 0 to ${MAX_QUANTITY}', quantity_holds),
             ('status', status, 'one of ${STATUSES.join(', ')}', status_holds)) AS rule (member, value, rule, holds)
     WHERE NOT (pet_id_holds AND quantity_holds AND status_holds) AND NOT holds AND (fault IS NULL OR member = 'petId')
    UNION ALL
    SELECT place, 'twice', 'petId is the same as in ' || $1 || ' ' || first_place, NULL, NULL
      FROM (SELECT place, pet_id, min(place) OVER (PARTITION BY pet_id) AS first_place FROM incoming) AS pet
     WHERE place > first_place AND pet_id ~ '^-?[0-9]+$')
  SELECT $1 || ' ' || place || ': ' || text AS text, value, pet, (count(*) OVER ())::integer AS total
    FROM problem ORDER BY place, member LIMIT ${SHOWN_PROBLEMS}`;

/**
 * @param unit what a place in the file is called
 * @throws Failure with the first problems of the file and the count of all
 */
export async function refuseProblems(client: Client, unit: 'line' | 'item'): Promise<void> {
  const { rows } = await client.query<{ text: string; value: string | null; pet: string | null; total: number }>(
    findProblems,
    [unit],
  );
  const total = rows[0]?.total ?? 0;
  if (total === 0) return;
  const told = rows.map(
    ({ text, value, pet }) => `${text}${value ? `, not ${quote(value)}` : ''}${pet === null ? '' : ` (pet ${pet})`}`,
  );
  if (total > rows.length) told.push(`… and ${total - rows.length} more`);
  throw new Failure([...told, `${total} problem${total === 1 ? '' : 's'} in the file; nothing was written`].join('\n'));
}

const file = `
  file AS MATERIALIZED (SELECT pet_id::bigint, quantity::integer, status::pet_status FROM incoming)`;

/** What {@link mergeIncoming} would do, without a lock or a write. */
export async function compareIncoming(client: Client, missing: Missing): Promise<Summary> {
  return summaryOf(
    client,
    `
    WITH ${file}
    SELECT (count(*) FILTER (WHERE i.pet_id IS NULL))::integer AS added,
           (count(*) FILTER (WHERE (i.quantity, i.status) <> (file.quantity, file.status)))::integer AS changed,
           (count(*) FILTER (WHERE (i.quantity, i.status) = (file.quantity, file.status)))::integer AS unchanged,
           (count(*) FILTER (WHERE file.pet_id IS NULL))::integer AS removed
      FROM file ${missing === 'remove' ? 'FULL' : 'LEFT'} JOIN inventory_item i USING (pet_id)`,
  );
}

/**
 * Makes the stock what the file says and writes one history row for each pet that really changes; other rows are not
 * touched. Readers are never blocked. A writer of a pet that changes waits for this transaction's end, others do not.
 *
 * @param changedBy how the history rows are signed
 */
export async function mergeIncoming(client: Client, missing: Missing, changedBy: string): Promise<Summary> {
  await client.query(`
    SET LOCAL lock_timeout = ${importLockTimeoutMs};
    SELECT pg_advisory_xact_lock(hashtextextended('inventory import', 0));
    SET LOCAL lock_timeout = ${rowLockTimeoutMs};
    SELECT set_config('inventory.recorded_in', pg_current_xact_id()::text, true)`);
  return summaryOf(client, merge, [changedBy, missing === 'remove']);
}

/**
 * A row to be changed is locked first, so that "before" is what a writer who came in between has left, and history ids rise
 * in the order of the changes. Pets are added in the order of their ids, so that lists find them on disk in that order.
 */
const merge = `
  WITH ${file},
  old AS MATERIALIZED (
    SELECT i.pet_id, i.quantity AS quantity_before, i.status AS status_before, file.quantity, file.status
      FROM inventory_item i JOIN file USING (pet_id)
     WHERE (i.quantity, i.status) <> (file.quantity, file.status)
     ORDER BY i.pet_id
       FOR NO KEY UPDATE OF i),
  changed AS (
    UPDATE inventory_item i SET quantity = old.quantity, status = old.status FROM old WHERE i.pet_id = old.pet_id),
  added AS (
    INSERT INTO inventory_item (pet_id, quantity, status)
    SELECT pet_id, quantity, status FROM file
     WHERE NOT EXISTS (SELECT FROM inventory_item i WHERE i.pet_id = file.pet_id)
     ORDER BY pet_id
    RETURNING pet_id, quantity, status),
  removed AS (
    DELETE FROM inventory_item i WHERE $2 AND NOT EXISTS (SELECT FROM file WHERE file.pet_id = i.pet_id)
    RETURNING pet_id, quantity, status),
  recorded AS (
    INSERT INTO stock_change (pet_id, quantity_before, status_before, quantity_after, status_after, changed_at, changed_by)
    SELECT change.*, statement_timestamp(), $1
      FROM (TABLE old
            UNION ALL SELECT pet_id, NULL, NULL, quantity, status FROM added
            UNION ALL SELECT pet_id, quantity, status, NULL, NULL FROM removed) AS change)
  SELECT added, changed, file - added - changed AS unchanged, removed
    FROM (SELECT count(*)::integer AS file FROM file) AS f, (SELECT count(*)::integer AS added FROM added) AS a,
         (SELECT count(*)::integer AS changed FROM old) AS c, (SELECT count(*)::integer AS removed FROM removed) AS r`;

async function summaryOf(client: Client, statement: string, values: unknown[] = []): Promise<Summary> {
  const [summary] = (await client.query<Summary>(statement, values)).rows;
  if (!summary) throw new Error('the database did not tell what was done');
  return summary;
}

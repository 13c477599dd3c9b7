import type { Client } from 'pg';
import { from as copyFrom } from 'pg-copy-streams';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import type { Problems } from './problems.js';

/** What an import did, or with `--dry-run` would do; counts of pets. */
export interface Summary {
  readonly added: number;
  readonly changed: number;
  readonly unchanged: number;
  readonly removed: number;
}

/** What becomes of pets that the file does not have. */
export type Missing = 'keep' | 'remove';

const TOLD_DUPLICATES = 20;

/** Imports take turns; one may wait this long for the one before it. */
const importLockTimeoutMs = 60_000;
/** Anyone else who holds a row that changes has this long to let go. */
const rowLockTimeoutMs = 3_000;
const statementTimeoutMs = 30 * 60_000;

/**
 * Begins the transaction. Work memory is for the sorts of a million pets; the connection check ends the work
 * on the server soon after this process is killed, so that it holds no locks for nobody.
 */
export async function beginImport(client: Client): Promise<void> {
  await client.query(`
    SET temp_buffers = '64MB';
    BEGIN ISOLATION LEVEL READ COMMITTED;
    SET LOCAL statement_timeout = ${statementTimeoutMs};
    SET LOCAL client_connection_check_interval = '1s';
    SET LOCAL work_mem = '96MB';
    SET LOCAL maintenance_work_mem = '128MB';
    CREATE TEMP TABLE incoming (pet_id bigint NOT NULL, quantity integer NOT NULL, status pet_status NOT NULL, line bigint NOT NULL) ON COMMIT DROP`);
}

/** Sends the pets, as lines of COPY text, into the temporary table; nothing of the stock is touched or locked. */
export async function copyIncoming(client: Client, lines: AsyncIterable<string>): Promise<void> {
  await pipeline(Readable.from(lines), client.query(copyFrom('COPY incoming FROM STDIN')));
}

/** Notes each pet that the file has more than once. The unique index is also what the merge reads in order. */
export async function refuseDuplicates(client: Client, problems: Problems): Promise<void> {
  await client.query('SAVEPOINT loaded');
  try {
    await client.query('CREATE UNIQUE INDEX ON incoming (pet_id)');
    await client.query('ANALYZE incoming');
  } catch (error) {
    if ((error as { code?: string }).code !== '23505') throw error;
    await client.query('ROLLBACK TO SAVEPOINT loaded');
    const { rows } = await client.query<{ line: string; first: string; total: string }>(`
      SELECT line, first, count(*) OVER () AS total
        FROM (SELECT line, min(line) OVER (PARTITION BY pet_id) AS first FROM incoming) AS lines
       WHERE line > first
       ORDER BY line LIMIT ${TOLD_DUPLICATES}`);
    for (const { line, first } of rows) problems.add(Number(line), `petId is the same as in line ${first}`);
    problems.addUntold(Number(rows[0]?.total ?? 0) - rows.length);
  }
}

/** What {@link mergeIncoming} would do, without a lock or a write. */
export async function compareIncoming(client: Client, missing: Missing): Promise<Summary> {
  const { rows } = await client.query<Record<keyof Summary, string>>(`
    SELECT count(*) FILTER (WHERE i.pet_id IS NULL) AS added,
           count(*) FILTER (WHERE (i.quantity, i.status) <> (s.quantity, s.status)) AS changed,
           count(*) FILTER (WHERE (i.quantity, i.status) = (s.quantity, s.status)) AS unchanged,
           count(*) FILTER (WHERE s.pet_id IS NULL) AS removed
      FROM incoming s ${missing === 'remove' ? 'FULL' : 'LEFT'} JOIN inventory_item i ON i.pet_id = s.pet_id`);
  const [counts] = rows;
  return {
    added: Number(counts?.added),
    changed: Number(counts?.changed),
    unchanged: Number(counts?.unchanged),
    removed: Number(counts?.removed),
  };
}

/**
 * Makes the stock what the file says and writes one history row for each pet that really changes; other rows are not
 * touched. Readers are never blocked. A writer of a pet that changes waits for this transaction's end, others do not.
 *
 * Each statement writes stock and history as one. A row to be changed is locked first, so that "before" is what a writer
 * who came in between has left, and so that history ids rise in the order of the changes.
 *
 * @param total pets in the file
 * @param changedBy how the history rows are signed
 */
export async function mergeIncoming(
  client: Client,
  missing: Missing,
  total: number,
  changedBy: string,
): Promise<Summary> {
  await client.query(`
    SET LOCAL lock_timeout = ${importLockTimeoutMs};
    SELECT pg_advisory_xact_lock(hashtextextended('inventory import', 0));
    SET LOCAL lock_timeout = ${rowLockTimeoutMs};
    SELECT set_config('inventory.recorded_in', pg_current_xact_id()::text, true)`);
  const added = await count(client, addNew, changedBy);
  const changed = added === total ? 0 : await count(client, changeDifferent, changedBy);
  const removed = missing === 'remove' ? await count(client, removeMissing, changedBy) : 0;
  return { added, changed, unchanged: total - added - changed, removed };
}

/** In the order of the ids, so that the table lies on disk in the order in which lists read it. */
const addNew = `
  WITH added AS (
    INSERT INTO inventory_item (pet_id, quantity, status)
    SELECT s.pet_id, s.quantity, s.status FROM incoming s
     WHERE NOT EXISTS (SELECT FROM inventory_item i WHERE i.pet_id = s.pet_id)
     ORDER BY s.pet_id
    RETURNING pet_id, quantity, status)
  INSERT INTO stock_change (pet_id, quantity_after, status_after, changed_at, changed_by)
  SELECT pet_id, quantity, status, statement_timestamp(), $1 FROM added`;

const changeDifferent = `
  WITH old AS MATERIALIZED (
    SELECT i.pet_id, i.quantity AS quantity_before, i.status AS status_before, s.quantity, s.status
      FROM inventory_item i JOIN incoming s USING (pet_id)
     WHERE (i.quantity, i.status) <> (s.quantity, s.status)
     ORDER BY i.pet_id
       FOR NO KEY UPDATE OF i),
  changed AS (
    UPDATE inventory_item i SET quantity = old.quantity, status = old.status FROM old WHERE i.pet_id = old.pet_id)
  INSERT INTO stock_change (pet_id, quantity_before, status_before, quantity_after, status_after, changed_at, changed_by)
  SELECT pet_id, quantity_before, status_before, quantity, status, statement_timestamp(), $1 FROM old`;

const removeMissing = `
  WITH removed AS (
    DELETE FROM inventory_item i WHERE NOT EXISTS (SELECT FROM incoming s WHERE s.pet_id = i.pet_id)
    RETURNING pet_id, quantity, status)
  INSERT INTO stock_change (pet_id, quantity_before, status_before, changed_at, changed_by)
  SELECT pet_id, quantity, status, statement_timestamp(), $1 FROM removed`;

async function count(client: Client, statement: string, changedBy: string): Promise<number> {
  return (await client.query(statement, [changedBy])).rowCount ?? 0;
}

import type { Client } from 'pg';
import { from as copyFrom } from 'pg-copy-streams';
import { pipeline } from 'node:stream/promises';
import { LONG_STATEMENTS } from '../connection.ts';
import { refusal } from './problems.ts';
import { EXPORTED_TAG, type StockFile } from './rows.ts';

/**
 * What became of a pet. `removed`, `kept`: not in the file. `skipped`: the row was edited, but the pet has changed
 * since; without `--stale skip` it is `stale`, and the import is refused. `gone`: the row was not edited, and the pet
 * is no longer in the store.
 */
export const OUTCOMES = ['added', 'changed', 'removed', 'skipped', 'kept', 'gone'] as const;
export type Outcome = (typeof OUTCOMES)[number];

export interface Rules {
  /** A row whose pet is not in the store is refused or added. `add-as-written` also takes ids that may be rounded. */
  readonly new: 'refuse' | 'add' | 'add-as-written';
  /** An edited row whose pet has changed since the export is refused, or left out. */
  readonly stale: 'refuse' | 'skip';
  readonly missing: 'keep' | 'remove';
}

/** Begins the transaction and sends rows in CSV into a temporary table. Nothing of the stock is locked. */
export async function loadRows(client: Client, csv: AsyncIterable<string>): Promise<void> {
  await client.query(`
    SET temp_buffers = '64MB';
    BEGIN ISOLATION LEVEL READ COMMITTED;
    SET LOCAL statement_timeout = 0; -- a file may come slowly
    SET LOCAL work_mem = '64MB';
    -- Where the platform has this check, it frees all locks soon after this process is killed.
    DO $$ BEGIN SET LOCAL client_connection_check_interval = '1s'; EXCEPTION WHEN invalid_parameter_value THEN NULL; END $$;
    CREATE TEMP TABLE incoming (place bigint, pet_id bigint, quantity integer, status pet_status, exported_tag text COLLATE "C")
      ON COMMIT DROP`);
  await pipeline(csv, client.query(copyFrom('COPY incoming FROM STDIN (FORMAT csv)')));
  await client.query('ANALYZE incoming (pet_id)');
}

/** Imports take turns. */
export async function awaitTurn(client: Client): Promise<void> {
  await client.query(`
    ${LONG_STATEMENTS};
    SET LOCAL lock_timeout = '1min';
    SELECT pg_advisory_xact_lock(hashtextextended('inventory import', 0));
    SET LOCAL lock_timeout = '3s';
    SELECT set_config('inventory.recorded_in', pg_current_xact_id()::text, true)`);
}

/**
 * Decides in a temporary table what becomes of each pet that changes. With `locks`, it locks each of these rows before
 * it reads the state, so that no other writer changes the row before the transaction ends.
 */
export async function planMerge(client: Client, rules: Rules, file: StockFile, locks: boolean): Promise<Counts> {
  const locking = (lock: string) => (locks ? `FOR ${lock} OF i` : '');
  const stale = rules.stale === 'skip' ? 'skipped' : 'stale';
  if (file.hasExported)
    await client.query(`UPDATE incoming SET exported_tag = '${EXPORTED_TAG.new}' WHERE exported_tag IS NULL`);
  await client.query(`
    CREATE TEMP TABLE planned ON COMMIT DROP AS
    SELECT file.place, i.pet_id, i.quantity AS quantity_before, i.status AS status_before,
           file.quantity AS quantity_after, coalesce(file.status, i.status) AS status_after, -- a pet keeps what is left out
           CASE WHEN file.exported_tag <> i.status || '-' || i.quantity THEN file.exported_tag END AS exported_tag,
           CASE WHEN file.exported_tag <> i.status || '-' || i.quantity THEN '${stale}' ELSE 'changed' END AS outcome
      FROM inventory_item i JOIN incoming file USING (pet_id)
     WHERE file.exported_tag IS DISTINCT FROM '${EXPORTED_TAG.unedited}' AND (file.exported_tag IS NOT NULL
            OR (i.quantity, i.status) IS DISTINCT FROM (file.quantity, coalesce(file.status, i.status)))
     ORDER BY i.pet_id ${locking('NO KEY UPDATE')};
    -- A statement of its own: it sees what went while the one before waited for locks.
    INSERT INTO planned (place, pet_id, quantity_after, status_after, exported_tag, outcome)
    SELECT place, pet_id, quantity, status, exported_tag,
           CASE coalesce(exported_tag, '${EXPORTED_TAG.new}') WHEN '${EXPORTED_TAG.unedited}' THEN 'gone' WHEN '${EXPORTED_TAG.new}' THEN 'added' ELSE '${stale}' END
      FROM incoming file
     WHERE NOT EXISTS (SELECT FROM inventory_item i WHERE i.pet_id = file.pet_id) ORDER BY pet_id`);
  if (rules.missing === 'remove') await planRemoval(client, file, locking('UPDATE'));
  const counts = await countPlanned(client);
  // The statements that join the plan with the stock need the statistics.
  if (counts['changed'] || counts['removed'] || counts['kept']) await client.query('ANALYZE planned (pet_id, outcome)');
  if (file.hasExported) await refuseMissed(client, counts);
  return counts;
}

/**
 * Keeps the pets that came or changed after the change that the file names.
 *
 * @throws Failure when the history does not have this change: nobody knows which changes came after it
 */
async function planRemoval(client: Client, { newest }: StockFile, locking: string): Promise<void> {
  await client.query(`
    INSERT INTO planned (pet_id, quantity_before, status_before, outcome)
    SELECT i.pet_id, i.quantity, i.status, 'removed' FROM inventory_item i
     WHERE NOT EXISTS (SELECT FROM incoming file WHERE file.pet_id = i.pet_id) ORDER BY i.pet_id ${locking}`);
  if (!newest) return;
  const named = `SELECT changed_at FROM stock_change WHERE id = $1`;
  const { rows } = await client.query<{ changed_at: Date }>(named, [newest.id]);
  if (rows[0]?.changed_at.toISOString() !== newest.at)
    throw refusal(
      `the history of this store does not have change ${newest.id} of ${newest.at}, which the end mark names: it was pruned, or a restore has undone it, or it is another store's`,
      'mark',
    );
  await client.query(
    `UPDATE planned SET outcome = 'kept'
      WHERE outcome = 'removed' AND $1 < (SELECT max(id) FROM stock_change AS change WHERE change.pet_id = planned.pet_id)`,
    [newest.id],
  );
}

/** How many pets each outcome has. */
export type Counts = Readonly<Record<string, number>>;

async function countPlanned(client: Client): Promise<Counts> {
  const { rows } = await client.query<{ outcome: string; count: number }>(
    'SELECT outcome, count(*)::integer AS count FROM planned GROUP BY outcome',
  );
  return Object.fromEntries(rows.map(({ outcome, count }) => [outcome, count]));
}

/**
 * While the import waits for the lock of a pet, its holder may remove the pet and add it again. The first statement
 * then misses the old row, and the second sees the new one. Then an edited row is in no outcome, and the counts differ.
 *
 * @throws Failure when this happened to the pet of an edited row
 */
async function refuseMissed(client: Client, counts: Counts): Promise<void> {
  const { rows } = await client.query<{ edited: number }>(
    `SELECT count(*)::integer AS edited FROM incoming WHERE exported_tag <> '${EXPORTED_TAG.unedited}'`,
  );
  const { changed = 0, stale = 0, skipped = 0, added = 0 } = counts;
  if (rows[0]?.edited !== changed + stale + skipped + added)
    throw refusal('another transaction was in the way; nothing was written', 'busy');
}

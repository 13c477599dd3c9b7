import type { Client } from 'pg';

const IS_AHEAD = 'changed_in >= pg_snapshot_xmax(pg_current_snapshot())';
const SEQUENCE = `pg_get_serial_sequence('stock_change', 'id')::regclass`;

/** Shorter than an update waits for a lock, so that none fails that has to wait behind this. */
export const LOCK_WITHIN_MS = 400;

/** For who moves or removes rows of the history: one at a time. */
export const HISTORY_LOCK = `SELECT pg_advisory_xact_lock(hashtextextended('inventory history', 0))`;

/**
 * Sets right what a history that was replicated or restored lacks to be continued here, at any time, beside updates.
 *
 * @throws 55P03 when another transaction, such as an import, keeps the history locked; it can be run again
 */
export async function mendHistory(client: Client): Promise<void> {
  await mendIdentity(client);
  await mendTransactionIds(client);
}

/**
 * Logical replication copies rows but, before PostgreSQL 19, no sequence: the ids of new rows would begin at 1 again. The
 * highest id takes a while to find and is looked for without a lock, since what is added meanwhile has its id from the
 * sequence. The lock is for the moment between looking at the sequence and setting it.
 */
async function mendIdentity(client: Client): Promise<void> {
  const { rows } = await client.query<{ highest: string; lags: boolean }>(
    `SELECT highest, highest > coalesce(pg_sequence_last_value(${SEQUENCE}), 0) AS lags
       FROM (SELECT coalesce(max(id), 0) AS highest FROM stock_change) AS history`,
  );
  const [{ highest, lags } = { highest: '0', lags: false }] = rows;
  if (!lags) return;
  // One simple query, hence one transaction.
  await client.query(
    `SET LOCAL lock_timeout = ${LOCK_WITHIN_MS};
     LOCK TABLE stock_change IN SHARE ROW EXCLUSIVE MODE;
     SELECT setval(${SEQUENCE}, greatest(${highest}, pg_sequence_last_value(${SEQUENCE})))`,
  );
}

/**
 * Gives history that came from another server, by a dump or by replication, the present transaction's id where its own lies
 * ahead: every list would look at it anew. The trigger that sees replication is switched to that alone, too, which
 * ENABLE TRIGGER undoes.
 */
async function mendTransactionIds(client: Client): Promise<void> {
  const { rows } = await client.query<{ ahead: boolean; ordinary: boolean }>(`
    SELECT EXISTS (SELECT FROM stock_change WHERE ${IS_AHEAD}) OR EXISTS (SELECT FROM unrecorded_change WHERE ${IS_AHEAD}) AS ahead,
           EXISTS (SELECT FROM pg_trigger WHERE tgrelid = 'inventory_item'::regclass AND tgenabled <> 'R'
                      AND tgname = 'inventory_item_replicated') AS ordinary`);
  if (rows[0]?.ordinary)
    await client.query(
      `SET LOCAL lock_timeout = ${LOCK_WITHIN_MS};
       ALTER TABLE inventory_item ENABLE REPLICA TRIGGER inventory_item_replicated`,
    );
  if (!rows[0]?.ahead) return;
  await client.query(`
    SET LOCAL "inventory.history" = 'restored';
    ${HISTORY_LOCK};
    UPDATE stock_change SET changed_in = DEFAULT WHERE ${IS_AHEAD};
    DELETE FROM unrecorded_change WHERE ${IS_AHEAD}`);
}

import type { Client } from 'pg';

/** Shorter than an update waits for a lock, so that none fails for it. */
const LOCK_WITHIN_MS = 400;

/**
 * Sets right what a history that was replicated or restored lacks to be continued here; nothing where all is well. It can
 * run at any time, beside updates.
 *
 * @throws 55P03 when another transaction, such as an import, keeps the history locked; it can be run again
 */
export async function mendHistory(client: Client): Promise<void> {
  await mendIdentity(client);
}

/**
 * Logical replication copies rows but, before PostgreSQL 19, no sequence: the ids of new rows would begin at 1 again. The
 * highest id takes a while to find in a long history and is looked for without a lock, since what is added meanwhile has
 * its id from the sequence. The lock is for the moment between looking at the sequence and setting it.
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

const SEQUENCE = `pg_get_serial_sequence('stock_change', 'id')::regclass`;

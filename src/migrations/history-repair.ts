import type { Client } from 'pg';
import { HISTORY_LOCK } from '../history/history-lock.ts';
import type { Query } from '../lib/postgres/index.ts';

/** Shorter than an update waits for a lock, so that no update behind this fails. */
export const LOCK_WITHIN_MS = 400;

const SEQUENCE = `pg_get_serial_sequence('stock_change', 'id')::regclass`;
const IS_AHEAD = 'changed_in >= pg_snapshot_xmax(pg_current_snapshot())';

const HIGHEST = '(SELECT max(id) FROM stock_change)';

const FAULTS = `
  SELECT CASE WHEN has_sequence_privilege(${SEQUENCE}, 'SELECT')
              THEN coalesce(${HIGHEST} > coalesce(pg_sequence_last_value(${SEQUENCE}), 0), false) END AS lags,
         EXISTS (SELECT FROM pg_trigger WHERE tgrelid = 'inventory_item'::regclass AND tgenabled <> 'R'
                    AND tgname = 'inventory_item_replicated') AS ordinary,
         (SELECT count(*) <> 1 FROM stock_change_pruned) AS several,
         EXISTS (SELECT FROM stock_change WHERE ${IS_AHEAD})
         OR EXISTS (SELECT FROM unrecorded_change WHERE ${IS_AHEAD}) AS ahead`;

/** By fault, in this order: what the command prints, and one simple query, hence one transaction. */
const REPAIRS: Readonly<Record<string, readonly [string, string]>> = {
  // Before PostgreSQL 19 logical replication copies no sequence: new ids would begin at 1 again.
  lags: [
    'ids of new changes follow the newest one',
    `SET LOCAL lock_timeout = ${LOCK_WITHIN_MS};
     LOCK TABLE stock_change IN SHARE ROW EXCLUSIVE MODE;
     SELECT setval(${SEQUENCE}, greatest(${HIGHEST}, pg_sequence_last_value(${SEQUENCE})))`,
  ],
  ordinary: [
    'changes by replication leave a mark',
    `SET LOCAL lock_timeout = ${LOCK_WITHIN_MS};
     ALTER TABLE inventory_item ENABLE REPLICA TRIGGER inventory_item_replicated`,
  ],
  // A restore of the data alone adds a row. Without any row, all changes may follow pruned ones: a feed begins anew.
  several: [
    'stock_change_pruned has one row',
    `${HISTORY_LOCK};
     WITH gone AS (DELETE FROM stock_change_pruned RETURNING last_id, last_changed_at)
     INSERT INTO stock_change_pruned (last_id, last_changed_at)
     SELECT coalesce(max(last_id), ${HIGHEST}, 0), coalesce(max(last_changed_at), clock_timestamp()) FROM gone`,
  ],
  // Another server's transaction ids may lie ahead: every list would read those rows again.
  ahead: [
    'no change has a transaction id of another server',
    `SET LOCAL "inventory.history" = 'restored';
     ${HISTORY_LOCK};
     UPDATE stock_change SET changed_in = DEFAULT WHERE ${IS_AHEAD};
     DELETE FROM unrecorded_change WHERE ${IS_AHEAD}`,
  ],
};

type Faults = Readonly<Record<string, boolean | null>>;

/** What the role may not see is tried: then PostgreSQL says which right is missing. */
const repairsOf = (faults: Faults) =>
  Object.entries(REPAIRS).flatMap(([fault, repair]) => (faults[fault] === false ? [] : [repair]));

/** @returns what {@link repairHistory} would repair, a line each; undefined if the role may not see that */
export async function historyToRepair(query: Query): Promise<string[] | undefined> {
  const [faults] = (await query(FAULTS)) as [Faults];
  return faults['lags'] === null ? undefined : repairsOf(faults).map(([what]) => what);
}

/**
 * Makes a replicated or restored history ready for updates.
 *
 * @returns what was repaired, a line each
 * @throws 55P03 while another transaction keeps it locked
 */
export async function repairHistory(client: Client): Promise<string[]> {
  const [faults] = (await client.query<Faults>(FAULTS)).rows as [Faults];
  const repairs = repairsOf(faults);
  for (const [, sql] of repairs) await client.query(sql);
  return repairs.map(([what]) => what);
}

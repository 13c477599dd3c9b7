import type { Client } from 'pg';
import { MIN_PET_ID } from '../inventory/item-limits.ts';
import { HISTORY_LOCK } from './history-lock.ts';

/**
 * $1 the time; $2, $3 the row after which to go on. A row with a key answers repetitions of its update for a day. LIMIT
 * and ctid keep a planner without statistics from joining the whole table.
 */
const pruneSlice = `
  WITH slice AS MATERIALIZED (
    SELECT pet_id, id, ctid AS place,
           changed_at < $1 AND (idempotency_key IS NULL OR changed_at < now() - interval '1 day') AS is_old
      FROM stock_change WHERE (pet_id, id) > ($2::bigint, $3::bigint)
     ORDER BY pet_id, id LIMIT 10000),
  old AS MATERIALIZED (
    SELECT place
      FROM (SELECT *, bool_and(is_old) OVER (PARTITION BY pet_id ORDER BY id) AS old_from_start FROM slice) AS s
     WHERE old_from_start
       AND (SELECT id FROM stock_change newer WHERE newer.pet_id = s.pet_id AND newer.id > s.id
             ORDER BY newer.pet_id, newer.id LIMIT 1) IS NOT NULL
       AND NOT (pet_id = $2 AND EXISTS (SELECT FROM stock_change kept WHERE kept.pet_id = $2 AND kept.id <= $3))),
  gone AS (DELETE FROM stock_change WHERE ctid = ANY (ARRAY(SELECT place FROM old)))
  SELECT pet_id, id, (SELECT count(*)::integer FROM old) AS deleted FROM slice ORDER BY pet_id DESC, id DESC LIMIT 1`;

/**
 * Deletes history rows older than a time, in short transactions. It takes a pet's rows from the beginning of the chain
 * only, because a later row can have an earlier time. It never takes the newest one. So the rest always links up.
 */
export async function pruneBefore(client: Client, before: Date, tell?: (deleted: number) => void): Promise<number> {
  let deleted = 0;
  let last: readonly unknown[] = [MIN_PET_ID, 0];
  for (;;) {
    await client.query(`BEGIN; SET LOCAL "inventory.history" = 'prune'; ${HISTORY_LOCK}`);
    const { rows } = await client.query<{ pet_id: string; id: string; deleted: number }>(pruneSlice, [before, ...last]);
    await client.query('COMMIT');
    const [slice] = rows;
    if (!slice) return deleted;
    deleted += slice.deleted;
    tell?.(deleted);
    last = [slice.pet_id, slice.id];
  }
}

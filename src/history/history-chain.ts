import type { Client } from 'pg';
import { HISTORY_LOCK } from './history-lock.ts';
import { columns } from '../inventory/item.ts';
import { MIN_PET_ID } from '../inventory/item-limits.ts';

/** The fault of a change that does not begin where the one before it ended, and is older. */
export const RESTORED_TWICE = 'each change is there twice: the history was restored over an existing one';

const findBrokenChains = `
  WITH link AS (
    SELECT pet_id, ${columns('#_after')},
           lead(id) OVER chain IS NULL AS last,
           lag(id) OVER chain IS NOT NULL
             AND (${columns('#_before')}) IS DISTINCT FROM (${columns('lag(#_after) OVER chain')}) AS unlinked,
           changed_at < lag(changed_at) OVER chain AS earlier
      FROM stock_change WINDOW chain AS (PARTITION BY pet_id ORDER BY id)),
  pet AS (
    SELECT pet_id, true AS recorded, sum(unlinked::int) AS gaps, bool_or(unlinked AND earlier) AS twice,
           ${columns('max(#_after) FILTER (WHERE last) AS #')}
      FROM link GROUP BY pet_id),
  checked AS (
    SELECT pet_id, array_remove(ARRAY[
             CASE WHEN pet.recorded IS NULL THEN 'has no history' END,
             CASE WHEN pet.twice THEN '${RESTORED_TWICE}'
                  WHEN pet.gaps > 0 THEN pet.gaps || ' of its changes do not begin where the one before ended' END,
             CASE WHEN pet.recorded AND (${columns('pet.#')}) IS DISTINCT FROM (${columns('item.#')})
                  THEN 'its last change does not end in its present stock' END], NULL) AS faults
      FROM pet FULL JOIN inventory_item item USING (pet_id))
  SELECT (SELECT count(*)::integer FROM checked) AS pets, (count(pet_id) OVER ())::integer AS broken, pet_id, faults
    FROM (VALUES (1)) AS always LEFT JOIN checked ON cardinality(faults) > 0
   ORDER BY pet_id LIMIT 1000`;

/**
 * Counts the pets, and names the faults of up to a thousand. A history may begin with any stock: older rows may be
 * pruned.
 */
export async function verifyHistory(client: Client) {
  await client.query(`SET statement_timeout = '30min'; SET work_mem = '96MB'`);
  const { rows } = await client.query<{ pets: number; broken: number; pet_id: string | null; faults: string[] }>(
    findBrokenChains,
  );
  const broken = rows.flatMap(({ pet_id, faults }) => (pet_id === null ? [] : [{ petId: BigInt(pet_id), faults }]));
  return { pets: rows[0]?.pets ?? 0, brokenPets: rows[0]?.broken ?? 0, broken };
}

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
export async function pruneBefore(client: Client, before: Date): Promise<number> {
  let deleted = 0;
  let last: readonly unknown[] = [MIN_PET_ID, 0];
  for (;;) {
    await client.query(`BEGIN; SET LOCAL "inventory.history" = 'prune'; ${HISTORY_LOCK}`);
    const { rows } = await client.query<{ pet_id: string; id: string; deleted: number }>(pruneSlice, [before, ...last]);
    await client.query('COMMIT');
    const [slice] = rows;
    if (!slice) return deleted;
    deleted += slice.deleted;
    last = [slice.pet_id, slice.id];
  }
}

import type { Client } from 'pg';

const findBrokenChains = `
  WITH link AS (
    SELECT pet_id, quantity_after, status_after,
           lead(id) OVER chain IS NULL AS last,
           lag(id) OVER chain IS NOT NULL
             AND (quantity_before, status_before)
                 IS DISTINCT FROM (lag(quantity_after) OVER chain, lag(status_after) OVER chain) AS unlinked
      FROM stock_change WINDOW chain AS (PARTITION BY pet_id ORDER BY id)),
  pet AS (
    SELECT pet_id, true AS recorded, sum(unlinked::int) AS gaps,
           max(quantity_after) FILTER (WHERE last) AS quantity, max(status_after) FILTER (WHERE last) AS status
      FROM link GROUP BY pet_id),
  checked AS (
    SELECT pet_id, array_remove(ARRAY[
             CASE WHEN pet.recorded IS NULL THEN 'has no history' END,
             CASE WHEN pet.gaps > 0 THEN pet.gaps || ' of its changes do not begin where the one before ended' END,
             CASE WHEN pet.recorded AND (pet.quantity, pet.status) IS DISTINCT FROM (item.quantity, item.status)
                  THEN 'its last change does not end in its present stock' END], NULL) AS faults
      FROM pet FULL JOIN inventory_item item USING (pet_id))
  SELECT (SELECT count(*)::integer FROM checked) AS pets, (count(pet_id) OVER ())::integer AS broken, pet_id, faults
    FROM (VALUES (1)) AS always LEFT JOIN checked ON cardinality(faults) > 0
   ORDER BY pet_id LIMIT 1000`;

/**
 * Counts the pets, and names the faults of up to a thousand. A history may begin with any stock: older rows may be
 * pruned.
 *
 * @param client in a transaction
 */
export async function verifyHistory(client: Client) {
  await client.query(`SET LOCAL work_mem = '96MB'`);
  const { rows } = await client.query<{ pets: number; broken: number; pet_id: string | null; faults: string[] }>(
    findBrokenChains,
  );
  const broken = rows.flatMap(({ pet_id, faults }) => (pet_id === null ? [] : [{ petId: BigInt(pet_id), faults }]));
  return { pets: rows[0]?.pets ?? 0, brokenPets: rows[0]?.broken ?? 0, broken };
}

/** What the peer asks of its database. */

export const GOOD_KEY = `
  SELECT id, $2 = ANY (scopes) AS allowed
    FROM api_key
   WHERE key_sha256 = $1
     AND (expires_at IS NULL OR expires_at > now())
     AND (revoked_at IS NULL OR revoked_at > now())`;

export const LIST = `SELECT pet_id AS "petId", quantity, status FROM inventory_item ORDER BY pet_id`;

/** PostgreSQL 18 knows `old` by itself. */
const CHANGED = `
    UPDATE inventory_item SET quantity = $2 WHERE pet_id = $1
    RETURNING pet_id, old.quantity AS quantity_before, quantity, status`;
const CHANGED_BEFORE_18 = `
    UPDATE inventory_item AS item SET quantity = $2
      FROM (SELECT pet_id, quantity FROM inventory_item WHERE pet_id = $1 FOR UPDATE) AS old
     WHERE item.pet_id = old.pet_id
    RETURNING item.pet_id, old.quantity AS quantity_before, item.quantity, item.status`;

/** @param version such as 180004 */
export const update = (version: number) => `
  WITH changed AS (${version >= 180_000 ? CHANGED : CHANGED_BEFORE_18}
  ), history AS (
    INSERT INTO stock_change (pet_id, quantity_before, quantity_after, changed_by, request_id)
    SELECT pet_id, quantity_before, quantity, $3, $4 FROM changed
  )
  SELECT pet_id AS "petId", quantity, status FROM changed`;

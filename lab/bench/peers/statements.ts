/** What the peer asks of its database. */

export const GOOD_KEY = `
  SELECT id, $2 = ANY (scopes) AS allowed
    FROM api_key
   WHERE key_sha256 = $1
     AND (expires_at IS NULL OR expires_at > now())
     AND (revoked_at IS NULL OR revoked_at > now())`;

export const LIST = `SELECT pet_id AS "petId", quantity, status FROM inventory_item ORDER BY pet_id`;

export const UPDATE = `
  WITH changed AS (
    UPDATE inventory_item SET quantity = $2 WHERE pet_id = $1
    RETURNING pet_id, old.quantity AS quantity_before, quantity, status
  ), history AS (
    INSERT INTO stock_change (pet_id, quantity_before, quantity_after, changed_by, request_id)
    SELECT pet_id, quantity_before, quantity, $3, $4 FROM changed
  )
  SELECT pet_id AS "petId", quantity, status FROM changed`;

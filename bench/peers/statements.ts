/** What the peers that speak SQL ask of the database; the limit drawn by pgbench is the same update. */

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
    RETURNING pet_id, old.quantity AS quantity_before, quantity, old.status AS status_before, status
  ), history AS (
    INSERT INTO stock_change (pet_id, quantity_before, quantity_after, status_before, status_after, changed_by)
    SELECT pet_id, quantity_before, quantity, status_before, status, $3 FROM changed
  )
  SELECT pet_id AS "petId", quantity, status FROM changed`;

export const UPDATE_WITHOUT_HISTORY = `
  UPDATE inventory_item SET quantity = $2 WHERE pet_id = $1
  RETURNING pet_id AS "petId", quantity, status`;

/** The statements write their own history, so the trigger that would is told to stay out. */
export const SESSION_OPTIONS = '-c inventory.history=written';

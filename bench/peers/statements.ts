/** What the peers that speak SQL ask of the database; the limit drawn by pgbench is the same update. */

export const GOOD_KEY = `
  SELECT id, $2 = ANY (scopes) AS allowed
    FROM api_key
   WHERE key_sha256 = $1
     AND (expires_at IS NULL OR expires_at > now())
     AND (revoked_at IS NULL OR revoked_at > now())`;

export const LIST = `SELECT pet_id AS "petId", quantity, status FROM inventory_item ORDER BY pet_id`;

/** The statements write their own history, so the trigger that would is told to stay out, before the row is written. */
const VOUCHED = `(SELECT set_config('inventory.recorded_in', pg_current_xact_id()::text, true) AS xid) AS vouched`;

export const UPDATE = `
  WITH changed AS (
    UPDATE inventory_item SET quantity = $2 FROM ${VOUCHED} WHERE pet_id = $1 AND xid IS NOT NULL
    RETURNING pet_id, old.quantity AS quantity_before, quantity, old.status AS status_before, status
  ), history AS (
    INSERT INTO stock_change (pet_id, quantity_before, quantity_after, status_before, status_after, changed_by)
    SELECT pet_id, quantity_before, quantity, status_before, status, $3 FROM changed
  )
  SELECT pet_id AS "petId", quantity, status FROM changed`;

export const UPDATE_WITHOUT_HISTORY = `
  WITH changed AS (
    UPDATE inventory_item SET quantity = $2 FROM ${VOUCHED} WHERE pet_id = $1 AND xid IS NOT NULL
    RETURNING pet_id, quantity, status
  )
  SELECT pet_id AS "petId", quantity, status FROM changed`;

/** The key and the list in one trip: one row without a pet where the key is good and the store empty or forbidden. */
export const LIST_WITH_KEY = `
  WITH key AS MATERIALIZED (${GOOD_KEY})
  SELECT key.allowed, pet_id AS "petId", quantity, status
    FROM key LEFT JOIN inventory_item ON key.allowed ORDER BY pet_id`;

/** The key and the update in one trip: one row without a pet where there is none or the key lacks the scope. */
export const UPDATE_WITH_KEY = `
  WITH key AS MATERIALIZED (${GOOD_KEY}),
  changed AS (
    UPDATE inventory_item SET quantity = $4 FROM ${VOUCHED}
     WHERE pet_id = $3 AND xid IS NOT NULL AND (SELECT allowed FROM key)
    RETURNING pet_id, old.quantity AS quantity_before, quantity, old.status AS status_before, status
  ), history AS (
    INSERT INTO stock_change (pet_id, quantity_before, quantity_after, status_before, status_after, changed_by)
    SELECT pet_id, quantity_before, quantity, status_before, status, 'key:' || (SELECT id FROM key) FROM changed
  )
  SELECT key.allowed, pet_id AS "petId", quantity, status FROM key LEFT JOIN changed ON true`;

-- Sets the quantities of pets. It has one row for each update, in their order, or none if it is too late. Its columns:
-- - n: the place of the update, from 1
-- - outcome: done, replayed, precondition_failed, key_reused, absent, busy or no_history_row
-- - the rest: the state that the statement found, that is the quantity and the columns that an update keeps;
-- of a repetition, the state that the first update made
--
-- Each array has one element for each update, 1 to 500.
--
-- $1 double precision: until when PostgreSQL may begin, by its own clock; milliseconds since 1970-01-01 UTC
-- $2 text: transaction_timeout in milliseconds; 2000 with the default REQUEST_DEADLINE_MS
-- $3 bigint[]: petId, -9223372036854775808 to 9223372036854775807
-- $4 integer[]: the new quantity, 0 to 2147483647
-- $5 text[]: the author of the change: "key:" and the id of the API key
-- $6 text[]: X-Request-Id, 1 to 64 of A-Z, a-z, 0-9, _ and -
-- $7 text[]: Change-Reason, of the same form; null without one
-- $8 integer[]: the quantity that the update before it of the same pet sets; null if there is none
-- $9 boolean[]: whether it is the last one of its pet; only this one writes the pet, but each writes a history row
-- $10 text[]: the tags of If-Match, such as available-12, with blanks between them; null without a condition
-- $11 text[]: Idempotency-Key, 1 to 64 of A-Z, a-z, 0-9, _ and -; null without one
--
-- Promise: it waits for no session that holds a pet. Each update that is done is committed with its history row. If a
-- trigger changes a row or keeps it back, the statement fails with SQLSTATE 22P02 and writes nothing.
--
-- Promise: a key of an author takes effect once. If the history has it, the outcome is replayed or key_reused. If
-- another session has just taken it, the outcome is no_history_row, and the service sends the update again.
--
-- Figure of 2026-11-27: PostgreSQL takes 300 µs of CPU time for one update, 570 for 8, and 2,400 for 64: 37 for each.
-- So updates that wait share a statement.

  WITH settings AS MATERIALIZED (
    SELECT set_config('inventory.recorded_in', pg_current_xact_id()::text, true),
           CASE current_setting('client_min_messages')
                WHEN 'error' THEN set_config('client_min_messages', 'warning', true) END,
           CASE WHEN current_setting('synchronous_commit') IN ('off', 'local')
                THEN set_config('synchronous_commit', 'on', true) END,
           CASE WHEN current_setting('transaction_timeout', true) IS NOT NULL
                THEN set_config('transaction_timeout', $2, true) END
  ), requested AS (
    SELECT updates.*,
           CASE WHEN idempotency_key IS NOT NULL THEN sha256(convert_to(if_match, 'UTF8')) END AS if_match_sha256
      FROM settings
     CROSS JOIN unnest($3::bigint[], $4::int[], $5::text[], $6::text[], $7::text[],
                       $8::int[], $9::bool[], $10::text[], $11::text[])
                WITH ORDINALITY AS updates (pet_id, quantity, changed_by, request_id, reason,
                                            quantity_before, is_last, if_match, idempotency_key, n)
     WHERE statement_timestamp() < to_timestamp($1::float8 / 1000)
  ), known AS MATERIALIZED (
    SELECT requested.n, change.quantity_after, status_after, pg_logical_emit_message(true, 'inventory', 'replay'),
           (change.pet_id, change.quantity_after, change.if_match_sha256)
             IS NOT DISTINCT FROM (requested.pet_id, requested.quantity, requested.if_match_sha256) AS is_same
      FROM requested,
           LATERAL (SELECT * FROM stock_change AS change
                     WHERE change.changed_by = requested.changed_by
                       AND change.idempotency_key = requested.idempotency_key
                     LIMIT 1) AS change
     WHERE requested.idempotency_key IS NOT NULL
  ), locked AS MATERIALIZED (
    SELECT requested.pet_id, item.*
      FROM requested,
           LATERAL (SELECT quantity, status FROM inventory_item AS item
                     WHERE item.pet_id = requested.pet_id AND item.pet_id + 0 = requested.pet_id
                       FOR NO KEY UPDATE SKIP LOCKED) AS item
     WHERE is_last
  ), checked AS MATERIALIZED (
    SELECT requested.*, item.quantity AS present, status,
           item.status IS NOT NULL
           AND (if_match IS NULL
                OR item.status || '-' || item.quantity = ANY (string_to_array(if_match, ' '))) AS is_accepted
      FROM requested LEFT JOIN locked AS item USING (pet_id)
     WHERE n NOT IN (SELECT n FROM known)
  ), recorded AS (
    INSERT INTO stock_change (pet_id, quantity_before, quantity_after, status_before, status_after,
                              changed_by, request_id, reason, idempotency_key, if_match_sha256)
    SELECT pet_id, coalesce(quantity_before, present), quantity, status, status,
           changed_by, request_id, reason, idempotency_key, if_match_sha256
      FROM checked WHERE is_accepted ORDER BY idempotency_key || changed_by, n
        ON CONFLICT (changed_by, idempotency_key) WHERE idempotency_key IS NOT NULL DO NOTHING
    RETURNING pet_id, idempotency_key
  ), changed AS (
    UPDATE inventory_item AS item SET quantity = checked.quantity FROM checked
     WHERE item.pet_id = checked.pet_id AND checked.is_accepted AND checked.is_last
       AND item.pet_id IN (SELECT pet_id FROM recorded)
    RETURNING item.tableoid IS NOT NULL AND item.pet_id = checked.pet_id AND item.quantity = checked.quantity
              AND (item.status) IS NOT DISTINCT FROM (checked.status) AS as_requested
  )
  SELECT n,
         CASE WHEN is_accepted AND ((SELECT count(*) FROM changed WHERE as_requested),
                                    (SELECT count(*) FROM recorded WHERE idempotency_key IS NULL))
                                <> ((SELECT count(DISTINCT pet_id) FROM recorded),
                                    (SELECT count(*) FROM checked WHERE is_accepted AND idempotency_key IS NULL))
              THEN ('a trigger changed the row or kept it back; let the trigger raise an error instead ' || n)::int::text
              WHEN is_accepted AND pet_id NOT IN (SELECT pet_id FROM recorded) THEN 'no_history_row'
              WHEN is_accepted THEN 'done'
              WHEN present IS NOT NULL THEN 'precondition_failed'
              WHEN (SELECT item.quantity >= 0 FROM inventory_item AS item
                     WHERE item.pet_id = checked.pet_id AND item.pet_id + 0 = checked.pet_id) THEN 'busy'
              ELSE 'absent'
         END AS outcome,
         present, status
    FROM checked
  UNION ALL
  SELECT n, CASE WHEN is_same THEN 'replayed' ELSE 'key_reused' END, quantity_after, status_after
    FROM known
   ORDER BY n

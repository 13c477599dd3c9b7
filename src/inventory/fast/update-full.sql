  WITH settings AS MATERIALIZED (SELECT 
           set_config('inventory.recorded_in', pg_current_xact_id()::text, true),
           CASE current_setting('client_min_messages') WHEN 'error' THEN set_config('client_min_messages', 'warning', true) END,
           CASE current_setting('synchronous_commit') WHEN 'off' THEN set_config('synchronous_commit', 'on', true) END,
           CASE WHEN current_setting('transaction_timeout', true) IS NOT NULL
                THEN set_config('transaction_timeout', $2, true) END
  ), asked AS (
    SELECT updates.*, CASE WHEN idempotency_key IS NOT NULL THEN sha256(convert_to(if_match, 'UTF8')) END AS if_match_sha256
      FROM settings
     CROSS JOIN unnest($3::bigint[], $4::int[], $5::text[], $6::text[], $7::text[], $8::int[], $9::bool[], $10::text[], $11::text[])
                WITH ORDINALITY AS updates (pet_id, quantity, changed_by, request_id, reason, quantity_before, is_last, if_match,
                                            idempotency_key, n) WHERE statement_timestamp() < to_timestamp($1::float8 / 1000)
  ), known AS MATERIALIZED (
    SELECT asked.n, change.quantity_after, change.status_after, pg_logical_emit_message(true, 'inventory', 'replay'),
           (change.pet_id, change.quantity_after, change.if_match_sha256)
             IS NOT DISTINCT FROM (asked.pet_id, asked.quantity, asked.if_match_sha256) AS is_same
      FROM asked, LATERAL (SELECT * FROM stock_change AS change
                            WHERE change.changed_by = asked.changed_by AND change.idempotency_key = asked.idempotency_key
                            LIMIT 1) AS change
     WHERE asked.idempotency_key IS NOT NULL
  ), locked AS MATERIALIZED (
    SELECT asked.pet_id, item.* FROM asked, LATERAL (SELECT quantity, status FROM inventory_item AS item
                                                      WHERE item.pet_id = asked.pet_id AND item.pet_id + 0 = asked.pet_id
                                                        FOR NO KEY UPDATE SKIP LOCKED) AS item WHERE is_last
  ), judged AS MATERIALIZED (
    SELECT asked.*, item.quantity AS present, item.status, item.status IS NOT NULL
           AND (if_match IS NULL OR item.status || '-' || item.quantity = ANY (string_to_array(if_match, ' '))) AS holds
      FROM asked LEFT JOIN locked AS item USING (pet_id) WHERE n NOT IN (SELECT n FROM known)
  ), recorded AS (
    INSERT INTO stock_change (pet_id, quantity_before, quantity_after, status_before, status_after, changed_by, request_id, reason,
                              idempotency_key, if_match_sha256)
    SELECT pet_id, coalesce(quantity_before, present), quantity, status, status, changed_by, request_id, reason,
           idempotency_key, if_match_sha256
      FROM judged WHERE holds ORDER BY idempotency_key || changed_by, n
    ON CONFLICT (changed_by, idempotency_key) WHERE idempotency_key IS NOT NULL DO NOTHING RETURNING pet_id, idempotency_key
  ), changed AS (
    UPDATE inventory_item AS item SET quantity = judged.quantity FROM judged
     WHERE item.pet_id = judged.pet_id AND judged.holds AND judged.is_last AND item.pet_id IN (SELECT pet_id FROM recorded)
    RETURNING 
           item.tableoid IS NOT NULL AND item.pet_id = judged.pet_id AND item.quantity = judged.quantity
           AND (item.status) IS NOT DISTINCT FROM (judged.status) AS as_asked
  )
  SELECT n, CASE WHEN holds AND ((SELECT count(*) FROM changed WHERE as_asked),
                                 (SELECT count(*) FROM recorded WHERE idempotency_key IS NULL))
                             <> ((SELECT count(DISTINCT pet_id) FROM recorded),
                                 (SELECT count(*) FROM judged WHERE holds AND idempotency_key IS NULL)) THEN ('a trigger changed the row or kept it back; let the trigger raise an error instead ' || n)::int::text
                 WHEN holds AND pet_id NOT IN (SELECT pet_id FROM recorded) THEN 'no_history_row'
                 WHEN holds THEN 'done'
                 WHEN present IS NOT NULL THEN 'precondition_failed'
                 WHEN (SELECT item.quantity >= 0 FROM inventory_item AS item WHERE item.pet_id = judged.pet_id AND item.pet_id + 0 = judged.pet_id) THEN 'busy'
                 ELSE 'absent' END, present, status FROM judged
  UNION ALL SELECT n, CASE WHEN is_same THEN 'replayed' ELSE 'key_reused' END, quantity_after, status_after FROM known
  ORDER BY n

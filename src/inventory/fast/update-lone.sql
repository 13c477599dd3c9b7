  WITH judged AS MATERIALIZED (
    SELECT 1 AS n, $3::bigint AS pet_id, $4::int AS quantity, quantity AS present, status,
           ($8::text IS NULL OR item.status || '-' || item.quantity = ANY (string_to_array($8::text, ' '))) AS holds, 
           set_config('inventory.recorded_in', pg_current_xact_id()::text, true),
           CASE current_setting('client_min_messages') WHEN 'error' THEN set_config('client_min_messages', 'warning', true) END,
           CASE current_setting('synchronous_commit') WHEN 'off' THEN set_config('synchronous_commit', 'on', true) END,
           CASE WHEN current_setting('transaction_timeout', true) IS NOT NULL
                THEN set_config('transaction_timeout', $2, true) END
      FROM inventory_item AS item WHERE item.pet_id = $3::bigint AND item.pet_id + 0 = $3::bigint AND statement_timestamp() < to_timestamp($1::float8 / 1000) FOR NO KEY UPDATE SKIP LOCKED
  ), recorded AS (
    INSERT INTO stock_change (pet_id, quantity_before, quantity_after, status_before, status_after, changed_by, request_id, reason)
    SELECT pet_id, present, quantity, status, status, $5::text, $6::text, $7::text FROM judged WHERE holds
    RETURNING pet_id
  ), changed AS (
    UPDATE inventory_item AS item SET quantity = judged.quantity FROM judged WHERE item.pet_id = $3 AND judged.holds
    RETURNING 
           item.tableoid IS NOT NULL AND item.pet_id = judged.pet_id AND item.quantity = judged.quantity
           AND (item.status) IS NOT DISTINCT FROM (judged.status) AS as_asked
  )
  SELECT n, CASE WHEN NOT holds THEN 'precondition_failed'
                 WHEN EXISTS (SELECT FROM recorded) AND (SELECT as_asked FROM changed) THEN 'done' ELSE ('a trigger changed the row or kept it back; let the trigger raise an error instead ' || n)::int::text END,
         present, status FROM judged

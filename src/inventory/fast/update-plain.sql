  WITH settings AS MATERIALIZED (SELECT 
           set_config('inventory.recorded_in', pg_current_xact_id()::text, true),
           CASE current_setting('client_min_messages') WHEN 'error' THEN set_config('client_min_messages', 'warning', true) END,
           CASE current_setting('synchronous_commit') WHEN 'off' THEN set_config('synchronous_commit', 'on', true) END,
           CASE WHEN current_setting('transaction_timeout', true) IS NOT NULL
                THEN set_config('transaction_timeout', $2, true) END
  ), asked AS (
    SELECT updates.* FROM settings
     CROSS JOIN unnest($3::bigint[], $4::int[], $5::text[], $6::text[], $7::text[])
                WITH ORDINALITY AS updates (pet_id, quantity, changed_by, request_id, reason, n) WHERE statement_timestamp() < to_timestamp($1::float8 / 1000)
  ), judged AS MATERIALIZED (
    SELECT asked.*, item.quantity AS present, item.status, item.status IS NOT NULL AS holds
      FROM asked LEFT JOIN LATERAL (SELECT quantity, status FROM inventory_item AS item WHERE item.pet_id = asked.pet_id AND item.pet_id + 0 = asked.pet_id
                                       FOR NO KEY UPDATE SKIP LOCKED) AS item ON true
  ), recorded AS (
    INSERT INTO stock_change (pet_id, quantity_before, quantity_after, status_before, status_after, changed_by, request_id, reason)
    SELECT pet_id, present, quantity, status, status, changed_by, request_id, reason FROM judged WHERE holds ORDER BY n
    RETURNING pet_id
  ), changed AS (
    UPDATE inventory_item AS item SET quantity = judged.quantity FROM judged WHERE item.pet_id = judged.pet_id AND judged.holds
    RETURNING 
           item.tableoid IS NOT NULL AND item.pet_id = judged.pet_id AND item.quantity = judged.quantity
           AND (item.status) IS NOT DISTINCT FROM (judged.status) AS as_asked
  )
  SELECT n, CASE WHEN holds AND ((SELECT count(*) FROM recorded), (SELECT count(*) FROM changed WHERE as_asked))
                             <> (SELECT count(*), count(*) FROM judged WHERE holds) THEN ('a trigger changed the row or kept it back; let the trigger raise an error instead ' || n)::int::text
                 WHEN holds THEN 'done'
                 WHEN (SELECT item.quantity >= 0 FROM inventory_item AS item WHERE item.pet_id = judged.pet_id AND item.pet_id + 0 = judged.pet_id) THEN 'busy'
                 ELSE 'absent' END, present, status FROM judged ORDER BY n

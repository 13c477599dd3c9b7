  WITH settings AS MATERIALIZED (
    SELECT set_config('inventory.recorded_in', pg_current_xact_id()::text, true),
           set_config('client_min_messages', 'warning', true),
           CASE current_setting('synchronous_commit') WHEN 'off' THEN set_config('synchronous_commit', 'on', true) END,
           CASE WHEN current_setting('transaction_timeout', true) IS NOT NULL
                THEN set_config('transaction_timeout', $11, true) END
  ), asked AS MATERIALIZED (
    SELECT asked.* FROM settings,
      unnest($1::int[], $2::bigint[], $3::int[], $4::int[], $5::bool[], $6::text[], $7::text[], $8::text[], $9::text[])
        AS asked (n, pet_id, quantity, quantity_before, is_last, if_match, changed_by, request_id, idempotency_key)
     WHERE extract(epoch FROM statement_timestamp()) * 1000 < $10::numeric
  ), locked AS MATERIALIZED (
    SELECT wanted.pet_id, quantity, status FROM (SELECT DISTINCT pet_id FROM asked) AS wanted,
      LATERAL (SELECT quantity, status FROM inventory_item AS item WHERE item.pet_id = wanted.pet_id
                  FOR NO KEY UPDATE SKIP LOCKED) AS item
  ), judged AS MATERIALIZED (
    SELECT asked.*, locked.quantity AS present, locked.status,
           locked.quantity IS NOT NULL
             AND (if_match IS NULL OR locked.status || '-' || locked.quantity = ANY (string_to_array(if_match, ' '))) AS holds
      FROM asked LEFT JOIN locked USING (pet_id) 
  ), recorded AS (
    INSERT INTO stock_change (pet_id, quantity_before, quantity_after, status_before, status_after, changed_by, request_id
           )
    SELECT pet_id, coalesce(quantity_before, present), quantity, status, status, changed_by, request_id
           
      FROM judged WHERE holds ORDER BY  n
    
  ), changed AS (
    UPDATE inventory_item AS item SET quantity = judged.quantity
      FROM judged WHERE item.pet_id = judged.pet_id AND is_last AND holds
                    
  )
  SELECT n, CASE WHEN holds THEN 'done'
                 WHEN present IS NOT NULL THEN 'precondition_failed'
                 WHEN (SELECT true FROM inventory_item AS item WHERE item.pet_id = judged.pet_id) THEN 'busy'
                 ELSE 'absent' END, status, present FROM judged
  
  ORDER BY n

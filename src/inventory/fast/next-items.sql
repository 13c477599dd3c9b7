  SELECT pg_current_snapshot()::text AS transactions, stock_witness($1) AS witness,
         coalesce(string_agg(',' || '{"petId":' || item.pet_id || ',"quantity":' || item.quantity || ',"status":"' || item.status || '"}', '' ORDER BY pet_id), '') AS items,
         CASE WHEN count(*) = 6144 AND max(pet_id) < 9223372036854775807 THEN max(pet_id) + 1 END AS next
    FROM (SELECT * FROM inventory_item WHERE pet_id >= $2 ORDER BY pet_id LIMIT 6144) AS item

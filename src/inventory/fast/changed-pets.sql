  WITH recent AS MATERIALIZED (
    SELECT pet_id FROM stock_change WHERE changed_in >= pg_snapshot_xmax($1::pg_snapshot)
    UNION ALL
    SELECT pet_id FROM stock_change WHERE changed_in = ANY (ARRAY(SELECT pg_snapshot_xip($1::pg_snapshot)))
    LIMIT 4097
  ), unrecorded AS (
    SELECT FROM unrecorded_change WHERE changed_in >= pg_snapshot_xmax($1::pg_snapshot)
    UNION ALL
    SELECT FROM unrecorded_change WHERE changed_in = ANY (ARRAY(SELECT pg_snapshot_xip($1::pg_snapshot)))
  )
  SELECT pg_current_snapshot()::text AS transactions,
         CASE WHEN (SELECT count(*) FROM recent) <= 4096 AND NOT EXISTS (SELECT FROM unrecorded)
              THEN stock_witness($2) END AS witness,
         (SELECT coalesce(json_agg(json_build_object('petId', pet_id::text, 'item', item) ORDER BY pet_id), '[]')
            FROM (SELECT pet_id, (SELECT '{"petId":' || item.pet_id || ',"quantity":' || item.quantity || ',"status":"' || item.status || '"}' FROM inventory_item AS item WHERE item.pet_id = changed.pet_id) AS item
                    FROM (SELECT DISTINCT pet_id FROM recent) AS changed) AS changed) AS changes

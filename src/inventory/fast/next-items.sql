-- Reads the next items of the whole stock. The columns of its row:
-- - transactions: the snapshot of the transaction
-- - witness: a fingerprint of tables, triggers and server; null if the history may lack a change
-- - items: in ascending petId as JSON, each behind a comma
-- - next: the petId to go on with; null at the end
--
-- $1 text: the life of the server that the request's snapshot names (src/keys/snapshot.ts)
-- $2 bigint: the petId to begin with, -9223372036854775808 to 9223372036854775807
--
-- Promise: all readings of a REPEATABLE READ transaction that locked the table first are of one moment.
--
-- Figure of 2026-11-27: PostgreSQL takes 4 to 5 ms of CPU time for some 6,000 items. The event loop of the service is
-- held while it reads the row, so a statement has no more of them.

  SELECT pg_current_snapshot()::text AS transactions,
         stock_witness($1) AS witness,
         coalesce(string_agg(
           ',' || '{"petId":' || item.pet_id || ',"quantity":' || item.quantity || ',"status":"' || item.status || '"}',
           '' ORDER BY pet_id), '') AS items,
         CASE WHEN count(*) = 6144 AND max(pet_id) < 9223372036854775807 THEN max(pet_id) + 1 END AS next
    FROM (SELECT * FROM inventory_item WHERE pet_id >= $2 ORDER BY pet_id LIMIT 6144) AS item

-- Checks the keys of all requests that wait, and reads for lists what has been committed.
--
-- A key has a row if the table has it. If the table has none of them, there is one row without sha256. Columns:
-- - life and transactions: the life of the server and its snapshot (src/keys/snapshot.ts), or null
-- - sha256 in hexadecimal, id, and scopes with blanks between them
-- - failure: revoked_key or expired_key; null if the key is live
--
-- $1 bytea[]: the SHA-256 of each key, once; 1 to 1000 of 32 bytes
--
-- Promise: a revoked or expired key is refused from its next request on, because the statement is sent after the
-- request has come.
--
-- Promise: the snapshot sees each commit that was confirmed before the request came. A kept list with the same life
-- and transactions is still true. A standby has no life, so no list is kept there.
--
-- Figure of 2026-11-27: PostgreSQL takes 55 µs of CPU time for one key, 74 for 8, 200 for 64. That is up to a fifth
-- more than key-check.sql, which serves updates.

  SELECT CASE WHEN NOT pg_is_in_recovery() THEN
           nullif(coalesce(nullif(current_setting('inventory.life', true), ''),
                           set_config('inventory.life', present_server_life(), false)), '')
         END AS life,
         pg_current_snapshot() AS transactions,
         encode(key_sha256, 'hex') AS sha256, id, array_to_string(scopes, ' ') AS scopes,
         nullif(CASE WHEN revoked_at IS NOT NULL THEN 'revoked'
                     WHEN expires_at <= clock_timestamp() THEN 'expired' ELSE 'live' END || '_key', 'live_key') AS failure
    FROM (VALUES (1)) AS always LEFT JOIN api_key ON key_sha256 = ANY ($1::bytea[])

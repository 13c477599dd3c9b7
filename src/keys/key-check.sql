  SELECT NULL, NULL,
         encode(key_sha256, 'hex'), id, array_to_string(scopes, ' '), nullif(
  CASE WHEN revoked_at IS NOT NULL THEN 'revoked' WHEN expires_at <= clock_timestamp() THEN 'expired' ELSE 'live' END || '_key', 'live_key')
    FROM (VALUES (1)) AS always LEFT JOIN api_key ON key_sha256 = ANY ($1::bytea[])

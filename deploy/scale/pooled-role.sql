-- The role that replicas behind the pooler use; run by psql as a superuser, or as an owner with CREATEROLE, any number of times.
-- It may do what serving requests needs and nothing else: no DDL, no deleting, no editing of history.
\set QUIET on
SELECT 'CREATE ROLE inventory_pooled LOGIN' WHERE to_regrole('inventory_pooled') IS NULL \gexec
ALTER ROLE inventory_pooled PASSWORD :'password';

GRANT SELECT, UPDATE ON inventory_item TO inventory_pooled;
GRANT SELECT, INSERT ON stock_change TO inventory_pooled;
GRANT SELECT, INSERT, DELETE ON unrecorded_change TO inventory_pooled;
GRANT SELECT, INSERT, UPDATE ON api_key TO inventory_pooled;
GRANT SELECT ON _prisma_migrations TO inventory_pooled;

-- A pool shares sessions, so no client can have its own bounds: these are everybody's. Each statement is bounded by the
-- service itself.
ALTER ROLE inventory_pooled SET statement_timeout = '30s';
ALTER ROLE inventory_pooled SET lock_timeout = '500ms'; -- a fifth of REQUEST_DEADLINE_MS
ALTER ROLE inventory_pooled SET idle_in_transaction_session_timeout = '5s';

-- What the statements rely on (src/database/connection-config.ts), whatever the server's or the database's defaults are.
ALTER ROLE inventory_pooled SET default_transaction_isolation = 'read committed';
ALTER ROLE inventory_pooled SET client_min_messages = 'warning';
ALTER ROLE inventory_pooled SET idle_session_timeout = '0';
ALTER ROLE inventory_pooled SET array_nulls = 'on';
ALTER ROLE inventory_pooled SET bytea_output = 'hex';
ALTER ROLE inventory_pooled SET client_encoding = 'UTF8';
ALTER ROLE inventory_pooled SET DateStyle = 'ISO,MDY';
ALTER ROLE inventory_pooled SET standard_conforming_strings = 'on';
ALTER ROLE inventory_pooled SET TimeZone = 'UTC';
ALTER ROLE inventory_pooled SET tcp_keepalives_idle = '10';
ALTER ROLE inventory_pooled SET tcp_keepalives_interval = '5';
ALTER ROLE inventory_pooled SET tcp_keepalives_count = '3';
ALTER ROLE inventory_pooled SET search_path = "public";

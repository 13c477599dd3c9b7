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

-- Advice: the service bounds each statement itself. These bounds also end what a lost client has left in a session of the pool.
ALTER ROLE inventory_pooled SET statement_timeout = '30s';
ALTER ROLE inventory_pooled SET lock_timeout = '500ms'; -- a fifth of REQUEST_DEADLINE_MS
ALTER ROLE inventory_pooled SET idle_in_transaction_session_timeout = '5s';

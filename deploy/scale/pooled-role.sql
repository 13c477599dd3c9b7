-- Creates the role that the service uses behind a pooler. Run it by psql as a superuser, or as an owner with CREATEROLE. You can
-- repeat it. The role may only do what requests need: it cannot change the schema, remove pets, or change the history.
\set QUIET on
SELECT 'CREATE ROLE inventory_pooled LOGIN' WHERE to_regrole('inventory_pooled') IS NULL \gexec
ALTER ROLE inventory_pooled PASSWORD :'password';

GRANT SELECT, UPDATE ON inventory_item TO inventory_pooled;
GRANT SELECT, INSERT ON stock_change TO inventory_pooled;
GRANT SELECT, INSERT, DELETE ON unrecorded_change TO inventory_pooled;
GRANT SELECT, INSERT, UPDATE ON api_key TO inventory_pooled;
GRANT SELECT ON _prisma_migrations TO inventory_pooled;
GRANT EXECUTE ON FUNCTION server_life(), present_server_life(), stock_witness(text), stock_changed_by(), stock_change_reason()
    TO inventory_pooled; -- for databases where PUBLIC may not

-- For "inventory check". pg_read_all_stats shows it the standbys and all sessions, with their statements. A superuser may grant this,
-- or a role with ADMIN OPTION on it. Without it, the command says what it did not look at.
GRANT SELECT ON stock_change_pruned, stock_change_id_seq TO inventory_pooled;
SELECT 'GRANT pg_read_all_stats TO inventory_pooled' WHERE pg_has_role('pg_read_all_stats', 'MEMBER WITH ADMIN OPTION') \gexec

-- Advice: the service bounds its statements itself. These bounds also end what a lost client left in a session of the pool.
ALTER ROLE inventory_pooled SET statement_timeout = '30s';
ALTER ROLE inventory_pooled SET lock_timeout = '500ms'; -- a fifth of REQUEST_DEADLINE_MS
ALTER ROLE inventory_pooled SET idle_in_transaction_session_timeout = '5s';

-- Advice: only some sessions of a pool have what the service sets itself. Others may go on scanning a table that was small.
ALTER ROLE inventory_pooled SET plan_cache_mode = force_generic_plan;
ALTER ROLE inventory_pooled SET enable_seqscan = off;
ALTER ROLE inventory_pooled SET jit = off;

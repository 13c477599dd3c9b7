-- The functions keep this search path, as those of the first migration do.
SELECT set_config('search_path', quote_ident(current_schema()) || ', pg_temp', true);

-- The token is found by its index. Sessions for requests have "enable_seqscan = off": until PostgreSQL 17 a plan without an index
-- costs 10^10 there, so that PostgreSQL compiled it (JIT) at each call.
CREATE OR REPLACE FUNCTION "server_life"() RETURNS TEXT LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path FROM CURRENT AS $$
BEGIN
    IF pg_is_in_recovery() OR to_regclass('server_life_token') IS NULL
       OR to_regclass('pg_temp.server_life_token') IS NOT NULL THEN
        RETURN NULL;
    END IF;
    RETURN (SELECT concat_ws(' ', token, extract(epoch FROM pg_postmaster_start_time()), oid)
              FROM server_life_token, pg_database WHERE is_only AND datname = current_database());
END
$$;

-- A snapshot of PostgreSQL tells which rows of a heap it sees. Another access method may have rules of its own.
CREATE OR REPLACE FUNCTION "stock_witness"("life" TEXT) RETURNS TEXT LANGUAGE plpgsql STABLE AS $$
DECLARE
    present CONSTANT TEXT := server_life() || ' ';
BEGIN
    IF starts_with(life, present) IS NOT TRUE THEN
        RETURN NULL;
    END IF;
    -- REINDEX gives an index another file, and may bring back pets that it lacked. By name: a scan of pg_index costs more.
    RETURN present || (SELECT extract(epoch FROM stats_reset) FROM pg_stat_wal) || ' ' || concat_ws(' ',
        pg_relation_filenode(to_regclass('inventory_item_pkey')),
        pg_relation_filenode(to_regclass('stock_change_changed_in_idx'))) || ' ' || (
        SELECT string_agg(fact, ' ' ORDER BY fact) FROM (
            SELECT concat_ws(' ', oid, xmin) FROM pg_class
             WHERE oid IN ('inventory_item'::regclass, 'stock_change'::regclass)
            UNION ALL SELECT concat_ws(' ', tgname, tgenabled::text, xmin) FROM pg_trigger
             WHERE tgrelid IN ('inventory_item'::regclass, 'stock_change'::regclass)
            UNION ALL SELECT concat_ws(' ', attname, xmin) FROM pg_attribute
             WHERE attrelid = 'inventory_item'::regclass AND attnum > 0
            UNION ALL SELECT concat_ws(' ', 'default', xmin) FROM pg_attrdef WHERE adrelid = 'stock_change'::regclass
            UNION ALL SELECT concat_ws(' ', enumlabel, xmin) FROM pg_enum WHERE enumtypid = (
                SELECT atttypid FROM pg_attribute WHERE attrelid = 'inventory_item'::regclass AND attname = 'status')
        ) AS facts (fact)
         -- Both tables are ordinary ones, with nothing in front of them. In every version, 2 is the access method "heap".
         WHERE NOT EXISTS (SELECT FROM pg_class WHERE oid IN ('inventory_item'::regclass, 'stock_change'::regclass)
                              AND (relkind <> 'r' OR relam <> 2 OR relrowsecurity OR relhassubclass OR relhasrules))
           -- A change writes history, or leaves a mark.
           AND EXISTS (SELECT FROM pg_trigger WHERE tgrelid = 'inventory_item'::regclass
                          AND tgname = 'inventory_item_history' AND tgenabled IN ('O', 'A'))
           AND EXISTS (SELECT FROM pg_trigger WHERE tgrelid = 'inventory_item'::regclass
                          AND tgname = 'inventory_item_replicated' AND tgenabled = 'R')
           -- No trigger can keep a row out of the history, and each row has the id of its transaction.
           -- (With its table, pg_get_expr would wait for whoever locks that.)
           AND NOT EXISTS (SELECT FROM pg_trigger WHERE tgrelid = 'stock_change'::regclass
                              AND tgtype & 7 = 7 AND tgenabled <> 'D')
           AND EXISTS (SELECT FROM pg_attrdef JOIN pg_attribute ON attrelid = adrelid AND attnum = adnum
                        WHERE adrelid = 'stock_change'::regclass AND attname = 'changed_in'
                          AND replace(pg_get_expr(adbin, 0), '"', '') = 'pg_current_xact_id()'));
END
$$;

-- The functions below keep this search path. "inventory migrate" renews it when the schema has another name.
SELECT set_config('search_path', quote_ident(current_schema()) || ', pg_temp', true);

-- A trigger function works on the schema of the trigger's table, whatever its search path says: the schema may be renamed or
-- copied, and the table may move to another one. The next migrations do the same for the other functions.
-- One mark for each transaction and table: a transaction can change the stocks of two schemas.
CREATE OR REPLACE FUNCTION "mark_unrecorded_change"() RETURNS TRIGGER LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
DECLARE
    marked_in CONSTANT TEXT := 'inventory.marked_in_' || TG_RELID;
BEGIN
    IF current_setting(marked_in, true) IS DISTINCT FROM pg_current_xact_id()::text THEN
        IF current_schema() IS DISTINCT FROM TG_TABLE_SCHEMA THEN
            PERFORM set_config('search_path', concat_ws(', ', quote_ident(TG_TABLE_SCHEMA), current_setting('search_path')), true);
        END IF;
        PERFORM set_config(marked_in, pg_current_xact_id()::text, true);
        INSERT INTO unrecorded_change DEFAULT VALUES;
        DELETE FROM unrecorded_change WHERE ctid = ANY (ARRAY(
            SELECT past.ctid FROM unrecorded_change AS past
              JOIN (SELECT changed_in FROM unrecorded_change ORDER BY changed_in LIMIT 10) AS oldest USING (changed_in)
             WHERE past.changed_at < now() - interval '1 day' FOR UPDATE OF past SKIP LOCKED));
    END IF;
    RETURN NULL;
END
$$;

-- NULL also without a token's table, as after the schema was renamed. A temporary table could be anybody's.
CREATE OR REPLACE FUNCTION "server_life"() RETURNS TEXT LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path FROM CURRENT AS $$
BEGIN
    IF pg_is_in_recovery() OR to_regclass('server_life_token') IS NULL
       OR to_regclass('pg_temp.server_life_token') IS NOT NULL THEN
        RETURN NULL;
    END IF;
    RETURN (SELECT concat_ws(' ', token, extract(epoch FROM pg_postmaster_start_time()), oid)
              FROM server_life_token, pg_database WHERE datname = current_database());
END
$$;

-- The name that a session keeps also has the time at which the statistics began. A crash resets them, even where an unlogged
-- table survives it. So does an operator: then one life has several names, each of which stays true in the sessions that keep it.
CREATE OR REPLACE FUNCTION "present_server_life"() RETURNS TEXT LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
BEGIN
    IF to_regclass('server_life_token') IS NULL OR to_regclass('pg_temp.server_life_token') IS NOT NULL THEN
        RETURN NULL;
    END IF;
    IF server_life() IS NULL AND NOT current_setting('transaction_read_only')::boolean THEN
        INSERT INTO server_life_token DEFAULT VALUES ON CONFLICT DO NOTHING;
    END IF;
    RETURN server_life() || ' ' || (SELECT extract(epoch FROM stats_reset) FROM pg_stat_wal);
END
$$;

-- Without a search path of its own: it judges the tables that the calling statement reads.
CREATE OR REPLACE FUNCTION "stock_witness"("life" TEXT) RETURNS TEXT LANGUAGE plpgsql STABLE AS $$
DECLARE
    present CONSTANT TEXT := server_life() || ' ';
BEGIN
    IF starts_with(life || ' ', present) IS NOT TRUE THEN
        RETURN NULL;
    END IF;
    RETURN present || (SELECT extract(epoch FROM stats_reset) FROM pg_stat_wal) || ' ' || (
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
         -- Both tables are ordinary ones, with nothing in front of them.
         WHERE NOT EXISTS (SELECT FROM pg_class WHERE oid IN ('inventory_item'::regclass, 'stock_change'::regclass)
                              AND (relkind <> 'r' OR relrowsecurity OR relhassubclass OR relhasrules))
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

-- pg_get_expr fails for a generated column. As a condition, PostgreSQL may call it for each default of the table before it looks
-- at the column's name. As a selected value, it is called for the row that was found.
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
           AND 'pg_current_xact_id()' = (
             SELECT replace(pg_get_expr(adbin, 0), '"', '') FROM pg_attrdef
              WHERE adrelid = 'stock_change'::regclass AND adnum = (
                SELECT attnum FROM pg_attribute WHERE attrelid = 'stock_change'::regclass AND attname = 'changed_in')));
END
$$;

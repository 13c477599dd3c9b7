-- A publication of all tables would otherwise refuse to prune.
ALTER TABLE "stock_change_pruned" REPLICA IDENTITY FULL;

-- Who writes the history of a statement writes that of its own rows, not of what triggers and cascades change besides.
DROP TRIGGER "inventory_item_history" ON "inventory_item";
CREATE TRIGGER "inventory_item_history" AFTER INSERT OR UPDATE OR DELETE ON "inventory_item" FOR EACH ROW
    WHEN (pg_trigger_depth() > 0
          OR current_setting('inventory.recorded_in', true) IS DISTINCT FROM pg_current_xact_id()::text)
    EXECUTE FUNCTION "record_stock_change"();

-- TRUNCATE takes away what an earlier snapshot, or row security, does not show.
CREATE OR REPLACE FUNCTION "record_truncated_stock"() RETURNS TRIGGER LANGUAGE plpgsql SET row_security = off AS $$
BEGIN
    IF current_setting('transaction_isolation') NOT IN ('read committed', 'read uncommitted') THEN
        RAISE EXCEPTION 'TRUNCATE of inventory_item refused: its history needs READ COMMITTED'
            USING ERRCODE = 'object_not_in_prerequisite_state';
    END IF;
    INSERT INTO stock_change (pet_id, quantity_before, status_before, changed_by)
    SELECT pet_id, quantity, status, stock_changed_by() FROM inventory_item;
    RETURN NULL;
END
$$;

DO $$
DECLARE
    trigger_function TEXT;
BEGIN
    FOREACH trigger_function IN ARRAY ARRAY['record_truncated_stock', 'note_pruned_stock_change'] LOOP
        EXECUTE format('ALTER FUNCTION %I() SET search_path = %I, pg_temp', trigger_function, current_schema());
    END LOOP;
END
$$;

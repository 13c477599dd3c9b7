-- The function below keeps this search path. "inventory migrate" renews it when the schema has another name.
SELECT set_config('search_path', quote_ident(current_schema()) || ', pg_temp', true);

-- No pruning is under way: one that had begun with the earlier trigger would not note its time.
SELECT pg_advisory_xact_lock(hashtextextended('inventory history', 0));

-- The latest time of a pruned change. It counts only if "last_id" is above 0. Where changes were pruned before this column, or
-- a backup without it is restored, it is the present time: their own is not known, but earlier.
ALTER TABLE "stock_change_pruned" ADD COLUMN "last_changed_at" TIMESTAMPTZ(6) NOT NULL DEFAULT clock_timestamp();
UPDATE "stock_change_pruned" SET "last_changed_at" = '-infinity' WHERE "last_id" = 0;

-- It works on the schema of the trigger's table, whatever its search path says.
CREATE OR REPLACE FUNCTION "note_pruned_stock_change"() RETURNS TRIGGER LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
    IF current_schema() IS DISTINCT FROM TG_TABLE_SCHEMA THEN
        PERFORM set_config('search_path', concat_ws(', ', quote_ident(TG_TABLE_SCHEMA), current_setting('search_path')), true);
    END IF;
    UPDATE stock_change_pruned
       SET last_id = greatest(last_id, gone.newest),
           last_changed_at = greatest(CASE WHEN last_id > 0 THEN last_changed_at END, gone.latest)
      FROM (SELECT max(id) AS newest, max(changed_at) AS latest FROM pruned) AS gone
     WHERE gone.newest > last_id OR gone.latest > last_changed_at;
    RETURN NULL;
END
$$;

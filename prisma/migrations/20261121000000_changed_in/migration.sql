-- Which transaction wrote a row: so a list finds what has changed since a snapshot. The rows from before get 0, which every
-- snapshot sees; a constant first, for a default that is computed would rewrite the table.
ALTER TABLE "stock_change" ADD COLUMN "changed_in" xid8 NOT NULL DEFAULT '0';
ALTER TABLE "stock_change" ALTER COLUMN "changed_in" SET DEFAULT pg_current_xact_id();
CREATE INDEX "stock_change_changed_in_idx" ON "stock_change"("changed_in");

-- The transactions of the last day that changed stock without history. Unlogged: no list outlives a crash, and no replica
-- has a use for these.
CREATE UNLOGGED TABLE "unrecorded_change" (
    "changed_in" xid8 NOT NULL DEFAULT pg_current_xact_id(),
    "changed_at" TIMESTAMPTZ(6) NOT NULL DEFAULT CURRENT_TIMESTAMP
);
CREATE INDEX "unrecorded_change_changed_in_idx" ON "unrecorded_change"("changed_in");

CREATE FUNCTION "mark_unrecorded_change"() RETURNS TRIGGER LANGUAGE plpgsql AS $$
BEGIN
    IF current_setting('inventory.marked_in', true) IS DISTINCT FROM pg_current_xact_id()::text THEN
        PERFORM set_config('inventory.marked_in', pg_current_xact_id()::text, true);
        INSERT INTO unrecorded_change DEFAULT VALUES;
        DELETE FROM unrecorded_change WHERE ctid = ANY (ARRAY(
            SELECT past.ctid FROM unrecorded_change AS past
              JOIN (SELECT changed_in FROM unrecorded_change ORDER BY changed_in LIMIT 10) AS oldest USING (changed_in)
             WHERE past.changed_at < now() - interval '1 day' FOR UPDATE OF past SKIP LOCKED));
    END IF;
    RETURN NULL;
END
$$;

-- Replication, and whoever sets session_replication_role, changes stock without the history trigger. This one is for them alone.
CREATE TRIGGER "inventory_item_replicated" AFTER INSERT OR UPDATE OR DELETE ON "inventory_item" FOR EACH ROW
    EXECUTE FUNCTION "mark_unrecorded_change"();
ALTER TABLE "inventory_item" ENABLE REPLICA TRIGGER "inventory_item_replicated";

-- A statement that writes its own history rows says so by its transaction's id in "inventory.recorded_in". A session cannot
-- set that once and for all, so nobody goes past the history unawares.
DROP TRIGGER "inventory_item_history" ON "inventory_item";
CREATE TRIGGER "inventory_item_history" AFTER INSERT OR UPDATE OR DELETE ON "inventory_item" FOR EACH ROW
    WHEN (current_setting('inventory.recorded_in', true) IS DISTINCT FROM pg_current_xact_id()::text)
    EXECUTE FUNCTION "record_stock_change"();

-- The triggers write beside the table, wherever the session that fires them would look first.
DO $$
DECLARE
    trigger_function TEXT;
BEGIN
    FOREACH trigger_function IN ARRAY ARRAY['record_stock_change', 'record_truncated_stock', 'mark_unrecorded_change'] LOOP
        EXECUTE format('ALTER FUNCTION %I() SET search_path = %I, pg_temp', trigger_function, current_schema());
    END LOOP;
END
$$;

-- A restored or replicated history has the transaction ids of another server: "inventory migrate" puts right those to come.
CREATE OR REPLACE FUNCTION "refuse_stock_change_edit"() RETURNS TRIGGER LANGUAGE plpgsql AS $$
BEGIN
    IF (TG_OP, current_setting('inventory.history', true)) IN (('DELETE', 'prune'), ('UPDATE', 'restored')) THEN
        RETURN NULL;
    END IF;
    RAISE EXCEPTION 'stock_change is append-only: % refused', TG_OP
        USING HINT = 'Old rows leave by "inventory history prune --before <date>".', ERRCODE = 'insufficient_privilege';
END
$$;

-- Names a session for as long as it lives: its process and when that began. A function, for a sub-select would cost every key
-- check what only the first of a session needs.
CREATE FUNCTION "present_session"() RETURNS TEXT LANGUAGE sql STABLE AS $$
    SELECT pid || ' ' || extract(epoch FROM backend_start) FROM pg_stat_get_activity(pg_backend_pid())
$$;

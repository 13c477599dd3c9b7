-- For reading the changes of all pets in the order of their ids.
CREATE INDEX "stock_change_id_idx" ON "stock_change"("id");

-- One row: the highest id that was ever pruned, so that nobody who reads on from an earlier change misses one unawares.
-- What was pruned before this table was there is not known: then reading begins behind the newest change.
CREATE TABLE "stock_change_pruned" (
    "last_id" BIGINT NOT NULL
);
INSERT INTO "stock_change_pruned" SELECT coalesce(max("id"), 0) FROM "stock_change";

CREATE FUNCTION "note_pruned_stock_change"() RETURNS TRIGGER LANGUAGE plpgsql AS $$
BEGIN
    UPDATE stock_change_pruned SET last_id = greatest(last_id, gone.newest)
      FROM (SELECT max(id) AS newest FROM pruned) AS gone WHERE gone.newest > last_id;
    RETURN NULL;
END
$$;

CREATE TRIGGER "stock_change_pruning" AFTER DELETE ON "stock_change" REFERENCING OLD TABLE AS "pruned"
    FOR EACH STATEMENT EXECUTE FUNCTION "note_pruned_stock_change"();

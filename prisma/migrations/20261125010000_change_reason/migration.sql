-- The functions below keep this search path. "inventory migrate" renews it when the schema has another name.
SELECT set_config('search_path', quote_ident(current_schema()) || ', pg_temp', true);

-- Why a change was made. No default: a session's setting must not get into the updates of others who share the session.
-- NOT VALID spares reading the whole history under the lock: the column is new, so every row has NULL.
ALTER TABLE "stock_change" ADD COLUMN "reason" TEXT;
ALTER TABLE "stock_change" ADD CONSTRAINT "stock_change_reason_check"
    CHECK (length("reason") <= 64 AND "reason" ~ '^[A-Za-z0-9_-]+$') NOT VALID;

-- The reason of a change by SQL: the setting of its transaction. The error does not repeat the value, which could be a key.
CREATE FUNCTION "stock_change_reason"() RETURNS TEXT LANGUAGE plpgsql STABLE AS $$
DECLARE
    reason CONSTANT TEXT := nullif(current_setting('inventory.reason', true), '');
BEGIN
    IF reason !~ '^[A-Za-z0-9_-]{1,64}$' OR reason ~ 'psk_[0-9A-Za-z]{32}' THEN
        RAISE EXCEPTION 'inventory.reason must be 1 to 64 of the characters A-Z, a-z, 0-9, _ and -, and no API key'
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
    RETURN reason;
END
$$;

CREATE OR REPLACE FUNCTION "record_stock_change"() RETURNS TRIGGER LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
    IF current_schema() IS DISTINCT FROM TG_TABLE_SCHEMA THEN
        PERFORM set_config('search_path', concat_ws(', ', quote_ident(TG_TABLE_SCHEMA), current_setting('search_path')), true);
    END IF;
    IF TG_OP = 'UPDATE' AND NEW.pet_id = OLD.pet_id THEN
        IF NEW IS DISTINCT FROM OLD THEN
            INSERT INTO stock_change (pet_id, quantity_before, quantity_after, status_before, status_after, changed_by, reason)
            VALUES (NEW.pet_id, OLD.quantity, NEW.quantity, OLD.status, NEW.status, stock_changed_by(), stock_change_reason());
        END IF;
        RETURN NULL;
    END IF;
    IF TG_OP <> 'INSERT' THEN
        INSERT INTO stock_change (pet_id, quantity_before, status_before, changed_by, reason)
        VALUES (OLD.pet_id, OLD.quantity, OLD.status, stock_changed_by(), stock_change_reason());
    END IF;
    IF TG_OP <> 'DELETE' THEN
        INSERT INTO stock_change (pet_id, quantity_after, status_after, changed_by, reason)
        VALUES (NEW.pet_id, NEW.quantity, NEW.status, stock_changed_by(), stock_change_reason());
    END IF;
    RETURN NULL;
END
$$;

-- TRUNCATE also removes rows that an earlier snapshot or row security does not show.
CREATE OR REPLACE FUNCTION "record_truncated_stock"() RETURNS TRIGGER LANGUAGE plpgsql
    SET search_path FROM CURRENT SET row_security = off AS $$
BEGIN
    IF current_schema() IS DISTINCT FROM TG_TABLE_SCHEMA THEN
        PERFORM set_config('search_path', concat_ws(', ', quote_ident(TG_TABLE_SCHEMA), current_setting('search_path')), true);
    END IF;
    IF current_setting('transaction_isolation') NOT IN ('read committed', 'read uncommitted') THEN
        RAISE EXCEPTION 'TRUNCATE of inventory_item refused: its history needs READ COMMITTED'
            USING ERRCODE = 'object_not_in_prerequisite_state';
    END IF;
    INSERT INTO stock_change (pet_id, quantity_before, status_before, changed_by, reason)
    SELECT pet_id, quantity, status, stock_changed_by(), stock_change_reason() FROM inventory_item;
    RETURN NULL;
END
$$;

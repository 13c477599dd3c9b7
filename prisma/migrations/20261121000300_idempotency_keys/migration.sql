ALTER TABLE "stock_change" ADD COLUMN "idempotency_key" TEXT, ADD COLUMN "if_match_sha256" BYTEA;

-- An update with a key takes place only if its history row finds a place here, so it takes place once.
CREATE UNIQUE INDEX "stock_change_idempotency_key" ON "stock_change"("changed_by", "idempotency_key")
    WHERE "idempotency_key" IS NOT NULL;

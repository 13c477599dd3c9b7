CREATE TABLE "api_key" (
    "id" TEXT NOT NULL,
    "name" TEXT NOT NULL,
    "key_sha256" BYTEA NOT NULL,
    "scopes" TEXT[] NOT NULL,
    "created_at" TIMESTAMPTZ(3) NOT NULL DEFAULT CURRENT_TIMESTAMP,
    "expires_at" TIMESTAMPTZ(3),
    "revoked_at" TIMESTAMPTZ(3),
    "last_used_at" TIMESTAMPTZ(3),

    CONSTRAINT "api_key_pkey" PRIMARY KEY ("id"),
    CONSTRAINT "api_key_key_sha256_check" CHECK (octet_length("key_sha256") = 32),
    CONSTRAINT "api_key_scopes_check" CHECK ("scopes" <@ ARRAY['inventory:read', 'inventory:write', 'metrics:read'])
);

CREATE UNIQUE INDEX "api_key_key_sha256_key" ON "api_key"("key_sha256");

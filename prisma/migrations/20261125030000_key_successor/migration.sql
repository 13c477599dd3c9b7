-- The key that "inventory keys rotate" issued in its place: it is rotated once, unless that one is revoked.
ALTER TABLE "api_key" ADD COLUMN "successor_id" TEXT;

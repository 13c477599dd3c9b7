-- The tables of an engineer who knows PostgreSQL, not this service: items, keys, and a history with author and request.
CREATE TYPE pet_status AS ENUM ('available', 'pending', 'sold');

CREATE TABLE inventory_item (
  pet_id bigint PRIMARY KEY,
  quantity integer NOT NULL CHECK (quantity >= 0),
  status pet_status NOT NULL
);

CREATE TABLE api_key (
  id text PRIMARY KEY,
  name text NOT NULL,
  key_sha256 bytea NOT NULL UNIQUE,
  scopes text[] NOT NULL,
  created_at timestamptz NOT NULL DEFAULT now(),
  expires_at timestamptz,
  revoked_at timestamptz,
  last_used_at timestamptz
);

CREATE TABLE stock_change (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  pet_id bigint NOT NULL,
  quantity_before integer NOT NULL,
  quantity_after integer NOT NULL,
  changed_at timestamptz NOT NULL DEFAULT now(),
  changed_by text NOT NULL,
  request_id text NOT NULL
);
CREATE INDEX ON stock_change (pet_id, id);

#!/usr/bin/env bash
# Second step of a move by logical replication: closes the old server and opens the new one. The variables are those of
# replicate.sh. Stop the old processes of the service afterwards. Until the last line, `ALTER ROLE inventory LOGIN` on the old server
# is the way back.
set -eu
# The old server is closed before the new one opens, so that nobody reads an old list.
psql "$OLD_ADMIN_URL" -v ON_ERROR_STOP=1 -c 'ALTER ROLE inventory NOLOGIN'
# Twice: a session that was just logging in shows after a moment.
for pause in 0.2 0; do
  psql "$OLD_ADMIN_URL" -v ON_ERROR_STOP=1 -c "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE usename = 'inventory'"
  sleep "$pause"
done
written=$(psql "$OLD_ADMIN_URL" -XAtc "SELECT pg_logical_emit_message(true, 'inventory_move', 'closed')")
until [ "$(psql "$OLD_ADMIN_URL" -XAtc "SELECT confirmed_flush_lsn >= '$written' FROM pg_replication_slots WHERE slot_name = 'inventory_move'")" = t ]; do sleep 0.1; done
psql "$NEW_ADMIN_URL" -v ON_ERROR_STOP=1 -c 'DROP SUBSCRIPTION inventory_move'
# Sets the history's transaction ids and sequence: without that, updates may fail (23505) and the history loses its order.
# If this fails for a lock (55P03), run it and the last line again.
DATABASE_URL="$NEW_ADMIN_URL" inventory migrate
psql "$NEW_ADMIN_URL" -v ON_ERROR_STOP=1 -c 'ALTER ROLE inventory LOGIN'

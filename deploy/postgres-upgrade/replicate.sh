#!/usr/bin/env bash
# First step of a move by logical replication: copies the stock, its history and the keys to the new server and keeps the copy
# current. The service goes on with the old server. switch.sh is the second step.
#
# The old server needs wal_level = logical (a restart). The new server must reach it, and needs the role inventory and an empty
# database that this role owns. Start new processes of the service on the new server afterwards: they are not ready until switch.sh
# lets their role log in. Do not change the service's version at the same time.
#
# OLD_ADMIN_URL and NEW_ADMIN_URL lead to the service's database as a superuser other than the service's role, which is called
# inventory here. NEW_DATABASE_URL is the service's own address of the new server.
set -eu
psql "$OLD_ADMIN_URL" -v ON_ERROR_STOP=1 \
  -c 'ALTER TABLE stock_change_pruned REPLICA IDENTITY FULL' \
  -c 'CREATE PUBLICATION inventory_move FOR TABLE inventory_item, stock_change, stock_change_pruned, api_key'
DATABASE_URL="$NEW_DATABASE_URL" inventory migrate
psql "$NEW_ADMIN_URL" -v ON_ERROR_STOP=1 \
  -c 'ALTER ROLE inventory NOLOGIN' \
  -c 'TRUNCATE stock_change_pruned' \
  -c "CREATE SUBSCRIPTION inventory_move CONNECTION '$OLD_ADMIN_URL' PUBLICATION inventory_move"
until [ "$(psql "$NEW_ADMIN_URL" -XAtc "SELECT bool_and(srsubstate = 'r') FROM pg_subscription_rel")" = t ]; do sleep 1; done

#!/usr/bin/env bash
# Moves the database to a new major version of PostgreSQL on the same machine.
#
# Run it as the server's account, in a folder where that account may write. OLD_BIN and NEW_BIN are the folders of the
# programs, OLD_DATA and NEW_DATA those of the data; ADMIN_URL is the address of a superuser. The service may keep running: it
# responds with 503 while the server is down. Afterwards, copy your changes of postgresql.conf and create standbys anew. Do not
# change the service's version at the same time. Until the next update, you can go back by starting the old server.
set -eu
# The new cluster needs the encoding, the locale and the checksums of the old one; from 18 on, checksums are the default.
"$NEW_BIN/initdb" --pgdata="$NEW_DATA" --username=postgres --encoding=UTF8 --locale=C --no-data-checksums
cp "$OLD_DATA/pg_hba.conf" "$OLD_DATA/postgresql.auto.conf" "$NEW_DATA/"
"$NEW_BIN/pg_upgrade" --check -b "$OLD_BIN" -B "$NEW_BIN" -d "$OLD_DATA" -D "$NEW_DATA" --username=postgres
# From here on the service responds with 503.
"$OLD_BIN/pg_ctl" stop --pgdata="$OLD_DATA" --mode=fast
# --link is faster, but there is no way back.
"$NEW_BIN/pg_upgrade" -b "$OLD_BIN" -B "$NEW_BIN" -d "$OLD_DATA" -D "$NEW_DATA" --username=postgres
"$NEW_BIN/pg_ctl" start --wait --pgdata="$NEW_DATA" --log="$NEW_DATA/log"
"$NEW_BIN/vacuumdb" --all --analyze-only --maintenance-db="$ADMIN_URL"

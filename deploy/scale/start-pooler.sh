#!/bin/sh
# PgBouncer reads its settings and passwords only from files. These files are in the container only.
set -eu
umask 077
password=$(printf %s "${POOLED_PASSWORD:?is not set}" | sed 's/"/""/g')
printf '"inventory_pooled" "%s"\n' "$password" >/run/pgbouncer/users.txt
sed "s/^pool_mode = .*/pool_mode = ${POOL_MODE:-transaction}/" /etc/pgbouncer/pgbouncer.ini >/run/pgbouncer/pgbouncer.ini
exec pgbouncer /run/pgbouncer/pgbouncer.ini

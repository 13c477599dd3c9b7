#!/bin/sh
# PgBouncer reads passwords from a file only; this one lives in the container alone.
set -eu
umask 077
password=$(printf %s "${POOLED_PASSWORD:?is not set}" | sed 's/"/""/g')
printf '"inventory_pooled" "%s"\n' "$password" >/run/pgbouncer/users.txt
exec pgbouncer /etc/pgbouncer/pgbouncer.ini

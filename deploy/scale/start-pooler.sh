#!/bin/sh
# PgBouncer reads passwords from a file only; this one lives in the container alone.
set -eu
umask 077
printf '"inventory_pooled" "%s"\n' "${POOLED_PASSWORD:?is not set}" >/run/pgbouncer/users.txt
exec pgbouncer /etc/pgbouncer/pgbouncer.ini

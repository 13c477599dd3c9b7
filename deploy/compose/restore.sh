#!/bin/sh
# Replaces the database of docker compose by a backup: deploy/compose/restore.sh [inventory.dump]
#
# Run it in the folder of docker-compose.yml. The service is down from "stop" to "up". The earlier database remains as
# inventory_before; drop it before the next restore. If a step fails, `docker compose up -d` continues with the earlier database.
# With COMPOSE_PROFILES=scale in .env, "up" starts replicas and the pooler again.
set -eu
backup=${1:-inventory.dump}
docker compose exec -T postgres pg_restore --list < "$backup" > /dev/null
docker compose exec -T postgres dropdb -U inventory --if-exists inventory_restored
docker compose exec -T postgres createdb -U inventory --template=template0 inventory_restored
docker compose exec -T postgres pg_restore -U inventory -d inventory_restored --exit-on-error --single-transaction --no-owner --no-privileges < "$backup"
docker compose --profile scale stop inventory replica pooler
docker compose exec -T postgres psql -U inventory -d postgres -v ON_ERROR_STOP=1 \
  -c 'ALTER DATABASE inventory RENAME TO inventory_before' \
  -c 'ALTER DATABASE inventory_restored RENAME TO inventory'
docker compose up -d
docker compose exec -T inventory inventory history --verify

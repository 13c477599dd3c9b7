#!/bin/sh
# Gives the database of docker compose a new random password, and notes it in .env: deploy/compose/change-password.sh
#
# Run it in the folder of docker-compose.yml. PostgreSQL and the service restart, which takes some seconds. Of several lines
# with POSTGRES_PASSWORD in .env, the last one counts.
set -eu
password=$(openssl rand -hex 24)
docker compose exec -T postgres psql -U inventory -d inventory -v ON_ERROR_STOP=1 -c "ALTER ROLE inventory PASSWORD '$password'"
echo "POSTGRES_PASSWORD=$password" >> .env
chmod 600 .env
docker compose up -d

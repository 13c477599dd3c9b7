#!/usr/bin/env bash
# Lets the updates of a local `npm start` fail as they can in production. Run it in the folder of the project:
#
#   docs/clients/rehearse.sh service_unavailable   another transaction holds pet 1 for a minute: an update of it writes nothing
#   docs/clients/rehearse.sh outcome_unknown       every update loses its connection to the database, until you press Enter
set -eu

# Runs SQL on the database of `npm start`.
sql() {
  npx node --input-type=module -e '
    import { Client } from "pg";
    import { runningProjectDatabase } from "./dev/project-database.ts";
    const connectionString = runningProjectDatabase();
    if (!connectionString) throw new Error("start the service with npm start first");
    const client = new Client({ connectionString });
    await client.connect();
    await client.query(process.argv[1]);
    await client.end();' "$1"
}

case ${1:-} in
  service_unavailable)
    sql "BEGIN; SELECT FROM inventory_item WHERE pet_id = 1 FOR UPDATE; SELECT pg_sleep(60); COMMIT"
    ;;
  outcome_unknown)
    trap 'sql "DROP FUNCTION IF EXISTS rehearse CASCADE"' EXIT
    sql "CREATE FUNCTION rehearse() RETURNS trigger LANGUAGE plpgsql AS
           'BEGIN PERFORM pg_terminate_backend(pg_backend_pid()); RETURN NEW; END';
         CREATE TRIGGER rehearse BEFORE UPDATE ON inventory_item FOR EACH ROW EXECUTE FUNCTION rehearse()"
    read -r -p 'Every update is now outcome_unknown. Press Enter to end this. '
    ;;
  *)
    echo 'usage: docs/clients/rehearse.sh service_unavailable | outcome_unknown' >&2
    exit 2
    ;;
esac

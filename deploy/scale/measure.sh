#!/usr/bin/env bash
# Requests per second at each of the given base addresses, in turn so that a busy machine is unfair to none; median of the rounds.
#
#   API_KEY=… deploy/scale/measure.sh list 8 http://127.0.0.1:3000 http://127.0.0.1:8080
#   API_KEY=… deploy/scale/measure.sh update 64 …          sets random pets of 1 to PETS (default 100)
#
# Needs wrk. ROUNDS (default 5) of SECONDS_EACH (default 3).
set -euo pipefail
operation=$1 connections=$2
shift 2

script=$(mktemp)
trap 'rm -f "$script"' EXIT
if [ "$operation" = update ]; then
  cat >"$script" <<'LUA'
wrk.headers["Content-Type"] = "application/json"
local pets = tonumber(os.getenv("PETS") or "100")
request = function()
  return wrk.format("PATCH", "/v1/inventory/" .. math.random(pets), nil, '{"quantity":' .. math.random(1000) .. "}")
end
LUA
fi

declare -A rates
for round in $(seq 0 "${ROUNDS:-5}"); do
  for address in "$@"; do
    output=$(wrk --threads 1 --connections "$connections" --duration "${SECONDS_EACH:-3}s" --script "$script" \
      --header "Authorization: Bearer $API_KEY" "$address/v1/inventory")
    if grep -E 'Non-2xx|Socket errors' <<<"$output"; then exit 1; fi
    # The first round warms up.
    if [ "$round" -gt 0 ]; then rates[$address]+=" $(awk '/Requests\/sec/ { print int($2) }' <<<"$output")"; fi
  done
done
for address in "$@"; do
  printf '%s %s %s: ' "$operation" "$connections" "$address"
  tr ' ' '\n' <<<"${rates[$address]}" | sed '/^$/d' | sort -n | awk '{ all[NR] = $1 } END { print all[int((NR + 1) / 2)] " requests/s (" all[1] " to " all[NR] ")" }'
done

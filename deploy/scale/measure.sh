#!/usr/bin/env bash
# Requests per second at each of the given base addresses, and what each container of a compose project spent on one request.
#
#   API_KEY=… deploy/scale/measure.sh <project> list 8 http://127.0.0.1:3000 http://127.0.0.1:8080
#   API_KEY=… deploy/scale/measure.sh <project> update 64 …          sets random pets of 1 to PETS (default 100)
#
# Needs wrk and curl. Takes the addresses in turn, ROUNDS (default 5) of SECONDS_EACH (default 3) after one to warm up. On a machine
# that has other work the rates say little; the CPU time of a request says much the same as on a quiet one.
set -euo pipefail
project=$1 operation=$2 connections=$3
shift 3

script=$(mktemp)
trap 'rm -f "$script"' EXIT
if [ "$operation" = update ]; then
  cat >"$script" <<'LUA'
wrk.headers["Content-Type"] = "application/json"
local pets = tonumber(os.getenv("PETS") or "100")
request = function()
  return wrk.format("PATCH", "/v1/inventory/" .. math.random(pets), nil, '{"quantity":' .. math.random(1000000) .. "}")
end
LUA
fi

# The CPU time that each container has used so far, in nanoseconds.
cpu_times() {
  docker ps --filter "label=com.docker.compose.project=$project" --format '{{.ID}} {{.Label "com.docker.compose.service"}}' |
    while read -r id service; do
      stats=$(curl -s --unix-socket /var/run/docker.sock "http://docker/containers/$id/stats?stream=false&one-shot=true")
      [[ $stats =~ \"total_usage\":([0-9]+) ]] && echo "$service ${BASH_REMATCH[1]}"
    done
}

declare -A rates spent requests
for round in $(seq 0 "${ROUNDS:-5}"); do
  for address in "$@"; do
    before=$(cpu_times)
    output=$(wrk --threads 1 --connections "$connections" --duration "${SECONDS_EACH:-3}s" --script "$script" \
      --header "Authorization: Bearer $API_KEY" "$address/v1/inventory")
    after=$(cpu_times)
    if grep -E 'Non-2xx' <<<"$output"; then exit 1; fi
    if [ "$round" -eq 0 ]; then continue; fi
    rates[$address]+=" $(awk '/Requests\/sec/ { print int($2) }' <<<"$output")"
    requests[$address]=$((${requests[$address]:-0} + $(awk '/requests in/ { print $1 }' <<<"$output")))
    spent[$address]+=$(sed 's/ / -/' <<<"$before")$'\n'$after$'\n'
  done
done
for address in "$@"; do
  printf '%s, %s connections, %s: ' "$operation" "$connections" "$address"
  tr ' ' '\n' <<<"${rates[$address]}" | sed '/^$/d' | sort -n |
    awk '{ all[NR] = $1 } END { printf "%d requests/s (%d to %d); CPU us a request:", all[int((NR + 1) / 2)], all[1], all[NR] }'
  awk -v requests="${requests[$address]}" 'NF { sum[$1] += $2 } END { for (service in sum) printf " %s %.0f", service, sum[service] / requests / 1000; print "" }' \
    <<<"${spent[$address]}"
done

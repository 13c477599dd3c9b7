#!/usr/bin/env bash
# Requests per second at each of the given base addresses, and the CPU time that each container of a compose project spends on one.
#
#   API_KEY=… deploy/scale/measure.sh <project> list 8 http://127.0.0.1:3000 http://127.0.0.1:8080
#   API_KEY=… deploy/scale/measure.sh <project> update 64 …          sets random pets of 1 to PETS (default 100)
#
# Needs wrk and curl. Takes the addresses in turn, ROUNDS (default 5) of SECONDS_EACH (default 3) after one to warm up, each a line.
# On a machine that has other work the rates say little; the CPU time of a request says much the same as on a quiet one.
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

# The CPU time that each container has used so far, in nanoseconds, after the given sign.
cpu_times() {
  docker ps --filter "label=com.docker.compose.project=$project" --format '{{.ID}} {{.Label "com.docker.compose.service"}}' |
    while read -r id service; do
      stats=$(curl -s --unix-socket /var/run/docker.sock "http://docker/containers/$id/stats?stream=false&one-shot=true")
      [[ $stats =~ \"total_usage\":([0-9]+) ]] && echo "$service $1${BASH_REMATCH[1]}"
    done
}

for round in $(seq 0 "${ROUNDS:-5}"); do
  for address in "$@"; do
    spent=$(cpu_times -)
    output=$(wrk --threads 1 --connections "$connections" --duration "${SECONDS_EACH:-3}s" --script "$script" \
      --header "Authorization: Bearer $API_KEY" "$address/v1/inventory")
    spent+=$'\n'$(cpu_times +)
    if grep -E 'Non-2xx' <<<"$output"; then exit 1; fi
    if [ "$round" -eq 0 ]; then continue; fi
    printf '%s, %s connections, %s: ' "$operation" "$connections" "$address"
    awk '/requests in/ { requests = $1 } /Requests\/sec/ { printf "%d requests/s; CPU us a request:", $2 }
         NF == 2 && $2 ~ /^[-+][0-9]+$/ { sum[$1] += $2 }
         END { for (service in sum) printf " %s %.0f", service, sum[service] / requests / 1000; print "" }' \
      <<<"$output"$'\n'"$spent"
  done
done

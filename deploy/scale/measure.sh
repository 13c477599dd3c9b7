#!/usr/bin/env bash
# Prints the requests per second at each base address, and the CPU time per request of each container of a compose project.
#
#   API_KEY=… deploy/scale/measure.sh <project> list 8 http://127.0.0.1:3000 http://127.0.0.1:8080
#   API_KEY=… deploy/scale/measure.sh <project> update 64 …          sets random pets of 1 to PETS (default 100)
#
# Needs wrk and curl. After a round of warm-up, it measures the addresses in turn, in ROUNDS (default 5) of SECONDS_EACH (default 3).
# Other work on the machine changes the rates a lot, the CPU time of a request only a little.
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

# Prints the CPU time of each container so far, in nanoseconds, with the given sign.
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

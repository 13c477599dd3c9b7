#!/bin/sh
# Sends a mail to MAIL_TO when the quantity of a pet falls below 5, and none while it stays there. It tells the reason, if any. jq before 1.7 rounds pet ids
# beyond 2^53.
set -eu
inventory history --follow --json --after "$(cat last-id)" | while read -r change; do
  text=$(echo "$change" | jq -r 'select(.quantityAfter != null and .quantityAfter < 5 and (.quantityBefore // 5) >= 5) | "Pet \(.petId) is down to \(.quantityAfter)\(if .reason then " (\(.reason))" else "" end)."')
  [ -z "$text" ] || until echo "$text" | mail -s 'Low stock' "$MAIL_TO"; do sleep 60; done
  echo "$change" | jq .id > last-id.new && mv last-id.new last-id
done

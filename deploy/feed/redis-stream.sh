#!/bin/sh
# Adds each change to the Redis stream "stock". The id of a change is the id of its entry, so that the stream keeps the last id
# itself and refuses an entry that it has. The file last-id counts while the stream is empty. The script ends when Redis fails.
set -eu
last=$(redis-cli --raw XREVRANGE stock + - COUNT 1 | head -n 1)
inventory history --follow --json --after "$(echo "${last:-$(cat last-id)}" | cut -d- -f1)" | while read -r change; do
  redis-cli -e XADD stock "$(echo "$change" | jq .id)-1" change "$change" > /dev/null || kill $$
done

#!/bin/sh
# The cell API with nothing but curl: code, live output, files, a command.
#
#   CELLKEEP_URL=http://127.0.0.1:8888 CELLKEEP_TOKEN=... sh docs/examples/curl.sh
set -eu
api=${CELLKEEP_URL:-http://127.0.0.1:8888}/v1
auth="Authorization: Bearer $CELLKEEP_TOKEN"

# One session: a microVM of its own, its Python kernel, its disk.
session=$(curl -fsS -H "$auth" "$api/sessions" -d '{"name":"curl example"}' |
  sed 's/.*"id": *"\([0-9a-f-]*\)".*/\1/')
trap 'curl -fsS -X DELETE -H "$auth" "$api/sessions/$session"' EXIT

echo "== a cell, and one that has its variables"
curl -fsS -H "$auth" "$api/sessions/$session/cells" -d '{"code":"x = 6 * 7\nprint(\"x is\", x)"}'
curl -fsS -H "$auth" "$api/sessions/$session/cells" -d '{"code":"x + 1"}'

echo
echo "== output as it comes (server-sent events)"
curl -fsSN -H "$auth" -H 'Accept: text/event-stream' "$api/sessions/$session/cells" \
  -d '{"code":"import time\nfor i in range(3):\n    print(i, flush=True)\n    time.sleep(0.2)"}' |
  grep -E '^event: (stream|done)'

echo "== a file goes in, a file comes out"
printf 'name,points\nada,3\nbob,4\n' |
  curl -fsS -H "$auth" -T - "$api/sessions/$session/files/home/user/points.csv" >/dev/null
curl -fsS -H "$auth" "$api/sessions/$session/cells" \
  -d '{"code":"import pandas as pd\npd.read_csv(\"points.csv\").points.sum().tofile(\"total.txt\", sep=\" \")"}' |
  grep -q '"status": *"ok"'
curl -fsS -H "$auth" "$api/sessions/$session/files/home/user/total.txt"

echo
echo "== a command"
curl -fsS -H "$auth" "$api/sessions/$session/commands" -d '{"cmd":"wc -l < points.csv"}'
echo

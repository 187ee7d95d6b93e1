#!/bin/sh
# Drives a running cellkeep with real client libraries: run.sh URL TOKEN
# Needs node, this folder's node_modules (npm ci --ignore-scripts), and Debian's python3-aiohttp,
# python3-websockets, python3-jupyter-client, jupyter-server, jupyter-notebook. SCALE=n multiplies
# every deadline. One summary line at the end, exit code 1 when anything failed.
set -u
[ $# = 2 ] || { echo "usage: $0 URL TOKEN" >&2; exit 2; }
here=$(cd "$(dirname "$0")" && pwd)
url=${1%/} token=$2
out=$(mktemp)
trap 'rm -f "$out" "$out.rc"' EXIT
failed_drivers=

run() {
    name=$1; shift
    echo "== $name"
    { "$@" 2>&1; echo $? >"$out.rc"; } | tee -a "$out"
    rc=$(cat "$out.rc")
    [ $rc = 0 ] || failed_drivers="$failed_drivers $name"
}

run services node "$here/services.js" "$url/" "$token"
run soak node "$here/soak.js" "$url" "$token" --cuts 200
for d in jupyterclient openwebui sockets; do
    run $d /usr/bin/python3 "$here/$d.py" "$url" "$token"
done
run mcp node "$here/mcp.mjs" "$url" "$token" "$here/../../${CELLKEEP_BUILD:-build}/cellkeep"
run examples node "$here/examples.mjs" "$url" "$token" "$here/../../${CELLKEEP_BUILD:-build}/cellkeep"
run frontends sh "$here/frontends.sh" "$url" "$token"

passed=$(grep -c '^ok ' "$out")
failed=$(grep -c '^FAIL ' "$out")
[ -z "$failed_drivers" ] || echo "failed:$failed_drivers"
# A driver that died without a FAIL line counts too.
[ "$failed" = 0 ] && [ -n "$failed_drivers" ] && failed=1
echo "$passed passed, $failed failed"
[ "$failed" = 0 ]

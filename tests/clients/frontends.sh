#!/bin/sh
# Notebook servers in gateway mode in front of cellkeep, driven by the library under JupyterLab.
#   frontends.sh URL TOKEN
# Uses whichever of Debian's jupyter-server and jupyter-notebook is installed; none is a failure.
set -u
url=$1 token=$2
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
pid=
# Only the process that was started here, by its id.
stop() { [ -n "$pid" ] && kill "$pid" 2>/dev/null && wait "$pid" 2>/dev/null; pid=; }
trap 'stop; rm -rf "$work"' EXIT
trap 'exit 1' INT TERM

free_port() { /usr/bin/python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'; }

# drive NAME COMMAND...: starts the front-end on $port, waits for it, drives it
drive() {
    name=$1; shift
    printf '== %s in gateway mode\n' "$name"
    # Its own home and a bare environment: it must not find the settings of whoever runs this.
    (cd "$work" && exec env -i PATH="$PATH" HOME="$work" LANG=C.UTF-8 JUPYTER_RUNTIME_DIR="$work/run" "$@" >"$work/$name.log" 2>&1) &
    pid=$!
    i=0
    until /usr/bin/python3 -c "import urllib.request as u; u.urlopen('http://127.0.0.1:$port/api', timeout=2)" 2>/dev/null; do
        i=$((i + 1))
        if [ $i -gt 60 ] || ! kill -0 "$pid" 2>/dev/null; then
            echo "FAIL $name did not start"; tail -5 "$work/$name.log"; stop; return 1
        fi
        sleep 0.5
    done
    node "$here/services.js" "http://127.0.0.1:$port/" front --front "$name"
    rc=$?
    stop
    return $rc
}

failed=0 ran=0
if command -v jupyter-server >/dev/null; then
    ran=1 port=$(free_port)
    drive jupyter-server jupyter-server --allow-root --no-browser --ServerApp.ip=127.0.0.1 --ServerApp.port="$port" \
        --ServerApp.token=front --ServerApp.password='' --gateway-url="$url" --GatewayClient.auth_token="$token" || failed=1
fi
if command -v jupyter-notebook >/dev/null; then
    ran=1 port=$(free_port)
    drive jupyter-notebook jupyter-notebook --allow-root --no-browser --ip=127.0.0.1 --port="$port" \
        --NotebookApp.token=front --NotebookApp.password='' --gateway-url="$url" --GatewayClient.auth_token="$token" || failed=1
fi
[ $ran = 1 ] || { echo "FAIL neither jupyter-server nor jupyter-notebook is installed"; failed=1; }
exit $failed

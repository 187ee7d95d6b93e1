#!/usr/bin/python3
"""The web tier: a gateway of its own (real image and template, below a base URL), and the browser tests
against it. `run.py [NAME...]` runs only the tests whose name has one of the words.

The tests are main.mjs; it asks for what only this side can do by a line on its standard output
("@restart", "@stop", "@start", "@kill-vm ID") and goes on when the answer "done" comes. Screenshots: build/web-shots, or
the folder in CELLKEEP_WEB_SHOTS. `run.py README` makes the pictures of the README instead. One line a test: "ok NAME" or "FAIL NAME".
"""
import os
import signal
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.dirname(HERE))

from harness.gateway import ROOT, TOKEN, Gateway  # noqa: E402

BASE = "/box"


def main(names):
    shots = os.environ.get("CELLKEEP_WEB_SHOTS") or os.path.join(ROOT, "build", "web-shots")
    if "README" in names:
        shots = os.path.join(ROOT, "docs", "images")
    os.makedirs(shots, exist_ok=True)
    gw = Gateway("--base-url", BASE, "--pool-size", "1", "--max-sessions", "12")
    try:
        gw.start(900)
        gw.options += ["--port", str(gw.port)]
        url = "http://127.0.0.1:%d%s" % (gw.port, BASE)
        node = subprocess.Popen(["node", os.path.join(HERE, "main.mjs"), url, TOKEN, shots, *names],
                                stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        try:
            for line in node.stdout:
                if line.startswith("@"):
                    order(gw, line.strip())
                    node.stdin.write("done\n")
                    node.stdin.flush()
                else:
                    print(line, end="", flush=True)
            return node.wait(30)
        finally:
            if node.poll() is None:
                node.kill()
    finally:
        gw.end()


def order(gw, what):
    if what in ("@restart", "@stop"):
        gw.stop()
    if what in ("@restart", "@start"):
        gw.start(300)
    if what.startswith("@kill-vm "):
        os.kill(gw.qemu_pid(what.split()[1]), signal.SIGKILL)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

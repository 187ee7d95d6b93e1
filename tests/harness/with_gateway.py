#!/usr/bin/python3
"""with_gateway.py [serve options] -- COMMAND...: runs the command against a gateway of its own.

The words URL and TOKEN of the command are replaced. The gateway has a fresh state folder and the
usual cache (real image, real template); it and its sessions are ended afterwards.
"""
import os
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from harness.gateway import TOKEN, Gateway  # noqa: E402


def main(argv):
    if "--" not in argv:
        print(__doc__, file=sys.stderr)
        return 2
    at = argv.index("--")
    gw = Gateway(*argv[1:at])
    try:
        gw.start(900)
        url = "http://127.0.0.1:%d" % gw.port
        command = [{"URL": url, "TOKEN": TOKEN}.get(word, word) for word in argv[at + 1:]]
        return subprocess.run(command, stdin=subprocess.DEVNULL).returncode
    finally:
        gw.end()


if __name__ == "__main__":
    sys.exit(main(sys.argv))

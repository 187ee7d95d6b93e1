#!/usr/bin/python3
"""sweep.py FOLDER: ends every process that belongs to a test's folder (and only those), removes it.

The last resort of script/test, for a tier that was killed before it could clean up itself.
"""
import json
import os
import shutil
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from harness import procs  # noqa: E402


def owned(folder):
    found = {p: procs.start_of(p) for p in procs.mentioning(folder)}
    for root, _dirs, files in os.walk(folder):
        if "bridge.json" in files:
            try:
                with open(os.path.join(root, "bridge.json")) as f:
                    b = json.load(f)
                if procs.start_of(b["pid"]) == b["start"]:
                    found[b["pid"]] = b["start"]
            except (OSError, ValueError, KeyError):
                pass
    ancestors, at = set(), os.getpid()
    while at > 1:
        ancestors.add(at)
        at = procs.parent_of(at)
    every = {p: procs.start_of(p) for p in procs.descendants(found)}
    return {p: s for p, s in every.items() if p not in ancestors and s is not None}


def sweep(folder):
    found = owned(folder)
    for pid, start in found.items():
        print("sweep: ending %d: %s" % (pid, procs.cmdline(pid)[:120]), file=sys.stderr)
        procs.kill(pid, start)
    procs.wait_gone(found, 5)
    shutil.rmtree(folder, ignore_errors=True)
    return found


if __name__ == "__main__":
    if len(sys.argv) != 2 or not os.path.isabs(sys.argv[1]) or len(sys.argv[1]) < 8:
        print(__doc__, file=sys.stderr)
        sys.exit(2)
    sweep(sys.argv[1])

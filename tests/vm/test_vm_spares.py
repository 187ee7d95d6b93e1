"""Machines that wait for a layer: what comes out of one is the session, with its memory, disk and open files."""
import re

from harness import procs
from harness.gateway import wait_for
from harness.life import done, pause

SETUP = "import numpy, random, secrets\nkept = numpy.arange(1000)\nf = open('/home/user/log.txt', 'w')\n" \
        "f.write('one\\n')\nf.flush()"
LOOK = "f.write('two\\n'); f.flush(); print(int(kept.sum()), open('/home/user/log.txt').read().split())"
CHANCE = "print(random.random(), numpy.random.rand(), secrets.token_hex(8), open('/etc/machine-id').read().strip())"


def metric(api, name):
    return int(re.search(r"^cellkeep_%s (\d+)" % name, api.get("/metrics").body.decode(), re.M).group(1))


def waiting(gw, api):
    """The bridge of the spare that is there."""
    wait_for("a spare", 120, lambda: metric(api, "spare_ready") == 1)
    bridges = {p for p in procs.descendants({gw.pid}) if procs.cmdline(p).endswith("cellkeep bridge")}
    known = {gw.bridge_pid(s["id"]) for s in api.get("/v1/sessions").json() if s["state"] != "paused"}
    spare, = bridges - known
    return spare


def test_a_resume_and_a_fork_through_a_spare_keep_variables_and_disk(start):
    gw = start("--pool-size", "0", "--spare", "1", "--on-exit", "kill")
    api = gw.client(timeout=150)
    sid = api.create()
    assert api.cell(sid, SETUP)["status"] == "ok"
    pause(api, sid)
    bridge = waiting(gw, api)
    done(api, sid, "resume", timeout=120)
    assert gw.bridge_pid(sid) == bridge
    assert api.cell(sid, LOOK)["stdout"] == "499500 ['one', 'two']\n"
    bridge = waiting(gw, api)
    fork, = done(api, sid, "fork", {"count": 1}, 201, timeout=120)
    assert gw.bridge_pid(fork["id"]) == bridge
    assert api.cell(fork["id"], LOOK)["stdout"] == "499500 ['one', 'two', 'two']\n"
    drawn = [api.cell(s, CHANCE)["stdout"].split() for s in (sid, fork["id"])]
    assert all(a != b for a, b in zip(*drawn)), drawn
    assert api.cell(sid, "print(open('/home/user/log.txt').read().split())")["stdout"] == "['one', 'two']\n"
    bridge = waiting(gw, api)
    new = api.create()
    assert gw.bridge_pid(new) == bridge
    assert api.cell(new, "print('kept' in globals())")["stdout"] == "False\n"
    assert metric(api, "spare_failures_total") == 0 and metric(api, "spare_used_total") == 3
    assert api.delete("/v1/sessions/" + sid).status == 204
    assert api.cell(fork["id"], LOOK)["status"] == "ok", "its source's layers are its own, too"

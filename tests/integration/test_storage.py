"""What a disk can do to sessions: full, read-only, damaged. The answer says what is wrong, everybody else goes on, and
nothing that could still be used is removed. Folders are mounts of a namespace that the gateway has for itself."""
import json
import os
import sqlite3

import pytest

from harness.gateway import Gateway, NotReady, wait_for
from harness.life import done, folder, pause, reason, state, verb

MOUNT = 'mount -t tmpfs -o size=%s,mode=755 none "$0" && exec "$@"'

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="mounts need root")


class Mounted(Gateway):
    """With a state folder of its own small file system. at(): a path in it, as seen from here."""

    def __init__(self, *options, size="40m", script=MOUNT, **kw):
        super().__init__(*options, **kw)
        self.script = script % size if "%" in script else script

    def command(self):
        return ["unshare", "--mount", "--propagation", "private", "sh", "-c", self.script, self.state, *super().command()]

    def at(self, *parts):
        return os.path.join("/proc/%d/root" % self.pid + self.state, *parts)


@pytest.fixture
def small(fake):
    gw = Mounted(*fake.options(), "--pool-size", "0", "--idle-s", "0", "--on-exit", "kill").start()
    yield gw
    reports = gw.sanitizer_reports()
    gw.stop()
    gw.end()
    assert not reports, reports


def fill(path):
    with open(path, "wb", buffering=0) as f:
        try:
            while True:
                f.write(bytes(65536))
        except OSError:
            pass
        try:
            while True:
                f.write(bytes(512))
        except OSError:
            pass


def test_a_full_disk_costs_nobody_a_session(small):
    api = small.client()
    sid, other, paused = api.create(name="a"), api.create(name="b"), api.create(name="c")
    for s in (sid, other, paused):
        api.cell(s, "set:x:" + s)
    done(api, sid, "checkpoints", {"name": "before"}, 201)
    pause(api, paused)
    fill(small.at("full"))
    for what, body in (("pause", {}), ("checkpoints", {"name": "n"}), ("fork", {"count": 2})):
        r = verb(api, sid, what, body)
        assert r.status >= 500 and "disk" in r.json()["message"], (what, r)
        assert api.cell(sid, "get:x")["stdout"] == sid + "\n", what
        assert api.cell(other, "get:x")["stdout"] == other + "\n", what
    r = api.post("/v1/sessions", {})
    assert r.status >= 500 and r.json()["message"], r
    assert state(api, paused) == "paused" and state(api, sid) != "dead"
    r = verb(api, paused, "cells", {"code": "get:x"})
    assert r.status in (200, 500, 503, 507), r
    assert {s["name"] for s in api.get("/v1/sessions").json()} == {"a", "b", "c"}
    os.unlink(small.at("full"))
    assert [c["name"] for c in api.get("/v1/sessions/%s/checkpoints" % sid).json()] == ["before"]
    for s in (sid, other, paused):
        assert api.cell(s, "get:x")["stdout"] == s + "\n"
        pause(api, s)
        assert api.cell(s, "get:x")["stdout"] == s + "\n"
    done(api, sid, "rollback", {"checkpoint": "before"})
    assert api.cell(sid, "get:x")["stdout"] == sid + "\n"
    left = [n for s in os.listdir(small.at("sessions")) if os.path.isdir(small.at("sessions", s, "layers"))
            for n in os.listdir(small.at("sessions", s, "layers")) if n.endswith(".tmp")]
    assert left == [], "what could not be finished"


def test_a_read_only_state_folder_is_refused_and_left_alone(fake, home, start):
    first = start("--pool-size", "0", state=home)
    sid = first.client().create()
    first.client().cell(sid, "set:x:1")
    pause(first.client(), sid)
    first.stop()
    script = 'mount --bind "$0" "$0" && mount -o remount,bind,ro "$0" && exec "$@"'
    gw = Mounted(*fake.options(), "--pool-size", "0", script=script, state=home)
    with pytest.raises(NotReady) as e:
        gw.start()
    assert e.value.code == 1 and home in e.value.stderr.splitlines()[-1], e.value.stderr
    assert "rite" in e.value.stderr.splitlines()[-1] or "ead-only" in e.value.stderr.splitlines()[-1]
    api = start("--pool-size", "0", "--on-exit", "kill", state=home).client()
    assert api.cell(sid, "get:x")["stdout"] == "1\n"


@pytest.mark.parametrize("how", ["garbage", "short", "empty-page"])
def test_a_damaged_database_stops_the_start_and_nothing_else(home, start, how):
    first = start("--pool-size", "0", state=home)
    api = first.client()
    running, asleep = api.create(), api.create()
    api.cell(running, "set:x:1")
    api.cell(asleep, "set:x:2")
    pause(api, asleep)
    first.stop()
    bridge = first.bridge_pid(running)
    path = os.path.join(home, "cellkeep.db")
    sqlite3.connect(path).execute("PRAGMA wal_checkpoint(TRUNCATE)").close()
    with open(path, "rb") as f:
        whole = f.read()
    with open(path, "wb") as f:
        f.write({"garbage": bytes(b ^ 0x5a for b in whole), "short": whole[:len(whole) // 2 - 100],
                 "empty-page": whole[:4096] + bytes(len(whole) - 4096)}[how])
    with pytest.raises(NotReady) as e:
        start("--pool-size", "0", state=home)
    assert e.value.code == 1 and "cellkeep.db" in e.value.stderr.splitlines()[-1], e.value.stderr
    assert os.path.exists("/proc/%d" % bridge), "a session that runs runs on"
    assert sorted(os.listdir(os.path.join(home, "sessions"))) == sorted([running, asleep])
    for name in os.listdir(home):
        if name.startswith("cellkeep.db-"):
            os.unlink(os.path.join(home, name))
    with open(path, "wb") as f:
        f.write(whole)
    api = start("--pool-size", "0", "--on-exit", "kill", state=home).client()
    assert api.cell(running, "get:x")["stdout"] == "1\n" and api.cell(asleep, "get:x")["stdout"] == "2\n"


OTHERS = {"qemu": "9.9.9 (other)", "image": "0" * 32, "cpu": "host", "accel": "kvm", "memory_mb": 4096, "layout": 99,
          "template": "0" * 32, "template_us": 5, "version": 77, "magic": "something"}


@pytest.mark.parametrize("field", sorted(OTHERS))
def test_a_layer_from_elsewhere_is_refused_by_name_and_the_session_stays(gateway, api, session, field):
    api.cell(session, "set:x:3")
    pause(api, session)
    layers = folder(gateway, session, "layers")
    path = os.path.join(layers, os.listdir(layers)[0], "layer.json")
    with open(path) as f:
        whole = f.read()
    os.unlink(path)
    with open(path, "w") as f:
        json.dump({**json.loads(whole), field: OTHERS[field]}, f)
    os.chmod(path, 0o444)
    r = verb(api, session, "cells", {"code": "get:x"})
    assert r.status == 503 and reason(r) == "resume_failed", r
    assert state(api, session) == "paused"
    os.unlink(path)
    with open(path, "w") as f:
        f.write(whole)
    os.chmod(path, 0o444)
    assert api.cell(session, "get:x")["stdout"] == "3\n"


@pytest.mark.parametrize("name", ["x" * (1 << 20), "a/b", "../x", "\x00", "a\nb"], ids=["1 MB", "slash", "up", "nul", "line"])
def test_names_that_are_none(api, session, name):
    wrong = (400, 413)  # the latter: the body is too large already
    assert verb(api, session, "checkpoints", {"name": name}).status in wrong
    assert verb(api, session, "rollback", {"checkpoint": name}).status in (*wrong, 404)
    if "/" not in name:
        assert api.post("/v1/sessions", {"name": name}).status in wrong
    assert api.post("/v1/sessions", {"template": name}).status in wrong
    assert api.get("/v1/sessions/" + session).status == 200
    assert api.get("/v1/sessions/%s/checkpoints" % session).json() == []


def test_forks_of_what_is_starting_or_going(api):
    import threading
    sid = api.create()
    t = threading.Thread(target=lambda: verb(api, sid, "restart"))
    t.start()
    seen = set()
    while t.is_alive():
        r = verb(api, sid, "fork")
        seen.add((r.status, reason(r)))
    t.join()
    assert seen <= {(201, ""), (409, "session_starting"), (409, "life_busy"), (409, "bad_state")}, seen
    wait_for("rest", 20, lambda: verb(api, sid, "fork").status == 201)
    t = threading.Thread(target=lambda: api.delete("/v1/sessions/" + sid))
    t.start()
    answers = [verb(api, sid, "fork") for _ in range(5)]
    t.join()
    assert all((r.status, reason(r)) in {(201, ""), (404, "no_such_session"), (409, "life_busy"), (410, "session_dead")}
               for r in answers), answers
    assert verb(api, sid, "fork").status == 404
    for s in api.get("/v1/sessions").json():
        api.delete("/v1/sessions/" + s["id"])

"""Nothing is left behind: no process, socket, folder or mount, whichever way something ended."""
import os

from harness import procs
from harness.gateway import wait_for


def children_of(gw, sid):
    return {p: procs.start_of(p) for p in procs.descendants({gw.bridge_pid(sid)})}


def mounts():
    with open("/proc/self/mountinfo") as f:
        return sorted(line.split()[4] for line in f)


def cgroups(sessions):
    """Control groups of these sessions."""
    return sorted(os.path.join(root, d) for root, dirs, _files in os.walk("/sys/fs/cgroup") for d in dirs
                  if any(s in d for s in sessions))


def test_a_deleted_session_leaves_nothing(start):
    gw = start("--pool-size", "0")
    api = gw.client()
    sid = api.create()
    api.cell(sid, "touch:x.txt:10")
    mine = children_of(gw, sid)
    assert len(mine) >= 2
    folder = os.path.join(gw.state, "sessions", sid)
    assert os.path.isdir(folder)
    assert api.delete("/v1/sessions/" + sid).status == 204
    assert procs.wait_gone(mine, 5) == {}
    wait_for("the folder is gone", 5, lambda: not os.path.exists(folder))
    assert api.get("/v1/sessions/" + sid).status == 404
    assert api.get("/v1/sessions").json() == []


def test_a_busy_session_can_be_deleted(start):
    import threading
    gw = start("--pool-size", "0")
    api = gw.client()
    sid = api.create()
    out = {}
    t = threading.Thread(target=lambda: out.update(api.cell(sid, "hang")))
    t.start()
    wait_for("busy", 10, lambda: api.session(sid)["state"] == "busy")
    mine = children_of(gw, sid)
    assert api.delete("/v1/sessions/" + sid).status == 204
    t.join(15)
    assert out["status"] in ("cancelled", "vm_died"), out
    assert procs.wait_gone(mine, 5) == {}


def test_on_exit_kill_leaves_nothing(start):
    mounted = mounts()
    gw = start("--pool-size", "2", "--on-exit", "kill")
    api = gw.client()
    for _ in range(2):
        api.cell(api.create(), "print:x")
    wait_for("the pool is full again", 30, lambda: len(os.listdir(os.path.join(gw.state, "sessions"))) >= 4)
    sessions = os.listdir(os.path.join(gw.state, "sessions"))
    assert gw.stop(40) == 0
    assert gw.leftovers() == {}
    assert os.listdir(os.path.join(gw.state, "sessions")) == []
    sockets = [f for r, _d, fs in os.walk(gw.state) for f in fs if f.endswith(".sock")]
    assert sockets == []
    assert mounts() == mounted
    assert cgroups(sessions) == []


def test_on_exit_kill_ends_a_session_that_hangs(start):
    gw = start("--pool-size", "0", "--on-exit", "kill")
    api = gw.client()
    sid = api.create()
    stream = api.events("POST", "/v1/sessions/%s/cells" % sid, {"code": "hang"})
    next(stream)
    assert gw.stop(40) == 0
    assert gw.leftovers() == {}


def test_on_exit_keep_leaves_the_sessions_and_not_the_pool(start):
    gw = start("--pool-size", "2")
    api = gw.client()
    sid = api.create()
    wait_for("the pool is full again", 30, lambda: len(os.listdir(os.path.join(gw.state, "sessions"))) >= 3)
    bridge = gw.bridge_pid(sid)
    assert gw.stop() == 0
    assert procs.start_of(bridge)
    assert sid in os.listdir(os.path.join(gw.state, "sessions"))


def test_folders_of_an_earlier_life_are_cleared(start):
    gw = start("--pool-size", "2")
    gw.client()
    wait_for("the pool", 30, lambda: len(os.listdir(os.path.join(gw.state, "sessions"))) >= 2)
    pooled = set(os.listdir(os.path.join(gw.state, "sessions")))
    gw.note_processes()
    gw.kill()
    for p, s in gw.seen.items():
        procs.kill(p, s)
    procs.wait_gone(gw.seen, 5)
    again = start("--pool-size", "1", state=gw.state)
    wait_for("the dead folders are gone", 15,
             lambda: not pooled & set(os.listdir(os.path.join(gw.state, "sessions"))))
    again.stop()


def test_nothing_secret_is_readable_by_others(start):
    gw = start()
    gw.client().create()
    for root, _d, files in os.walk(gw.state):
        for name in files:
            path = os.path.join(root, name)
            if name in ("token", "cellkeep.db") or name.endswith((".log", ".qcow2", ".db")):
                assert os.stat(path).st_mode & 0o077 == 0, path

"""Spares: machines that wait for a template or a layer. That they are taken, made again, bounded, of nobody's when
their gateway has gone, and that one that is gone or fails costs its caller nothing but time."""
import os
import re
import shutil
import signal
import subprocess
import time
from threading import Thread

import pytest

from harness import procs
from harness.gateway import TOKEN, binary, wait_for
from harness.jupyter import Socket, stdout
from harness.life import done, folder, pause, state
from integration.conftest import Fake


def metric(api, name):
    return int(re.search(r"^cellkeep_%s (\d+)" % name, api.get("/metrics").body.decode(), re.M).group(1))


def full(api, n=1):
    wait_for("%d spares" % n, 60, lambda: metric(api, "spare_ready") == n)


def folders(gw):
    return set(os.listdir(os.path.join(gw.state, "sessions")))


def spare_of(gw, api):
    """(id, pid of its bridge): the one folder that is no session's."""
    sid, = folders(gw) - {s["id"] for s in api.get("/v1/sessions").json()}
    bridge = next(p for p, c in procs.mentioning(sid).items() if "-netdev" in c)
    return sid, procs.parent_of(bridge)


@pytest.fixture
def spared(start):
    gw = start("--pool-size", "0", "--spare", "1", "--on-exit", "kill")
    return gw, gw.client()


def test_a_resume_takes_a_spare_and_keeps_everything(spared):
    gw, api = spared
    sid = api.create()
    api.cell(sid, "set:x:7")
    sock = Socket(gw, sid, TOKEN)
    assert stdout(sock.execute("print:seen")) == "seen\n"
    done(api, sid, "checkpoints", {"name": "c"}, 201)
    api.cell(sid, "set:x:8")
    pause(api, sid)
    full(api)
    used = metric(api, "spare_used_total")
    spare, bridge = spare_of(gw, api)
    view = "/proc/%d/root%s" % (bridge, os.path.join(gw.state, "sessions"))
    assert os.getuid() or os.listdir(view) == [spare], "it sees one folder"
    assert done(api, sid, "resume")["state"] == "idle"
    assert metric(api, "spare_used_total") == used + 1
    assert os.getuid() or os.listdir(view) == [spare], "and no second one when that is the session's"
    assert gw.bridge_pid(sid) == bridge, "the session is the process that waited"
    assert api.cell(sid, "get:x")["stdout"] == "8\n"
    assert stdout(sock.execute("get:x")) == "8\n", "the client's socket went on"
    sock.close()
    wait_for("what is left of the spare's folder goes", 10, lambda: spare not in folders(gw))
    assert not os.path.exists(folder(gw, sid, "paused.json"))
    done(api, sid, "rollback", {"checkpoint": "c"})
    assert api.cell(sid, "get:x")["stdout"] == "7\n"
    pause(api, sid)
    assert api.cell(sid, "get:x")["stdout"] == "7\n"
    full(api)
    mine = {p: procs.start_of(p) for p in procs.descendants({gw.bridge_pid(sid)})}
    assert api.delete("/v1/sessions/" + sid).status == 204
    assert procs.wait_gone(mine, 5) == {}
    wait_for("its folder is gone", 10, lambda: len(folders(gw)) == 1)


@pytest.mark.skipif(os.getuid() != 0, reason="only root gives sessions users of their own")
def test_a_session_whose_layer_was_never_sealed_takes_a_spare(spared):
    """Its gateway was killed before it could: the files are the old bridge's user's alone."""
    gw, api = spared
    sid = api.create()
    api.cell(sid, "set:x:7")
    owner = os.stat(folder(gw, sid)).st_uid
    pause(api, sid)
    layer, = os.listdir(folder(gw, sid, "layers"))
    for name in (*os.listdir(folder(gw, sid, "layers", layer)), ""):
        os.chmod(folder(gw, sid, "layers", layer, name), 0o600 if name else 0o700)
        os.chown(folder(gw, sid, "layers", layer, name), owner, owner)
    full(api)
    assert api.cell(sid, "get:x")["stdout"] == "7\n"
    assert metric(api, "spare_used_total") >= 1 and metric(api, "spare_failures_total") == 0
    assert os.stat(folder(gw, sid)).st_uid != owner
    fork, = done(api, sid, "fork", {"count": 1}, 201)
    assert api.cell(fork["id"], "get:x")["stdout"] == "7\n"


def test_a_session_keeps_its_own_limits_in_a_spare(spared):
    """Which was started with those of nobody."""
    gw, api = spared
    sid = api.create(limits={"output_mb": 1}, timeouts={"cell_s": 1})
    pause(api, sid)
    full(api)
    used = metric(api, "spare_used_total")
    c = api.cell(sid, "flood:3000:1000")
    assert metric(api, "spare_used_total") == used + 1
    assert c["truncated"]["stdout_bytes"] > 0, c["truncated"]
    full(api)
    fork, = done(api, sid, "fork", {"count": 1}, 201)
    assert metric(api, "spare_used_total") == used + 2
    assert api.cell(fork["id"], "hang")["status"] == "timeout"


def test_forks_take_the_spares_that_there_are(start):
    gw = start("--pool-size", "0", "--spare", "2", "--on-exit", "kill")
    api = gw.client()
    sid = api.create()
    api.cell(sid, "set:x:5")
    full(api, 2)
    used = metric(api, "spare_used_total")
    forks = [s["id"] for s in done(api, sid, "fork", {"count": 5}, 201)]
    assert metric(api, "spare_used_total") == used + 2
    assert [api.cell(f, "get:x")["stdout"] for f in forks] == ["5\n"] * 5
    for i, f in enumerate(forks):
        api.cell(f, "set:x:%d" % i)
    assert [api.cell(f, "get:x")["stdout"] for f in forks] == ["%d\n" % i for i in range(5)], "each has its own"
    assert api.cell(sid, "get:x")["stdout"] == "5\n"
    full(api, 2)
    assert len(folders(gw)) == 6 + 2


def test_a_create_beyond_the_pool_takes_a_spare(spared):
    gw, api = spared
    full(api)
    spare, bridge = spare_of(gw, api)
    sid = api.create()
    assert sid == spare and gw.bridge_pid(sid) == bridge
    assert metric(api, "spare_used_total") == 1
    assert api.cell(sid, "print:1")["stdout"] == "1\n"
    full(api)


def test_the_pool_does_not_take_spares_to_fill_itself(start):
    api = start("--pool-size", "2", "--spare", "1", "--on-exit", "kill").client()
    full(api)
    api.create()
    wait_for("the pool is full again", 60, lambda: metric(api, "pool_ready") == 2)
    assert metric(api, "spare_used_total") == 0


def launched(api, sid, what):
    """A launch of each kind, by what the session does then that says where it came from."""
    if what == "resume":
        return api.cell(sid, "get:x")["stdout"]
    if what == "fork":
        return api.cell(done(api, sid, "fork", {"count": 1}, 201)[0]["id"], "get:x")["stdout"]
    return api.cell(api.create(), "print:7")["stdout"]


@pytest.mark.parametrize("what", ["resume", "fork", "create"])
@pytest.mark.parametrize("how", ["bridge", "qemu"])
def test_a_spare_that_was_killed_is_replaced(spared, what, how):
    """By a launch of its own when it is needed at once."""
    gw, api = spared
    sid = api.create()
    api.cell(sid, "set:x:7")
    if what == "resume":
        pause(api, sid)
    full(api)
    _, bridge = spare_of(gw, api)
    victim = bridge if how == "bridge" else next(p for p in procs.descendants({bridge}) if "-netdev" in procs.cmdline(p))
    os.kill(victim, signal.SIGKILL)
    assert launched(api, sid, what) == "7\n"
    full(api)
    assert metric(api, "spare_failures_total") >= 1


@pytest.mark.parametrize("what", ["resume", "fork", "create"])
def test_a_spare_that_hangs_and_then_dies_costs_nothing_but_time(spared, what):
    """It is stopped when it is told what to be, so it has its folder and its order when it is killed."""
    gw, api = spared
    sid = api.create()
    api.cell(sid, "set:x:7")
    if what == "resume":
        pause(api, sid)
    full(api)
    spare, bridge = spare_of(gw, api)
    born = procs.start_of(bridge)
    os.kill(bridge, signal.SIGSTOP)
    answers = []
    work = Thread(target=lambda: answers.append(launched(gw.client(), sid, what)))
    try:
        work.start()
        wait_for("it is taken", 30, lambda: metric(api, "spare_used_total") >= 1 and metric(api, "spare_ready") == 0)
    finally:
        procs.kill(bridge, born)
    work.join(60)
    assert answers == ["7\n"]
    assert gw.bridge_pid(sid) != bridge
    full(api)
    assert len(folders(gw)) == len(api.get("/v1/sessions").json()) + 1, "nothing of it is left"


def test_a_spare_that_cannot_restore_leaves_the_session_as_it_was(start):
    bad = Fake()
    faults = os.path.join(os.path.dirname(bad.qemu), "faults")
    try:
        gw = start("--pool-size", "0", "--spare", "1", "--on-exit", "kill", over=bad)
        api = gw.client()
        sid = api.create()
        api.cell(sid, "set:x:7")
        pause(api, sid)
        full(api)
        with open(faults, "w") as f:
            f.write("fail-personalise")
        old, pid = spare_of(gw, api)
        os.kill(pid, signal.SIGKILL)  # a machine has the faults of the time when it was started
        wait_for("another one", 60, lambda: metric(api, "spare_ready") == 1 and old not in folders(gw))
        pid = spare_of(gw, api)[1]
        answer = api.post("/v1/sessions/%s/cells" % sid, {"code": "get:x"})
        assert answer.status == 503, answer
        assert state(api, sid) == "paused" and os.path.exists(folder(gw, sid, "paused.json"))
        assert procs.start_of(pid) is None
        os.unlink(faults)
        assert api.cell(sid, "get:x")["stdout"] == "7\n"
    finally:
        shutil.rmtree(bad.cache, ignore_errors=True)


@pytest.mark.parametrize("sign", [signal.SIGKILL, signal.SIGTERM])
def test_spares_do_not_outlive_their_gateway(home, start, sign):
    first = start("--pool-size", "0", "--spare", "2", state=home)
    full(first.client(), 2)
    spares = folders(first)
    seen = first.note_processes()
    first.proc.send_signal(sign)
    first.proc.wait(30)
    assert procs.wait_gone(seen, 10) == {}
    if sign == signal.SIGTERM:
        assert folders(first) == set()
    second = start("--pool-size", "0", "--spare", "1", "--on-exit", "kill", state=home)
    full(second.client())
    wait_for("its own alone", 15, lambda: len(folders(second)) == 1)
    assert not spares & folders(second)


def test_a_gateway_killed_while_a_session_is_taking_a_spare_loses_no_session(home, start):
    """Between the folders' change of names and the end of the resume, at several moments."""
    gw = start("--pool-size", "0", "--spare", "1", state=home)
    sid = gw.client().create()
    gw.client().cell(sid, "set:x:7")
    for after in (0.0, 0.002, 0.005, 0.01, 0.02, 0.05):
        api = gw.client()
        pause(api, sid)
        full(api)

        def ask(client=gw.client()):
            try:
                client.post("/v1/sessions/%s/resume" % sid, {})
            except OSError:
                pass
        t = Thread(target=ask)
        t.start()
        used = metric(api, "spare_used_total")
        end = time.monotonic() + 10
        while used == 0 and time.monotonic() < end:
            used = metric(api, "spare_used_total")
        time.sleep(after)
        gw.kill()
        t.join(30)
        gw = start("--pool-size", "0", "--spare", "1", *(["--on-exit", "kill"] if after == 0.05 else []), state=home)
        assert gw.client().cell(sid, "get:x")["stdout"] == "7\n"
        api = gw.client()
        full(api)
        wait_for("one session and one spare", 15, lambda: len(folders(gw)) == 2)
        wait_for("rest", 10, lambda: state(api, sid) == "idle")


def test_no_spares_where_there_is_no_memory_or_none_are_wanted(start):
    api = start("--pool-size", "0", "--spare", "0", "--on-exit", "kill").client()
    sid = api.create()
    pause(api, sid)
    assert api.cell(sid, "print:1")["stdout"] == "1\n"
    assert metric(api, "spare_size") == metric(api, "spare_ready") == metric(api, "spare_used_total") == 0
    short = start("--pool-size", "0", "--spare", "3", "--memory-reserve-mb", "100000000", "--on-exit", "kill")
    api = short.client()
    time.sleep(3)
    assert metric(api, "spare_size") == 3 and metric(api, "spare_ready") == metric(api, "spare_failures_total") == 0
    assert folders(short) == set()


def test_a_session_of_another_template_does_not_take_a_spare(start):
    """Which waits on. The template of a session that was paused under an older one is another."""
    own = Fake()
    try:
        first = start("--pool-size", "0", "--spare", "1", "--on-exit", "kill", over=own)
        api = first.client()
        full(api)
        r = subprocess.run([binary(), "template", "build", "--name", "other", "--memory-mb", "1024", "--cache-dir", own.cache,
                            "--qemu", own.qemu, "--accel", "tcg"], capture_output=True, text=True, timeout=120)
        assert r.returncode == 0, r.stderr
        sid = api.create(template="other")
        api.cell(sid, "set:x:7")
        pause(api, sid)
        assert metric(api, "spare_ready") == 1
        assert api.cell(sid, "get:x")["stdout"] == "7\n"
        assert metric(api, "spare_used_total") == 0 and metric(api, "spare_failures_total") == 0
        full(api)
    finally:
        shutil.rmtree(own.cache, ignore_errors=True)

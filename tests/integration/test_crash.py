"""What dies, and what must not: the gateway, a bridge, a VM, one at a time."""
import fcntl
import os
import re
import signal
import sys
import termios
import threading
import time

import pytest
import websocket

from harness import procs
from harness.gateway import TOKEN, scratch, wait_for
from harness.jupyter import Socket, reply, stdout


@pytest.fixture
def state():
    d = scratch("k")
    yield d
    import shutil
    shutil.rmtree(d, ignore_errors=True)


def collect(api, sid, start, into):
    """Reads events until the connection breaks or a cell has ended."""
    def read():
        try:
            for e in api.events("GET", "/v1/sessions/%s/events?from=%d" % (sid, start), timeout=30):
                into.append(e)
                if e.kind == "done":
                    return
        except (OSError, AssertionError, ValueError):
            pass
        except Exception as e:  # http.client.IncompleteRead and its kin: the gateway was killed
            if type(e).__module__ != "http.client":
                raise
    t = threading.Thread(target=read)
    t.start()
    return t


def test_a_killed_gateway_loses_no_event_and_no_session(start, state):
    first = start("--pool-size", "1", state=state)
    api = first.client()
    sid = api.create(name="survivor", metadata={"k": "v"})
    begin = api.cell(sid, "set:x:kept")["seq"][1] + 1
    got = []
    reader = collect(api, sid, begin, got)
    run = threading.Thread(target=lambda: _ignore(lambda: api.cell(sid, "count:60:50\nthe result")))
    run.start()
    wait_for("output", 10, lambda: sum(e.kind == "stream" for e in got) >= 10)
    bridge = first.bridge_pid(sid)
    first.kill()
    reader.join(10)
    run.join(10)
    assert procs.start_of(bridge), "the bridge did not outlive the gateway"
    time.sleep(0.5)  # the cell goes on meanwhile

    second = start("--pool-size", "1", state=state)
    api = second.client()
    again = api.session(sid)
    assert again["name"] == "survivor" and again["metadata"] == {"k": "v"}
    last = max((e.id for e in got if e.id is not None), default=0)
    reader = collect(api, sid, last + 1, got)
    reader.join(30)
    ids = [e.id for e in got if e.id is not None]
    assert ids == sorted(ids) and len(ids) == len(set(ids)), "an event came twice or out of order"
    done = [e for e in got if e.kind == "done"][-1].json()["finished"]
    want = "".join("%d\n" % i for i in range(60))
    text = "".join(e.json()["content"]["text"] for e in got if e.kind == "stream" and e.json().get("cell") == done["id"])
    assert text == want and done["stdout"] == want and done["status"] == "ok"
    assert api.cell(sid, "get:x")["stdout"] == "kept\n"
    assert second.bridge_pid(sid) == bridge


def _ignore(f):
    try:
        f()
    except Exception:  # noqa: the gateway is killed under it
        pass


def test_a_jupyter_client_goes_on_after_the_gateway_was_killed(start, state):
    first = start(state=state)
    sid = first.client().create()
    sock = Socket(first, sid, TOKEN)
    sock.execute("print:warm")
    mid = sock.send("execute_request", {"code": "count:60:40", "silent": False})
    seen = {}
    while sum(m["msg_type"] == "stream" for m in seen.values()) < 10:
        m = sock.recv(10)
        seen[m["header"]["msg_id"]] = m
    first.kill()
    try:
        while True:  # what has come to this host is read, as every library does: it does not come again
            m = sock.recv(5)
            seen[m["header"]["msg_id"]] = m
    except (ConnectionError, OSError, websocket.WebSocketException):
        pass
    second = start(state=state)
    again = Socket(second, sid, TOKEN, session=sock.session)
    for m in again.until_done(mid, 30):
        seen[m["header"]["msg_id"]] = m
    mine = [m for m in seen.values() if m["parent_header"].get("msg_id") == mid]
    assert stdout(mine) == "".join("%d\n" % i for i in range(60)) and reply(mine)["status"] == "ok"
    again.close()


@pytest.mark.parametrize("v1", [True, False], ids=["v1", "legacy"])
def test_a_client_that_answers_pings_late_sees_each_message_once(start, state, v1):
    """Its library answers a ping when its program asks for the next message, as python3-websocket's
    does: the ping behind the last message before the crash is never answered."""
    gw = start(state=state)
    sid = gw.client().create()
    sock = Socket(gw, sid, TOKEN, v1=v1)
    sock.execute("print:warm")
    mid = sock.send("execute_request", {"code": "count:40:400", "silent": False})
    mine = []

    def take(m):
        if m["parent_header"].get("msg_id") == mid:
            mine.append(m)

    def over():  # on a slow machine before the last kill
        return {"execute_reply", "idle"} <= {m["content"].get("execution_state", m["msg_type"]) for m in mine}

    for kill in range(4):
        for _ in range(2):
            if not over():
                take(sock.recv())
        time.sleep(0.05)  # well before the next message, if the machine keeps up
        gw.kill()
        try:
            while True:
                take(sock.recv(5))
        except (ConnectionError, OSError, websocket.WebSocketException):
            pass
        gw = start(state=state)
        sock = Socket(gw, sid, TOKEN, session=sock.session, v1=v1)
    while not over():
        take(sock.recv())
    ids = [m["header"]["msg_id"] for m in mine]
    assert stdout(mine) == "".join("%d\n" % i for i in range(40))
    assert len(ids) == len(set(ids)), "a message came twice"


def test_a_client_that_reads_nothing_loses_nothing_when_the_gateway_is_killed(start, state):
    """What left for the client's host counts as delivered, what waited in the gateway's does not."""
    first = start(state=state)
    sid = first.client().create()
    sock = Socket(first, sid, TOKEN)
    sock.execute("print:warm")
    mid = sock.send("execute_request", {"code": "flood:400:60000\nprint:the end", "silent": False})
    # It was idle before the request, too: first of all some output (a ping is smaller) is at the client's host.
    wait_for("output", 30, lambda: int.from_bytes(fcntl.ioctl(sock.ws.sock, termios.FIONREAD, bytes(4)), sys.byteorder) > 9999)
    wait_for("the kernel is idle", 30, lambda: first.client().session(sid)["state"] == "idle")
    first.kill()
    order, seen = [], {}

    def take(m):
        if m["parent_header"].get("msg_id") == mid:
            order.append(m["header"]["msg_id"])
            seen[m["header"]["msg_id"]] = m

    try:
        while True:
            take(sock.recv(5))
    except (ConnectionError, OSError, websocket.WebSocketException):
        pass
    # None of it may be seen: the answer to a ping brings a reset, which throws away what was not yet read.
    second = start(state=state)
    again = Socket(second, sid, TOKEN, session=sock.session)
    for m in again.until_done(mid, 60):
        take(m)
    texts = [m["content"]["text"] for m in seen.values() if m["msg_type"] == "stream"]
    assert texts == ["x" * 59999 + "\n"] * 400 + ["the end\n"]
    assert list(dict.fromkeys(order)) == list(seen)


def test_sigterm_keeps_sessions_for_the_next_gateway(start, state):
    first = start(state=state)
    api = first.client()
    sid = api.create()
    api.cell(sid, "set:x:kept")
    assert first.stop() == 0
    second = start(state=state)
    assert second.client().cell(sid, "get:x")["stdout"] == "kept\n"


def test_several_kills_in_a_row(start, state):
    gw = start(state=state)
    sid = gw.client().create()
    run = None
    for i in range(4):
        gw.kill()
        gw = start(state=state)
        run = gw.client().cell(sid, "print:round %d" % i)
        assert run["stdout"] == "round %d\n" % i and run["execution_count"] == i + 1


def test_a_killed_bridge_ends_its_session_alone(start):
    gw = start("--pool-size", "1")
    api = gw.client()
    victim, other = api.create(), api.create()
    api.cell(other, "set:x:kept")
    out = {}
    t = threading.Thread(target=lambda: out.update(api.cell(victim, "print:begun\nsleep:60000")))
    t.start()
    wait_for("busy", 10, lambda: api.session(victim)["state"] == "busy")
    qemu, bridge = gw.qemu_pid(victim), gw.bridge_pid(victim)
    procs.kill(bridge, procs.start_of(bridge))
    t.join(20)
    assert out["status"] == "vm_died" and out["exit_code"] == 137, out
    assert wait_for("the session is dead", 10, lambda: api.session(victim)["state"] == "dead")
    wait_for("QEMU is gone with its bridge", 5, lambda: procs.start_of(qemu) is None)
    r = api.post("/v1/sessions/%s/cells" % victim, {"code": "print:x"})
    assert r.status == 410 and "session" in r.json()["message"], r
    assert r.json()["message"].count("delete") == 1, "what to do is said once"
    assert api.get("/api/kernels/" + victim).json()["execution_state"] == "dead"
    assert api.cell(other, "get:x")["stdout"] == "kept\n"
    assert api.delete("/v1/sessions/" + victim).status == 204


@pytest.mark.parametrize("code", ["exit_qemu:1", "exit_qemu:0"])
def test_a_vm_that_ends_by_itself_is_vm_died(start, code):
    gw = start()
    api = gw.client()
    sid, other = api.create(), api.create()
    c = api.cell(sid, "print:last words\nsleep:200\n" + code)
    assert c["status"] == "vm_died" and c["exit_code"] == 137 and c["stdout"] == "last words\n", c
    wait_for("dead", 10, lambda: api.session(sid)["state"] == "dead")
    assert api.post("/v1/sessions/%s/cells" % sid, {"code": "1"}).status == 410
    assert api.cell(other, "print:x")["status"] == "ok"


def test_a_killed_qemu_is_vm_died_for_every_door(start):
    gw = start()
    api = gw.client()
    sid = api.create()
    sock = Socket(gw, sid, TOKEN)
    sock.execute("print:warm")
    sock.send("execute_request", {"code": "sleep:60000", "silent": False})
    wait_for("busy", 10, lambda: api.session(sid)["state"] == "busy")
    qemu = gw.qemu_pid(sid)
    procs.kill(qemu, procs.start_of(qemu))
    states = []
    while "dead" not in states:
        m = sock.recv(15)
        if m["msg_type"] == "status":
            states.append(m["content"]["execution_state"])
    assert api.session(sid)["state"] == "dead"
    sock.close()


def test_a_session_that_died_while_no_gateway_ran_is_found_dead(start, state):
    gw = start(state=state)
    sid, other = gw.client().create(), gw.client().create()
    bridge = gw.bridge_pid(sid)
    gw.kill()
    procs.kill(bridge, procs.start_of(bridge))
    api = start(state=state).client()
    assert api.session(sid)["state"] == "dead"
    assert api.cell(other, "print:x")["status"] == "ok"
    assert api.delete("/v1/sessions/" + sid).status == 204


def test_a_full_pool_is_refilled_after_use(start):
    gw = start("--pool-size", "2")
    api = gw.client()
    sids = [api.create() for _ in range(5)]
    assert len({api.cell(s, "pid")["stdout"] for s in sids}) >= 1
    assert all(api.session(s)["state"] == "idle" for s in sids)


def test_a_pool_machine_that_is_found_late_makes_the_pool_no_larger(start, state):
    """It was silent while the next gateway looked for it, so another one was started in its place."""
    def folders():
        return set(os.listdir(os.path.join(state, "sessions")))

    def ready():
        return int(re.search(r"^cellkeep_pool_ready (\d+)", api.get("/metrics").body.decode(), re.M).group(1))

    first = start("--pool-size", "1", state=state)
    api = first.client()
    wait_for("a full pool", 30, lambda: ready() == 1)
    found, = folders()
    bridge = first.bridge_pid(found)
    first.kill()
    os.kill(bridge, signal.SIGSTOP)
    try:
        second = start("--pool-size", "1", "--on-exit", "kill", state=state)
        wait_for("another is being started", 30, lambda: len(folders()) == 2)
    finally:
        os.kill(bridge, signal.SIGCONT)
    api = second.client()
    wait_for("one machine, and no more", 30, lambda: len(folders()) == 1 and ready() == 1)
    assert api.cell(api.create(), "print:1")["stdout"] == "1\n"


def test_the_number_of_sessions_is_limited(start):
    api = start("--max-sessions", "2", "--pool-size", "0").client()
    a = api.create()
    api.create()
    r = api.post("/v1/sessions", {})
    assert r.status == 429 and r.json()["reason"] == "too_many_sessions"
    assert api.delete("/v1/sessions/" + a).status == 204
    api.create()

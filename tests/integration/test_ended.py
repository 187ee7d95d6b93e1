"""A cell whose session is ended under it: whoever ends it, and however, its client gets a finished cell
of the documented shape, with the output so far and the reason as it was."""
import os
import signal
import threading

import pytest

from harness import procs
from harness.gateway import wait_for

WHOLE = {"id", "seq", "status", "exit_code", "execution_count", "stdout", "stderr", "displays", "result", "error",
         "artifacts", "artifacts_total", "usage", "truncated"}
CODE = "print:first words\npng\ncount:3:1\nsleep:600000"
SOFAR = "first words\n0\n1\n2\n"


class Run(threading.Thread):
    """One cell, asked for as JSON or as events; .cell is its finished cell."""

    def __init__(self, api, sid, code, sse):
        super().__init__()
        self.api, self.sid, self.code, self.sse = api, sid, code, sse
        self.cell, self.seen, self.failure = None, [], None
        self.start()

    def run(self):
        try:
            if not self.sse:
                self.cell = self.api.cell(self.sid, self.code)
                return
            for e in self.api.events("POST", "/v1/sessions/%s/cells" % self.sid, {"code": self.code}):
                self.seen.append(e)
            self.cell = self.seen[-1].json() if self.seen[-1].kind == "done" else None
        except Exception as e:  # noqa: told by the test
            self.failure = e

    def finished(self):
        self.join(30)
        assert not self.is_alive(), "the cell has no end"
        assert self.cell, (self.failure, self.seen[-3:])
        return self.cell


def later(f, *args):
    t = threading.Thread(target=f, args=args)
    t.start()
    return t


def begin(gw, sse):
    """A session whose first cell has put out all of SOFAR and runs on, and a second one that waits."""
    api = gw.client()
    sid = api.create()
    first = Run(api, sid, CODE, sse)
    for e in api.events("GET", "/v1/sessions/%s/events" % sid, timeout=20):
        if e.kind == "stream" and e.json()["content"]["text"] == "2\n":
            break
    second = Run(api, sid, "print:never", True)
    wait_for("the second cell waits", 10, lambda: [e.kind for e in second.seen] == ["queued"])
    return api, sid, first, second


def check(first, second, status, exit_code, why):
    a, b = first.finished(), second.finished()
    for c in (a, b):
        assert WHOLE <= set(c) <= WHOLE | {"ended_by", "detail"}, sorted(WHOLE ^ set(c))
        assert set(c["usage"]) == {"wall_ms", "cpu_ms", "peak_memory_bytes", "disk_bytes"}
        assert set(c["truncated"]) == {"stdout_bytes", "stderr_bytes", "displays", "display_bytes"}
        assert (c["status"], c["exit_code"]) == (status, exit_code), c
        assert c["error"] is None and c["artifacts"] == [] and c["artifacts_total"] == 0
        assert why in c["detail"], c["detail"]
        assert not any(c["truncated"].values())
    assert a["stdout"] == SOFAR and a["execution_count"] == 1
    assert "image/png" in a["displays"][0]["data"]
    assert a["usage"]["wall_ms"] > 0 and a["usage"]["cpu_ms"] is None
    assert b["stdout"] == "" and b["displays"] == [] and b["execution_count"] is None
    first_seq, last_seq = a["seq"]
    assert 1 <= first_seq < last_seq
    if first.sse:
        ids = [e.id for e in first.seen if e.kind not in ("queued", "done")]
        assert first_seq == ids[0] and last_seq >= ids[-1]


@pytest.mark.parametrize("sse", [False, True], ids=["json", "events"])
def test_the_session_is_deleted(start, sse):
    gw = start("--pool-size", "0")
    api, sid, first, second = begin(gw, sse)
    assert api.delete("/v1/sessions/" + sid).status == 204
    check(first, second, "cancelled", 130, "the session was deleted")


@pytest.mark.parametrize("sse", [False, True], ids=["json", "events"])
def test_the_gateway_stops_and_ends_its_sessions(start, sse):
    gw = start("--pool-size", "0", "--on-exit", "kill")
    _api, _sid, first, second = begin(gw, sse)
    assert gw.stop() == 0
    check(first, second, "cancelled", 130, "--on-exit kill")
    assert "deleted" not in first.cell["detail"]


def test_the_bridge_is_told_to_stop(start):
    gw = start("--pool-size", "0")
    _api, sid, first, second = begin(gw, False)
    os.kill(gw.bridge_pid(sid), signal.SIGTERM)
    check(first, second, "cancelled", 130, "signal")


@pytest.mark.parametrize("sse", [False, True], ids=["json", "events"])
def test_the_bridge_is_killed(start, sse):
    gw = start("--pool-size", "0")
    api, sid, first, second = begin(gw, sse)
    bridge = gw.bridge_pid(sid)
    procs.kill(bridge, procs.start_of(bridge))
    check(first, second, "vm_died", 137, "the session's process ended unexpectedly")
    wait_for("dead", 10, lambda: api.session(sid)["state"] == "dead")


def test_the_session_of_a_bridge_that_hangs_is_deleted(start):
    gw = start("--pool-size", "0")
    api, sid, first, second = begin(gw, False)
    bridge = gw.bridge_pid(sid)
    os.kill(bridge, signal.SIGSTOP)
    assert api.delete("/v1/sessions/" + sid).status == 204
    check(first, second, "cancelled", 130, "the session was deleted")
    assert procs.start_of(bridge) is None


def test_events_of_a_deleted_session_end_with_its_cells(start):
    """Readers of the whole log get the ending too, then the session's, then the end of the stream."""
    gw = start("--pool-size", "0")
    api = gw.client()
    sid = api.create()
    Run(api, sid, "print:x\nsleep:600000", False)
    got = []
    for e in api.events("GET", "/v1/sessions/%s/events" % sid, timeout=20):
        got.append(e)
        if e.kind == "stream":
            deleting = later(api.delete, "/v1/sessions/" + sid)
    deleting.join(20)
    done = [e.json() for e in got if e.kind == "done"]
    assert [d["status"] for d in done] == ["cancelled"] and done[0]["finished"]["stdout"] == "x\n"
    last = [e.json() for e in got if e.kind == "state"][-1]
    assert last["state"] == "dead" and last["reason"] == "the session was deleted"


def test_a_jupyter_request_ends_with_its_session(start):
    from harness.gateway import TOKEN
    from harness.jupyter import Socket, reply
    gw = start("--pool-size", "0")
    api = gw.client()
    sid = api.create()
    sock = Socket(gw, sid, TOKEN)
    mid = sock.send("execute_request", {"code": "print:x\nsleep:600000", "silent": False})
    while sock.recv()["msg_type"] != "stream":
        pass
    deleting = later(api.delete, "/api/kernels/" + sid)
    got = sock.until_done(mid, 20)
    assert reply(got)["status"] == "error" and reply(got)["evalue"] == "the session was deleted"
    while (m := sock.recv())["msg_type"] != "status" or m["content"]["execution_state"] != "dead":
        pass
    deleting.join(20)

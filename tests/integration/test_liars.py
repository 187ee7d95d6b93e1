"""An agent that lies, forges or falls silent: its session goes on or ends, in time, and alone."""
import contextlib
import http.client
import json

import pytest

from harness.memory import MB, SLACK, Memory


@pytest.fixture
def neighbour(api):
    sid = api.create()
    api.cell(sid, "set:x:unharmed")
    yield
    assert api.cell(sid, "get:x", timeout=30)["stdout"] == "unharmed\n"
    api.delete("/v1/sessions/" + sid)


@pytest.mark.parametrize("lie", ["silent", "bad_sig", "replay", "wrong_re", "garbage", "huge", "changes_lie",
                                 "silent-changes", "fail-changes"])
def test_a_lying_agent_does_not_stop_cells_for_ever(api, session, neighbour, lie):
    api.cell(session, "print:x")
    c = api.cell(session, "print:before\nagent:%s\ntouch:a.txt:1" % lie, timeout=60)
    assert c["status"] in ("ok", "vm_died"), c
    assert c["stdout"] == "before\n"
    if c["status"] == "ok" and api.session(session)["state"] != "dead":
        r = api.post("/v1/sessions/%s/cells" % session, {"code": "print:next"}, timeout=60)
        assert r.status in (200, 410) and (r.status == 410 or r.json()["status"] in ("ok", "vm_died")), r
    if lie == "silent":
        r = api.get_file(session, "/home/user", timeout=60)
        assert r.status in (410, 502, 503, 504), r


def test_artifacts_that_make_no_sense_are_not_passed_on(api, session):
    c = api.cell(session, "agent:changes_lie\nprint:x", timeout=60)
    assert c["status"] == "ok"
    for a in c["artifacts"]:
        assert a["path"].startswith("/") and ".." not in a["path"] and a["size"] >= 0


# --- whatever it says ----------------------------------------------------------------------------------

def say(api, sid, op, **answer):
    assert api.cell(sid, "agent:say:%s:%s" % (op, json.dumps(answer)), timeout=60)["status"] == "ok"


@contextlib.contextmanager
def little_memory(gateway, sid):
    bridge = gateway.bridge_pid(sid)
    with Memory(bridge, gateway.pid) as m:
        yield
    assert m.growth(bridge) < 64 * MB + SLACK, m.growth(bridge)
    assert m.growth(gateway.pid) < 64 * MB + SLACK, m.growth(gateway.pid)


def still_serves(api, sid):
    """The session goes on, or has ended and says so. Never anything between."""
    r = api.post("/v1/sessions/%s/cells" % sid, {"code": "print:on"}, timeout=60)
    assert (r.status == 200 and r.json()["status"] in ("ok", "vm_died")) or r.status == 410, r


STAT = {"type": "file", "size": 5, "mtime_ns": 1, "mode": 0o644, "etag": "1-5", "mime": "text/plain"}
ODD = [-1, 1 << 62, 1.5, "many", None, True, [], {}]


@pytest.mark.parametrize("field", ["type", "size", "mtime_ns", "mode", "etag", "mime"])
def test_a_stat_of_nonsense_is_an_error_or_harmless(api, session, neighbour, field):
    for value in ODD + ["a\r\nX-Injected: yes", "device", "x" * 100000]:
        say(api, session, "stat", stat={**STAT, field: value})
        say(api, session, "read", stat={**STAT, field: value}, eof=True, _payload=5)
        for method in ("GET", "HEAD"):
            r = api.request(method, "/v1/sessions/%s/files/home/user/a" % session, timeout=60)
            assert "x-injected" not in {k.lower() for k in r.headers}, r
            assert r.status in (200, 400, 403, 404, 409, 502, 410), (value, r)
    still_serves(api, session)


@pytest.mark.parametrize("name", ["..", ".", "", "a/b", "/etc/passwd", "a\nb", "<script>alert(1)</script>",
                                  "a\r\nX-Injected: yes", 7, None, "n" * 5000])
def test_names_of_a_folder_that_cannot_be_are_not_passed_on_as_paths(api, session, neighbour, name):
    say(api, session, "stat", stat={**STAT, "type": "dir"})
    say(api, session, "list", entries=[{"name": name, "type": "file", "size": 1, "mtime_ns": 1}], truncated=False)
    r = api.get("/v1/sessions/%s/files/home/user/" % session, timeout=60)
    assert r.status in (200, 502, 410), r
    assert "json" in r.headers["Content-Type"], r.headers
    if r.status == 200:
        for e in r.json()["entries"]:
            assert isinstance(e["name"], str) and e["name"] not in ("", ".", "..") and "/" not in e["name"] \
                and "\x00" not in e["name"], e
    still_serves(api, session)


@pytest.mark.parametrize("path", ["../../etc/passwd", "etc/passwd", "/home/../etc/shadow",
                                  "/home/user/<script>alert(1)</script>.html", "/home/user/a\r\nX: y", "", 9])
def test_artifacts_are_files_under_a_clean_path_or_none(api, session, neighbour, path):
    one = {"path": path, "size": 3, "mtime_ns": 1, "change": "created", "mime": "text/html\r\nX: y", "sha256": "\"\r\n"}
    say(api, session, "changes", files=[one] * 3, count=3)
    c = api.cell(session, "print:x", timeout=60)
    assert c["status"] == "ok" and c["stdout"] == "x\n", c
    for a in c["artifacts"]:
        assert a["path"].startswith("/") and "/../" not in a["path"] and "\x00" not in a["path"], a
        assert all(ch not in a["url"] for ch in "<>\"\r\n ") and "\r" not in a["mime"], a
        assert a["sha256"] is None or set(a["sha256"]) <= set("0123456789abcdef"), a
    still_serves(api, session)


@pytest.mark.parametrize("count", [-5, 1 << 62, "many", None, 1.5])
def test_a_count_of_files_that_cannot_be_does_not_reach_the_client(api, session, neighbour, count):
    say(api, session, "changes", files=[], count=count)
    c = api.cell(session, "print:x", timeout=60)
    assert c["status"] == "ok" and isinstance(c["artifacts_total"], int) and c["artifacts_total"] >= 0, c


@pytest.mark.parametrize("value", ODD)
def test_usage_of_nonsense_is_not_billed(api, session, neighbour, value):
    say(api, session, "usage", cpu_ms=value, memory_bytes=value, peak_memory_bytes=value, disk_bytes=value)
    say(api, session, "changes", files=[], count=0, usage={"cpu_ms": value, "memory_bytes": value,
                                                           "peak_memory_bytes": value, "disk_bytes": value})
    api.cell(session, "print:x", timeout=60)
    c = api.cell(session, "print:y", timeout=60)
    assert c["status"] == "ok", c
    for k, v in c["usage"].items():
        assert isinstance(v, int) and v >= 0, (k, v)
    for k, v in (api.session(session).get("usage") or {}).items():
        assert not isinstance(v, (int, float)) or v >= 0, (k, v)


# --- more than there is room for ------------------------------------------------------------------------

def test_a_million_changed_files_cost_a_cell_its_list_and_nobody_memory(gateway, api, session, neighbour):
    one = {"path": "/home/user/f", "size": 3, "mtime_ns": 1, "change": "created", "mime": "text/plain", "sha256": None}
    with little_memory(gateway, session):
        say(api, session, "changes", files=[one] * 4000, count=1000000)
        c = api.cell(session, "print:x", timeout=60)
        assert c["status"] == "ok" and len(c["artifacts"]) <= 200, len(c["artifacts"])
    still_serves(api, session)


def test_a_file_that_never_ends_costs_nobody_memory(gateway, api, session, neighbour):
    say(api, session, "stat", stat={**STAT, "size": 1 << 40})
    say(api, session, "read", stat={**STAT, "size": 1 << 40}, eof=False, _payload=262144)
    with little_memory(gateway, session), contextlib.closing(api.connection(60)) as c:
        c.request("GET", api.file_path(session, "/home/user/a"), headers=api.headers())
        r, got = c.getresponse(), 0
        while got < 50 * MB and (piece := r.read(MB)):
            got += len(piece)
    still_serves(api, session)


@pytest.mark.parametrize("payload,eof", [(70000, False), (1 << 20, True), (0, False), (1, False)])
def test_pieces_of_a_file_of_another_length_than_asked_for_end_the_download(api, session, neighbour, payload, eof):
    say(api, session, "stat", stat={**STAT, "size": 100000})
    say(api, session, "read", stat={**STAT, "size": 100000}, eof=eof, _payload=payload)
    try:
        r = api.get_file(session, "/home/user/a", timeout=60)
        assert r.status in (200, 409, 502, 410) and (r.status != 200 or len(r.body) == 100000), (r.status, len(r.body))
    except (http.client.IncompleteRead, ConnectionError):
        pass  # what was promised did not come: the connection says so
    still_serves(api, session)


PUSHES = [{"ev": "out", "pid": 1, "stream": "stdout", "_payload": 60000}, {"ev": "exit", "pid": 1, "code": 0},
          {"ev": "exit", "pid": "1", "code": "0", "signal": -1}, {"ev": "x" * 1000}, {"ev": "kernel_died", "pid": -1},
          {"ev": "kernel_died", "signal": "9", "oom": "yes", "peak_memory_bytes": -1}, {"ev": "hello"}]


@pytest.mark.parametrize("push", PUSHES, ids=[str(p["ev"])[:12] + str(i) for i, p in enumerate(PUSHES)])
def test_a_thousand_pushes_that_nobody_waits_for_cost_nobody_memory(gateway, api, session, neighbour, push):
    with little_memory(gateway, session):
        c = api.cell(session, "agent:push:1200:%s\nprint:x" % json.dumps(push), timeout=60)
        assert c["status"] in ("ok", "vm_died", "kernel_died"), c
    still_serves(api, session)


COMMANDS = [{"pid": "x"}, {}, {"pid": 1 << 62}]


@pytest.mark.parametrize("answer", COMMANDS)
def test_a_command_whose_process_makes_no_sense_ends_in_time(api, session, neighbour, answer):
    say(api, session, "command", **answer)
    r = api.post("/v1/sessions/%s/commands" % session, {"argv": ["echo", "a"], "timeout_s": 1}, timeout=60)
    assert r.status in (200, 410, 502, 504), r
    still_serves(api, session)


def test_an_answer_that_is_no_json_is_as_good_as_none(api, session, neighbour):
    say(api, session, "stat", stat={**STAT, "etag": "\x00"})  # which our parser takes for no text
    r = api.request("HEAD", api.file_path(session, "/home/user/a"), timeout=90)
    assert r.status == 504, r
    still_serves(api, session)

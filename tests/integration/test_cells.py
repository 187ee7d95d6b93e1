"""Cells through the cell API: what they return, how they end, and what the next one then sees."""
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from harness.gateway import wait_for
from integration.conftest import Fake


def test_a_finished_cell_has_everything(api, session):
    c = api.cell(session, "print:hello\nerr:oops\npng\ntouch:chart.png:100\nthe result")
    assert c["status"] == "ok" and c["exit_code"] == 0 and c["error"] is None
    assert c["stdout"] == "hello\n" and c["stderr"] == "oops\n"
    assert c["result"]["text/plain"] == "the result"
    assert c["execution_count"] == 1
    assert c["displays"][0]["data"]["image/png"].startswith("iVBOR")
    assert [(a["path"], a["change"], a["size"]) for a in c["artifacts"]] == [("/home/user/chart.png", "created", 100)]
    assert c["artifacts"][0]["url"].endswith("/files/home/user/chart.png")
    assert c["seq"][0] < c["seq"][1]
    assert c["truncated"]["stdout_bytes"] == 0 and not any(c["truncated"].values())
    again = api.get("/v1/sessions/%s/cells/%s" % (session, c["id"])).json()
    assert again == c
    assert api.get(c["artifacts"][0]["url"]).body == b"f" * 100


def test_an_artifact_is_reported_once_per_change(api, session):
    assert len(api.cell(session, "touch:a.txt:1\ntouch:b.txt:1")["artifacts"]) == 2
    assert api.cell(session, "print:nothing")["artifacts"] == []
    c = api.cell(session, "touch:a.txt:5")
    assert [(a["name"], a["change"], a["size"]) for a in c["artifacts"]] == [("a.txt", "changed", 5)]


def touched(api, session):
    cell = api.cell(session, "".join("touch:%s:1\n" % f for f in ("a.txt", "run.d/x", "data/.cache/y", "v1/z")))
    return {a["path"][len("/home/user/"):] for a in cell["artifacts"]}


def test_a_session_says_which_folders_have_no_artifacts(api, start):
    sid = api.create(artifact_ignore=["*.d", ".cache"])
    assert touched(api, sid) == {"a.txt", "v1/z"}
    every = api.create(artifact_ignore=[], env={"A": "b"})
    assert touched(api, every) == {"a.txt", "run.d/x", "data/.cache/y", "v1/z"}
    own = start("--pool-size", "1", "--on-exit", "kill", "--artifact-ignore", "v?,*.d").client()
    assert touched(own, own.create()) == {"a.txt", "data/.cache/y"}
    assert touched(own, own.create(artifact_ignore=["data"])) == {"a.txt", "run.d/x", "v1/z"}
    for body in ({"artifact_ignore": "x"}, {"artifact_ignore": ["a/b"]}, {"artifact_ignore": ["x"] * 65}):
        r = api.post("/v1/sessions", body)
        assert r.status == 400 and "artifact_ignore" in r.json()["message"], r


def test_a_template_that_cannot_leave_out_folders_is_told_apart(start):
    old = start("--pool-size", "1", "--on-exit", "kill", over=Fake(faults=("no_watch",))).client()
    r = old.post("/v1/sessions", {"artifact_ignore": ["x"]})
    assert r.status == 409 and r.json()["reason"] == "template_not_built", r
    assert touched(old, old.create())


def test_ten_thousand_files_are_counted_and_two_hundred_listed(api, session):
    c = api.cell(session, "touch_many:10000")
    assert c["status"] == "ok" and len(c["artifacts"]) == 200
    assert c.get("artifacts_total", c.get("artifact_count")) == 10000, sorted(c)


def test_an_error_has_name_value_and_traceback(api, session):
    c = api.cell(session, "print:before\nerror:ZeroDivisionError:division by zero\nprint:after")
    assert c["status"] == "error" and c["exit_code"] == 1
    assert c["error"]["ename"] == "ZeroDivisionError" and c["error"]["evalue"] == "division by zero"
    assert c["error"]["traceback"] and c["stdout"] == "before\n"
    assert api.cell(session, "print:next")["stdout"] == "next\n"


def test_a_timeout_that_an_interrupt_ends_keeps_the_kernel(api, session):
    api.cell(session, "set:x:kept")
    begun = time.monotonic()
    c = api.cell(session, "print:begun\nsleep:60000", timeout_s=1)
    assert c["status"] == "timeout" and c["exit_code"] == 124 and c["stdout"] == "begun\n"
    assert time.monotonic() - begun < 10
    assert api.cell(session, "get:x")["stdout"] == "kept\n"


def test_a_kernel_that_ignores_messages_is_stopped_by_sigint(api, session):
    api.cell(session, "set:x:kept")
    c = api.cell(session, "hang:message", timeout_s=1)
    assert c["status"] == "timeout" and c["exit_code"] == 124
    assert api.cell(session, "get:x")["stdout"] == "kept\n"


def test_a_kernel_that_ignores_everything_is_killed_and_replaced(api, session):
    api.cell(session, "set:x:lost")
    begun = time.monotonic()
    c = api.cell(session, "print:begun\nhang", timeout_s=1, timeout=90)
    assert c["status"] == "timeout" and c["exit_code"] == 124 and c["stdout"] == "begun\n"
    assert time.monotonic() - begun < 60
    after = api.cell(session, "get:x")
    assert after["status"] == "error" and after["error"]["ename"] == "NameError"  # a fresh kernel


@pytest.mark.parametrize("code", ["exit:1", "exit:0", "signal:11", "signal:9"])
def test_a_dead_kernel_ends_its_cell_and_the_next_one_works(api, session, code):
    c = api.cell(session, "print:last words\n" + code)
    assert c["status"] == "kernel_died" and c["exit_code"] == 137, c
    assert ("signal " if "signal" in code else "code ") + code.split(":")[1] in c["detail"], c["detail"]
    assert c["stdout"] == "last words\n"
    after = api.cell(session, "print:alive")
    assert after["status"] == "ok" and after["stdout"] == "alive\n"


def test_out_of_memory_is_told_apart_and_has_its_peak(api, session):
    c = api.cell(session, "signal:9:oom")
    assert c["status"] == "oom" and c["exit_code"] == 137
    assert c["usage"]["peak_memory_bytes"] >= 123456789
    assert api.cell(session, "print:alive")["status"] == "ok"


def test_cells_behind_a_dead_kernel_are_not_lost(api, session):
    import threading
    results = {}
    threads = [threading.Thread(target=lambda i=i, c=c: results.__setitem__(i, api.cell(session, c)))
               for i, c in enumerate(["sleep:700\nexit:3", "print:second", "print:third"])]
    for t in threads:
        t.start()
        time.sleep(0.15)
    for t in threads:
        t.join(60)
    assert results[0]["status"] == "kernel_died"
    for i in (1, 2):  # run in the fresh kernel, or told to be cancelled: never without an end
        assert results[i]["status"] in ("ok", "cancelled", "kernel_died"), results[i]
    assert api.cell(session, "print:x")["status"] == "ok"


def test_an_interrupt_ends_the_running_cell(api, session):
    import threading
    out = {}
    t = threading.Thread(target=lambda: out.update(api.cell(session, "print:begun\nsleep:60000")))
    t.start()
    wait_for("busy", 10, lambda: api.session(session)["state"] == "busy")
    assert api.post("/v1/sessions/%s/interrupt" % session).status == 200
    t.join(20)
    assert out["status"] == "interrupted" and out["exit_code"] == 130, out
    assert api.cell(session, "print:x")["status"] == "ok"


def test_a_queued_cell_can_be_cancelled_and_a_running_one_too(api, session):
    first = api.events("POST", "/v1/sessions/%s/cells" % session, {"code": "sleep:60000"})
    one = next(e for e in first if e.kind == "queued").json()["cell"]
    second = api.events("POST", "/v1/sessions/%s/cells" % session, {"code": "print:never"})
    two = next(e for e in second if e.kind == "queued").json()["cell"]
    assert api.delete("/v1/sessions/%s/cells/%s" % (session, two)).status == 204
    assert api.delete("/v1/sessions/%s/cells/%s" % (session, one)).status == 204
    for stream in (second, first):
        done = [e for e in stream if e.kind == "done"][0].json()
        assert done["status"] == "cancelled" and done["stdout"] == ""


def test_the_queue_of_a_session_is_bounded(api, session):
    streams = []
    try:
        running = api.events("POST", "/v1/sessions/%s/cells" % session, {"code": "sleep:60000"})
        next(running)
        streams.append(running)
        refused = None
        for _ in range(70):
            s = api.events("POST", "/v1/sessions/%s/cells" % session, {"code": "print:x"})
            try:
                next(s)
            except AssertionError as e:
                refused = str(e)
                break
            streams.append(s)
        assert refused and "429" in refused and "queue_full" in refused, refused
        assert len(streams) >= 60
    finally:
        for s in streams:
            s.close()
        api.post("/v1/sessions/%s/restart" % session, timeout=90)


def test_stdin_is_answered_from_the_request(api, session):
    c = api.cell(session, "input:name? \ninput:pw:password", stdin="Ada\nsecret\n")
    assert c["status"] == "ok" and c["stdout"] == "got Ada\ngot secret\n"


def test_stdin_can_be_answered_while_the_cell_waits(api, session):
    cell = None
    for e in api.events("POST", "/v1/sessions/%s/cells" % session, {"code": "input:name? ", "stdin": True}):
        if e.kind == "queued":
            cell = e.json()["cell"]
        if e.kind == "input":
            assert e.json()["prompt"] == "name? "
            r = api.post("/v1/sessions/%s/cells/%s/stdin" % (session, cell), {"value": "Bob"})
            assert r.status in (200, 204), r
        if e.kind == "done":
            assert e.json()["stdout"] == "got Bob\n"
            break


@pytest.mark.parametrize("word", ["noreply", "noidle", "mute"])
def test_a_kernel_that_cannot_be_heard_is_replaced_and_its_cell_is_not_called_ok(api, session, word):
    api.cell(session, "set:x:lost")
    c = api.cell(session, "print:x\n" + word, timeout=90)
    assert c["status"] == "kernel_died" and c["exit_code"] == 137 and c["stdout"] == "x\n", c
    assert "heard" in c["detail"] and "fresh kernel" in c["detail"]
    after = api.cell(session, "get:x", timeout=60)
    assert after["status"] == "error" and after["error"]["ename"] == "NameError"  # by itself, without a restart


def test_a_kernel_that_falls_silent_between_two_cells_is_replaced_too(api, session):
    api.cell(session, "mute:300")
    time.sleep(0.6)
    c = api.cell(session, "sleep:60000", timeout=90)  # not even its start is heard, so no time-out would count
    assert c["status"] == "kernel_died" and "heard" in c["detail"], c
    assert api.cell(session, "print:next", timeout=60)["stdout"] == "next\n"


def test_a_timeout_of_a_kernel_that_cannot_be_heard_is_a_timeout(api, session):
    api.cell(session, "mute:300")
    time.sleep(0.6)
    c = api.cell(session, "sleep:60000", timeout_s=1, timeout=90)
    assert c["status"] == "timeout" and c["exit_code"] == 124, c
    assert api.cell(session, "print:next", timeout=60)["stdout"] == "next\n"


def test_a_kernel_that_the_other_door_silenced_is_replaced(gateway, api, session):
    from harness.gateway import TOKEN
    from harness.jupyter import Socket, reply
    sock = Socket(gateway, session, TOKEN)
    mid = sock.send("execute_request", {"code": "mute", "silent": False})
    seen = []
    while not (seen and seen[-1]["msg_type"] == "status" and seen[-1]["parent_header"].get("msg_id") == mid
               and seen[-1]["content"]["execution_state"] == "idle"):
        seen.append(sock.recv(60))  # what the dead kernel cannot say is said for it
    assert any(m["msg_type"] == "error" and m["content"]["ename"] == "KernelDied" for m in seen)
    assert api.cell(session, "print:next", timeout=60)["stdout"] == "next\n"
    sock.close()


def test_sse_tells_the_events_of_a_cell_in_order(api, session):
    events = list(api.events("POST", "/v1/sessions/%s/cells" % session, {"code": "count:5:20\nthe end"}))
    kinds = [e.kind for e in events]
    assert kinds[0] == "queued" and kinds[-1] == "done" and "result" in kinds
    ids = [e.id for e in events if e.id is not None]
    assert ids == sorted(ids)
    text = "".join(e.json()["content"]["text"] for e in events if e.kind == "stream")
    assert text == "0\n1\n2\n3\n4\n" == events[-1].json()["stdout"]


def test_the_environment_of_a_session_reaches_its_kernel_and_survives_a_restart(api):
    sid = api.create(env={"GREETING": "hello"})
    assert api.cell(sid, "env:GREETING")["stdout"] == "hello\n"
    assert api.post("/v1/sessions/%s/restart" % sid, timeout=90).status == 200
    assert api.cell(sid, "env:GREETING")["stdout"] == "hello\n"
    api.delete("/v1/sessions/" + sid)


def test_the_kernel_key_is_never_the_templates(api, session):
    assert api.cell(session, "key")["stdout"] == "personalised\n"
    assert api.cell(session, "exit:1")["status"] == "kernel_died"
    assert api.cell(session, "key")["stdout"] == "personalised\n"


def test_files_go_in_and_out(api, session):
    api.put_file(session, "/home/user/in put.csv", b"a,b\n1,2\n")
    r = api.get_file(session, "/home/user/in put.csv")
    assert r.status == 200 and r.body == b"a,b\n1,2\n" and r.headers["ETag"]
    part = api.get_file(session, "/home/user/in put.csv", headers={"Range": "bytes=2-4"})
    assert part.status == 206 and part.body == b"b\n1" and part.headers["Content-Range"] == "bytes 2-4/8"
    same = api.get_file(session, "/home/user/in put.csv", headers={"If-None-Match": r.headers["ETag"]})
    assert same.status == 304 and same.body == b""
    listing = api.get_file(session, "/home/user").json()
    assert any(e["name"] == "in put.csv" for e in listing["entries"])
    assert api.delete(api.file_path(session, "/home/user/in put.csv")).status == 204
    assert api.get_file(session, "/home/user/in put.csv").status == 404


def test_a_large_file_goes_in_and_out_unchanged(api, session):
    import os
    data = os.urandom(5_000_001)
    api.put_file(session, "/home/user/big.bin", data)
    assert api.get_file(session, "/home/user/big.bin").body == data


def test_an_upload_that_breaks_leaves_no_file(gateway, api, session):
    import socket
    s = socket.create_connection(("127.0.0.1", gateway.port), 10)
    s.sendall(("PUT %s HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\nContent-Length: 1000000\r\n\r\n"
               % (api.file_path(session, "/home/user/half.bin"), api.token)).encode() + b"x" * 500000)
    time.sleep(0.3)
    s.close()
    time.sleep(0.3)
    assert api.get_file(session, "/home/user/half.bin").status == 404
    names = [e["name"] for e in api.get_file(session, "/home/user").json()["entries"]]
    assert names == [], names


def test_a_part_never_replaces_a_whole_file(api, session):
    api.put_file(session, "/home/user/whole.bin", b"0123456789")
    r = api.request("PUT", api.file_path(session, "/home/user/whole.bin"), b"zz", headers={"Content-Range": "bytes 0-1/10"})
    assert r.status == 400 and "whole file" in r.json()["message"], r
    assert api.get_file(session, "/home/user/whole.bin").body == b"0123456789"


def test_commands_run_beside_the_kernel(api, session):
    r = api.post("/v1/sessions/%s/commands" % session, {"cmd": "echo hello"}).json()
    assert r["exit_code"] == 0 and r["stdout"] == "hello\n"
    r = api.post("/v1/sessions/%s/commands" % session, {"argv": ["cat"], "stdin": "in"}).json()
    assert r["stdout"] == "in"
    assert api.post("/v1/sessions/%s/commands" % session, {"cmd": "exit 3"}).json()["exit_code"] == 3
    r = api.post("/v1/sessions/%s/commands" % session, {"cmd": "sleep 60", "timeout_s": 1}).json()
    assert r["exit_code"] == 124 and r["timed_out"]


def test_a_client_that_leaves_does_not_end_its_cell(api, session):
    stream = api.events("POST", "/v1/sessions/%s/cells" % session, {"code": "print:one\nsleep:800\nprint:two"})
    cell = next(e for e in stream if e.kind == "queued").json()["cell"]
    next(e for e in stream if e.kind == "stream")
    stream.close()
    done = wait_for("the cell's end", 10, lambda: (c := api.get("/v1/sessions/%s/cells/%s" % (session, cell)).json())
                    ["status"] not in ("queued", "running") and c)
    assert done["status"] == "ok" and done["stdout"] == "one\ntwo\n"


def in_background(api, session, code, **fields):
    """Posts a cell; the function that comes back waits for its end."""
    import threading
    out = {}
    t = threading.Thread(target=lambda: out.update(api.cell(session, code, **fields)))
    t.start()

    def end(seconds=60):
        t.join(seconds)
        return out
    return end


def begun(api, session, end, mark="begun"):
    """The cell has printed its mark, so the kernel is in the middle of it."""
    for e in api.events("GET", "/v1/sessions/%s/events?from=0" % session):
        if e.kind == "stream" and mark in e.json()["content"]["text"]:
            return end


@pytest.mark.parametrize("how", ["late after a time-out", "killed after a time-out", "late idle of the other door",
                                 "cancelled", "died", "restarted"])
def test_a_cell_that_waits_begins_when_the_kernel_rests_however_that_comes(gateway, api, session, how):
    from harness.gateway import TOKEN
    from harness.jupyter import Socket
    sock = Socket(gateway, session, TOKEN)
    first = None
    if how == "late idle of the other door":
        sock.send("execute_request", {"code": "print:begun\nlateidle:1500", "silent": False})
        begun(api, session, None)
    else:
        code, fields = {"late after a time-out": ("deaf:3500", {"timeout_s": 1}),
                        "killed after a time-out": ("hang", {"timeout_s": 1, "timeout": 90}),
                        "died": ("sleep:500\nexit:3", {})}.get(how, ("sleep:60000", {}))
        first = begun(api, session, in_background(api, session, "print:begun\n" + code, **fields))
        if how == "restarted":
            assert api.post("/v1/sessions/%s/restart" % session, timeout=90).status == 200
    second = in_background(api, session, "print:next")
    if how == "cancelled":
        for e in api.events("GET", "/v1/sessions/%s/events?from=0" % session):
            if e.kind == "start":
                cell = e.json()["cell"]
                break
        assert api.delete("/v1/sessions/%s/cells/%s" % (session, cell)).status == 204
    assert second().get("stdout") == "next\n", "the cell that waited never ran"
    want = {"late after a time-out": "timeout", "killed after a time-out": "timeout", "cancelled": "cancelled",
            "died": "kernel_died", "restarted": "interrupted"}
    if first:
        assert first()["status"] == want[how]
    sock.close()


# --- races: what the kernel says is on its way while something is asked of it ---------------------------

def when_busy(api, session, code, **fields):
    """Posts a cell and comes back as soon as the session is busy: the kernel may or may not have begun."""
    end = in_background(api, session, code, **fields)
    wait_for("busy", 10, lambda: api.session(session)["state"] == "busy")
    return end


def cell_id(api, session):
    """Of the newest cell that the kernel began."""
    found = None
    for e in api.events("GET", "/v1/sessions/%s/events?from=0" % session, timeout=2):
        if e.kind == "start":
            found = e.json()["cell"]
        if found and e.kind == "stream":
            return found


@pytest.mark.parametrize("race", ["lag:400", "slowstart:400", "lag:100", "slowstart:100", "print:no race"])
def test_an_interrupt_is_called_an_interrupt_whenever_it_comes(api, session, race):
    api.cell(session, race)
    for _ in range(3):
        end = when_busy(api, session, "print:begun\nsleep:60000")
        assert api.post("/v1/sessions/%s/interrupt" % session).status == 200
        out = end(30)
        assert out.get("status") == "interrupted" and out["exit_code"] == 130 and out["ended_by"] == "interrupt", out
        assert api.cell(session, "print:x")["status"] == "ok"  # it was not meant for this one


def test_interrupts_sent_together_leave_the_next_cell_alone(api, session):
    api.cell(session, "late:150")
    end = when_busy(api, session, "print:begun\nsleep:60000")
    after = in_background(api, session, "sleep:1500\nprint:after")
    with ThreadPoolExecutor(5) as pool:
        assert set(pool.map(lambda _: api.post("/v1/sessions/%s/interrupt" % session).status, range(5))) == {200}
    assert end(30)["status"] == "interrupted"
    c = after(30)
    assert c["status"] == "ok" and c["stdout"] == "after\n", c


@pytest.mark.parametrize("race", ["lag:400", "slowstart:400", "print:no race"])
def test_a_cancel_is_called_a_cancel_whenever_it_comes(api, session, race):
    api.cell(session, race)
    stream = api.events("POST", "/v1/sessions/%s/cells" % session, {"code": "sleep:60000"})
    cell = next(e for e in stream if e.kind == "queued").json()["cell"]
    assert api.delete("/v1/sessions/%s/cells/%s" % (session, cell)).status == 204
    done = [e for e in stream if e.kind == "done"][0].json()
    assert done["status"] == "cancelled" and done["exit_code"] == 130, done
    assert api.cell(session, "print:x")["status"] == "ok"


@pytest.mark.parametrize("what", ["cancel", "interrupt", "timeout", "restart"])
def test_what_comes_after_the_code_has_ended_does_not_change_how_it_ended(api, session, what):
    stream = api.events("POST", "/v1/sessions/%s/cells" % session,
                        {"code": "print:begun\nlateidle:3000", **({"timeout_s": 2} if what == "timeout" else {})})
    cell = next(e for e in stream if e.kind == "queued").json()["cell"]
    next(e for e in stream if e.kind == "stream")
    time.sleep(0.5)  # its reply has come, its idle has not
    if what == "cancel":
        assert api.delete("/v1/sessions/%s/cells/%s" % (session, cell)).status == 204
    elif what != "timeout":
        assert api.post("/v1/sessions/%s/%s" % (session, what), timeout=90).status == 200
    done = [e for e in stream if e.kind == "done"][0].json()
    assert done["status"] == "ok" and done["exit_code"] == 0, done
    assert api.cell(session, "print:x")["status"] == "ok"


@pytest.mark.parametrize("race", ["lag:300", "slowstart:300", "print:no race"])
def test_a_cell_whose_kernel_dies_before_a_sign_of_it_runs_once(api, session, race):
    api.cell(session, race)
    c = api.cell(session, "touch:once.txt:1\nexit:3", timeout=60)
    assert c["status"] == "kernel_died" and c["exit_code"] == 137 and "code 3" in c["detail"], c
    assert api.cell(session, "print:x")["status"] == "ok"
    starts = [e for e in api.get("/v1/sessions/%s/cells/%s" % (session, c["id"])).json()["artifacts"]]
    assert [a["change"] for a in starts] == ["created"], starts


def test_a_cell_that_a_leaving_kernel_did_not_begin_runs_on_the_next_one(api, session):
    pid = api.cell(session, "pid")["stdout"]
    assert api.cell(session, "leave")["status"] == "ok"
    c = api.cell(session, "touch:once.txt:1\npid", timeout=60)
    assert c["status"] == "ok" and c["stdout"] != pid, c
    assert [a["change"] for a in c["artifacts"]] == ["created"], c
    assert api.cell(session, "print:x")["status"] == "ok"


def test_only_the_exit_code_of_leaving_gives_a_cell_to_another_kernel(api, session):
    assert api.cell(session, "leave:0")["status"] == "ok"
    c = api.cell(session, "print:x", timeout=60)
    assert c["status"] == "kernel_died" and "code 0" in c["detail"], c
    c = api.cell(session, "print:begun\nexit:79", timeout=60)
    assert c["status"] == "kernel_died" and c["stdout"] == "begun\n", c


@pytest.mark.parametrize("race", ["lag:300", "print:no race"])
def test_a_restart_answers_with_the_session_as_it_is_afterwards(api, session, race):
    api.cell(session, race)
    for _ in range(3):
        end = when_busy(api, session, "sleep:60000")
        r = api.post("/v1/sessions/%s/restart" % session, timeout=90)
        assert r.status == 200 and r.json()["state"] == "idle", r
        out = end(30)
        assert out["status"] in ("interrupted", "cancelled") and out["exit_code"] == 130, out
        assert out["ended_by"] == "restart"


# --- what became of it ----------------------------------------------------------------------------------

def state_reasons(api, session):
    found = []
    for e in api.events("GET", "/v1/sessions/%s/events?from=0" % session, timeout=2):
        if e.kind == "state":
            found.append(e.json().get("reason") or "")
            if "kill" in found[-1]:
                break
    return found


def test_a_kill_after_the_report_is_told_by_the_cell_and_by_the_state(api, session):
    c = api.cell(session, "hang", timeout_s=1, timeout=60)
    assert c["status"] == "timeout" and c["ended_by"] == "sigint" and "not come to rest yet" in c["detail"], c
    assert api.cell(session, "print:next", timeout=60)["status"] == "ok"
    again = api.get("/v1/sessions/%s/cells/%s" % (session, c["id"])).json()
    assert again["ended_by"] == "sigkill" and "killed" in again["detail"] and "lost" in again["detail"], again
    assert {k: v for k, v in again.items() if k not in ("ended_by", "detail")} == \
        {k: v for k, v in c.items() if k not in ("ended_by", "detail")}
    assert any("timed out" in r and "killed" in r for r in state_reasons(api, session))


def test_a_kernel_that_rests_after_the_report_is_told_too(api, session):
    api.cell(session, "set:x:kept")
    c = api.cell(session, "deaf:3000", timeout_s=1, timeout=60)
    assert c["status"] == "timeout" and "not come to rest yet" in c["detail"], c
    assert api.cell(session, "get:x", timeout=60)["stdout"] == "kept\n"
    again = api.get("/v1/sessions/%s/cells/%s" % (session, c["id"])).json()
    assert again["ended_by"] == "sigint" and "late" in again["detail"] and "kept" in again["detail"], again


def test_a_timeout_is_reported_in_time_however_slow_the_agent_is(api, session):
    api.cell(session, "agent:slow:6000")
    begun_at = time.monotonic()
    c = api.cell(session, "touch:late.txt:3\ndeaf:3000", timeout_s=1, timeout=60)
    took = time.monotonic() - begun_at
    assert c["status"] == "timeout" and took < 6, (took, c)
    for e in api.events("GET", "/v1/sessions/%s/events?from=%d" % (session, c["seq"][1])):
        if e.kind == "artifact":
            assert e.json()["artifact"]["name"] == "late.txt" and e.json()["cell"] == c["id"]
            break


def test_an_error_that_is_only_shown_does_not_decide(api, session):
    c = api.cell(session, "forge:error\nprint:after")
    assert c["status"] == "ok" and c["exit_code"] == 0 and c["error"] is None and c["stdout"] == "after\n", c
    c = api.cell(session, "forge:shown\nprint:after")
    assert c["status"] == "ok" and c["error"] is None and c["stderr"] == "Traceback:\nValueError: shown\n", c
    c = api.cell(session, "forge:shown\nerror:TypeError:real")
    assert c["status"] == "error" and c["error"]["ename"] == "TypeError" and "ValueError: shown" in c["stderr"], c


def test_a_display_that_is_nested_too_deeply_is_cut_and_counted(api, session):
    c = api.cell(session, "forge:deep\nprint:y", timeout=60)
    assert c["status"] == "ok" and c["stdout"] == "y\n", c["status"]
    assert c["truncated"]["displays"] == 1 and c["truncated"]["display_bytes"] > 300, c["truncated"]
    data = c["displays"][0]["data"]
    assert data["text/plain"] == "shallow" and "nested too deeply" in str(data["application/json"]), data


def test_a_display_over_the_cap_is_counted(api, session):
    c = api.cell(session, "print:x\nforge:oversize\nprint:y", timeout=120)
    assert c["status"] == "ok" and c["stdout"] == "x\ny\n", c["status"]
    assert c["truncated"]["displays"] == 1 and c["truncated"]["display_bytes"] > 108 << 20, c["truncated"]
    assert "was dropped" in c["stderr"]


def test_a_cell_as_a_model_wants_it(api, session):
    output = {"strip_ansi": True, "max_text_bytes": 1000, "mime_types": ["image/*"]}
    code = "print:\x1b[31mred\x1b[0m\nflood:100:100\npng\nthe result"
    c = api.cell(session, code, output=output)
    assert c["stdout"].startswith("red\nxxx") and "bytes left out …]" in c["stdout"] and len(c["stdout"]) < 1100
    assert c["truncated"]["stdout_bytes"] == 4 + 10000 - 1000
    assert set(c["displays"][0]["data"]) == {"image/png"} and c["result"] == {"text/plain": "the result"}
    whole = api.get("/v1/sessions/%s/cells/%s" % (session, c["id"])).json()
    assert len(whole["stdout"]) == 10000 + len("\x1b[31mred\x1b[0m\n") and len(whole["displays"][0]["data"]) == 2
    done = list(api.events("POST", "/v1/sessions/%s/cells" % session, {"code": code, "output": output}))[-1]
    assert done.kind == "done" and done.json()["stdout"] == c["stdout"]
    r = api.post("/v1/sessions/%s/cells" % session, {"code": "1", "output": {"max_text": 5}})
    assert r.status == 400 and "max_text" in r.json()["message"] and "max_text_bytes" in r.json()["message"]


def test_large_pictures_are_shrunk_on_request(api, session):
    def cell(code, **fields):
        c = api.cell(session, code, **fields)
        return c, [png_size(d["data"]["image/png"]) for d in c["displays"]]

    code = "bigpng:4000:3000\nbigpng:1000:800\nbigpng:500:2000"
    c, sizes = cell(code, output={"max_image_edge": 1000})
    assert sizes == [(1000, 750), (1000, 800), (250, 1000)]
    assert c["images"] == [{"type": "image/png", "display": 0, "from": [4000, 3000], "to": [1000, 750]},
                           {"type": "image/png", "display": 2, "from": [500, 2000], "to": [250, 1000]}]
    whole = api.get("/v1/sessions/%s/cells/%s" % (session, c["id"])).json()
    assert png_size(whole["displays"][0]["data"]["image/png"]) == (4000, 3000) and "images" not in whole
    c, sizes = cell(code, output={"max_image_edge": 5000})
    assert sizes == [(4000, 3000), (1000, 800), (500, 2000)] and "images" not in c
    c = api.cell(session, "bigpng:4000:3000", output={"max_image_edge": 1000, "mime_types": ["text/plain"]})
    assert "images" not in c and c["displays"][0]["data"] == {"text/plain": "<Figure>"}
    names = [e["name"] for e in api.get_file(session, "/var/tmp").json()["entries"]]
    assert names == [], "temporary files stay: %s" % names


def test_pictures_that_cannot_be_shrunk_stay_whole_and_are_named(api):
    for lie in ("fails", "short", "other", "larger", "flood"):
        sid = api.create()
        c = api.cell(sid, "agent:shrink:%s\nbigpng:4000:3000" % lie, output={"max_image_edge": 1000})
        assert c["status"] == "ok" and png_size(c["displays"][0]["data"]["image/png"]) == (4000, 3000), lie
        assert [(i["to"], bool(i["message"])) for i in c["images"]] == [(None, True)], (lie, c["images"])
        api.delete("/v1/sessions/" + sid)


def test_a_client_that_leaves_while_pictures_are_shrunk_does_no_harm(api, session):
    code = {"code": "agent:shrink:hang\nbigpng:4000:3000", "output": {"max_image_edge": 1000}}
    stream = api.events("POST", "/v1/sessions/%s/cells" % session, code)
    next(e for e in stream if e.kind == "display")
    wait_for("the cell's end", 20, lambda: api.session(session)["state"] == "idle")
    stream.close()
    assert api.cell(session, "print:x")["stdout"] == "x\n"


def test_a_file_that_was_shown_inline_says_so(api, session):
    c = api.cell(session, "png\nprint:x\npngfile:chart.png\ntouch:other.txt:5")
    marks = {a["name"]: a.get("display") for a in c["artifacts"]}
    assert marks == {"chart.png": 0, "other.txt": None}, c["artifacts"]
    assert api.cell(session, "pngfile:again.png")["artifacts"][0].get("display") is None


def png_size(base64_text):
    import base64
    import struct
    return struct.unpack(">II", base64.b64decode(base64_text)[16:24])


def test_a_fresh_kernel_that_does_not_answer_is_tried_again_and_the_session_lives(start):
    gw = start("--pool-size", "0", "--kernel-start-s", "2", "--on-exit", "kill")
    api = gw.client()
    sid = api.create()
    assert api.put_file(sid, "/home/user/kept.txt", b"kept").status == 201
    assert api.cell(sid, "slownext:20000:2\nexit:3")["status"] == "kernel_died"
    c = api.cell(sid, "print:again")
    assert c["status"] == "ok", c
    assert api.get_file(sid, "/home/user/kept.txt").body == b"kept"


def test_a_session_whose_kernels_never_answer_ends_and_says_so(start):
    gw = start("--pool-size", "0", "--kernel-start-s", "1", "--on-exit", "kill")
    api = gw.client()
    sid = api.create()
    assert api.cell(sid, "slownext:60000:9\nexit:3")["status"] == "kernel_died"
    c = api.cell(sid, "print:again")
    assert c["status"] == "vm_died" and "fresh kernel did not start" in c["detail"], c

"""Pause, resume, checkpoint, rollback and fork through both doors, over machines that remember what
they knew (fake_qemu.py). That real memory, kernels and disks come back is tests/vm's."""
import json
import os
import threading
import time

import pytest

from harness import procs
from harness.gateway import TOKEN, wait_for
from harness.jupyter import Socket, reply, stdout
from harness.life import done, folder, pause, reason, state, verb


def in_background(work):
    out = []
    t = threading.Thread(target=lambda: out.append(work()))
    t.start()

    def end(seconds=60):
        t.join(seconds)
        assert out, "it has not ended, or failed"
        return out[0]
    return end


# --- pause and resume ------------------------------------------------------------------------------


def test_a_paused_session_has_no_process_and_wakes_up_for_a_cell(gateway, api, session):
    api.cell(session, "set:x:7")
    bridge = gateway.bridge_pid(session)
    mine = {p: procs.start_of(p) for p in procs.descendants({bridge})}
    paused = pause(api, session)
    assert paused["usage"]["memory_bytes"] > 0
    assert procs.wait_gone(mine, 5) == {}
    assert api.session(session)["usage"] == paused["usage"], "of a paused session the last known"
    assert session in [s["id"] for s in api.get("/v1/sessions?state=paused").json()]
    assert api.cell(session, "get:x")["stdout"] == "7\n"
    assert state(api, session) == "idle"


def test_pausing_and_resuming_twice_is_fine(api, session):
    assert done(api, session, "resume")["state"] == "idle"
    pause(api, session)
    pause(api, session)
    assert done(api, session, "resume")["state"] == "idle"
    assert done(api, session, "resume")["state"] == "idle"


def test_looking_does_not_resume(api, session):
    pause(api, session)
    assert api.get("/api/kernels/" + session).json()["execution_state"] == "idle"
    assert session in [k["id"] for k in api.get("/api/kernels").json()]
    assert state(api, session) == "paused"
    assert api.request("PATCH", "/v1/sessions/" + session, {"name": "renamed"}).json()["state"] == "paused"
    assert api.get("/v1/sessions/%s/checkpoints" % session).json() == []
    assert state(api, session) == "paused"


@pytest.mark.parametrize("reach", ["put", "get", "delete", "command", "cell", "interrupt", "restart", "kernel_restart"])
def test_every_request_resumes(api, session, reach):
    api.put_file(session, "/home/user/a.txt", b"abc")
    finished = api.cell(session, "print:1")
    pause(api, session)
    if reach == "put":
        assert api.put_file(session, "/home/user/b.txt", b"b" * 100000).status == 201
    elif reach == "get":
        assert api.get_file(session, "/home/user/a.txt").body == b"abc"
    elif reach == "delete":
        assert api.delete(api.file_path(session, "/home/user/a.txt")).status == 204
    elif reach == "command":
        assert verb(api, session, "commands", {"cmd": "echo hi"}).json()["stdout"] == "hi\n"
    elif reach == "cell":
        assert api.get("/v1/sessions/%s/cells/%s" % (session, finished["id"])).json() == finished
    elif reach == "kernel_restart":
        assert api.post("/api/kernels/%s/restart" % session).status == 200
    else:
        assert verb(api, session, reach).status == 200
    assert state(api, session) in ("idle", "starting")


def test_one_resume_for_all_who_wait(gateway, api, session):
    pause(api, session)
    ends = [in_background(lambda: api.cell(session, "print:a")["stdout"]) for _ in range(8)]
    assert [end() for end in ends] == ["a\n"] * 8
    log = [line for line in gateway.stderr().splitlines() if "op=resume id=" + session in line]
    assert len(log) == 1


def test_what_is_under_way_is_not_paused(api, session):
    end = in_background(lambda: api.cell(session, "print:begun\nsleep:3000\nprint:end"))
    wait_for("the cell runs", 10, lambda: state(api, session) == "busy")
    r = verb(api, session, "pause")
    assert r.status == 409 and reason(r) == "session_busy", r
    assert end()["stdout"] == "begun\nend\n"
    slow = in_background(lambda: verb(api, session, "commands", {"cmd": "sleep 2"}).json())
    time.sleep(0.5)
    assert reason(verb(api, session, "pause")) == "session_busy"
    assert slow()["exit_code"] == 0
    pause(api, session)


def test_bodies_of_verbs_are_checked(api, session):
    for what in ("pause", "resume"):
        r = verb(api, session, what, {"now": True})
        assert r.status == 400 and "now" in r.json()["message"]
    assert verb(api, "00000000-0000-4000-8000-000000000000", "pause").status == 404


# --- what stays open -------------------------------------------------------------------------------


@pytest.mark.parametrize("named", [True, False])
@pytest.mark.parametrize("v1", [True, False])
def test_a_jupyter_socket_stays_open_and_its_next_message_resumes(gateway, api, session, named, v1):
    sock = Socket(gateway, session, TOKEN, v1=v1, query=named)
    assert stdout(sock.execute("set:y:2\nprint:one")) == "one\n"
    for i in range(2):
        pause(api, session)
        got = sock.execute("print:%d\nget:y" % i)
        assert stdout(got) == "%d\n2\n" % i and reply(got)["status"] == "ok"
    ids = [m["header"]["msg_id"] for m in got]
    assert len(ids) == len(set(ids))
    sock.close()


def test_a_sleeping_socket_hears_what_others_do(gateway, api, session):
    sock = Socket(gateway, session, TOKEN)
    sock.execute("print:mine")
    pause(api, session)
    assert api.cell(session, "print:theirs")["stdout"] == "theirs\n"
    seen = []
    while not any(m["msg_type"] == "stream" for m in seen):
        seen.append(sock.recv(20))
    assert stdout(seen) == "theirs\n", "nothing is repeated, nothing is lost"
    sock.close()


def test_a_message_sent_while_it_is_being_paused(gateway, api, session):
    sock = Socket(gateway, session, TOKEN)
    sock.execute("print:x")
    for _ in range(5):
        end = in_background(lambda: verb(api, session, "pause"))
        mid = sock.send("execute_request", {"code": "print:now", "silent": False})
        assert stdout(sock.until_done(mid)) == "now\n"
        assert end().status in (200, 409)
    sock.close()


def test_a_client_that_left_while_it_slept_comes_back_without_repetition(gateway, api, session):
    sock = Socket(gateway, session, TOKEN)
    sock.execute("print:first")
    time.sleep(0.3)  # what it has is acknowledged within milliseconds
    pause(api, session)
    sock.close()
    again = Socket(gateway, session, TOKEN, session=sock.session)
    got = again.execute("print:second")
    assert stdout(got) == "second\n"
    again.close()


def follow(api, session, query="", **kw):
    got = []

    def read():
        for e in api.events("GET", "/v1/sessions/%s/events%s" % (session, query), **kw):
            got.append(e)

    threading.Thread(target=read, daemon=True).start()
    return got


def test_an_event_stream_sleeps_and_goes_on(api, session):
    got = follow(api, session)
    assert api.cell(session, "print:one")["stdout"] == "one\n"
    for word in ("two", "three"):
        pause(api, session)
        assert api.cell(session, "print:" + word)["status"] == "ok"
    wait_for("the last cell on the stream", 20, lambda: sum(e.kind == "done" for e in got) >= 3)
    numbers = [int(e.id) for e in got if e.id]
    assert numbers == sorted(set(numbers))
    assert [json.loads(e.data)["content"]["text"] for e in got if e.kind == "stream"] == ["one\n", "two\n", "three\n"]


def test_a_stream_that_comes_back_reads_what_was_before_the_pause(api, session):
    api.cell(session, "print:before")
    pause(api, session)
    got = follow(api, session, "?from=0")
    wait_for("the old output", 20, lambda: any('"before' in e.data for e in got))


def test_the_cell_websocket_stays_open(gateway, api, session):
    import websocket
    ws = websocket.create_connection("ws://127.0.0.1:%d/v1/sessions/%s/stream?from=now&token=%s"
                                     % (gateway.port, session, TOKEN), timeout=30)
    pause(api, session)
    ws.send(json.dumps({"type": "execute", "ref": "r", "code": "print:woken"}))
    seen = []
    while not seen or seen[-1]["type"] != "done":
        seen.append(json.loads(ws.recv()))
    assert any(m["type"] == "accepted" and m["ref"] == "r" for m in seen)
    assert seen[-1]["finished"]["stdout"] == "woken\n"
    ws.close()


def test_deleting_a_paused_session_ends_its_sockets(gateway, api):
    sid = api.create()
    sock = Socket(gateway, sid, TOKEN)
    sock.execute("print:x")
    pause(api, sid)
    assert api.delete("/v1/sessions/" + sid).status == 204
    with pytest.raises(Exception):
        while True:
            m = sock.recv(10)
            assert m["msg_type"] == "status" and m["content"]["execution_state"] == "dead"
    assert not os.path.exists(folder(gateway, sid))
    assert api.get("/v1/sessions/" + sid).status == 404


# --- checkpoints and rollback ------------------------------------------------------------------------


def test_a_rollback_brings_variables_and_files_back(api, session):
    api.cell(session, "set:x:old\ntouch:a.txt:5")
    c = done(api, session, "checkpoints", {"name": "before"}, 201)
    assert c["name"] == "before" and c["bytes"] > 0
    api.cell(session, "set:x:new\ntouch:b.txt:5")
    assert done(api, session, "rollback", {"checkpoint": "before"})["id"] == session
    assert api.cell(session, "get:x")["stdout"] == "old\n"
    assert api.get_file(session, "/home/user/b.txt").status == 404
    api.cell(session, "set:x:newer")
    done(api, session, "rollback", {"checkpoint": c["id"]})
    assert api.cell(session, "get:x")["stdout"] == "old\n"


def test_checkpoints_are_listed_and_deleted(gateway, api, session):
    names = [done(api, session, "checkpoints", {"name": n} if n else {}, 201)["name"] for n in ("a", None, "c d é")]
    listed = api.get("/v1/sessions/%s/checkpoints" % session).json()
    assert [c["name"] for c in listed] == names and names[1].startswith("checkpoint-")
    one = api.get("/v1/sessions/%s/checkpoints/%s" % (session, listed[0]["id"]))
    assert one.json() == listed[0] == api.get("/v1/sessions/%s/checkpoints/a" % session).json()
    for c in listed:
        assert api.delete("/v1/sessions/%s/checkpoints/%s" % (session, c["id"])).status == 204
    assert api.get("/v1/sessions/%s/checkpoints/a" % session).status == 404
    assert reason(api.delete("/v1/sessions/%s/checkpoints/a" % session)) == "no_such_checkpoint"
    assert reason(verb(api, session, "rollback", {"checkpoint": "a"})) == "no_such_checkpoint"
    layers = folder(gateway, session, "layers")
    wait_for("no memory of deleted checkpoints is kept", 10,
             lambda: not any("ram" in os.listdir(os.path.join(layers, d)) for d in os.listdir(layers)))
    assert api.cell(session, "print:lives")["stdout"] == "lives\n"


@pytest.mark.parametrize("name", ["a/b", "../up", "", "x" * 129, "tab\there", "00000000-0000-4000-8000-000000000000", 7, ["a"],
                                  "x" * (1 << 20)])
def test_names_of_checkpoints_are_checked(api, session, name):
    r = verb(api, session, "checkpoints", {"name": name})
    assert r.status in (400, 413) and reason(r) in ("bad_field", "body_too_large"), r
    assert api.get("/v1/sessions/%s/checkpoints" % session).json() == []


def test_a_name_is_taken_once(api, session):
    done(api, session, "checkpoints", {"name": "n"}, 201)
    r = verb(api, session, "checkpoints", {"name": "n"})
    assert r.status == 409 and reason(r) == "checkpoint_exists"


def test_a_paused_session_is_checkpointed_as_it_is_and_rolled_back_awake(api, session):
    api.cell(session, "set:x:1")
    pause(api, session)
    done(api, session, "checkpoints", {"name": "asleep"}, 201)
    assert state(api, session) == "paused"
    api.cell(session, "set:x:2")
    pause(api, session)
    assert done(api, session, "rollback", {"checkpoint": "asleep"})["state"] in ("idle", "starting")
    assert api.cell(session, "get:x")["stdout"] == "1\n"


def test_a_rollback_ends_what_runs_and_keeps_the_sockets(gateway, api, session):
    sock = Socket(gateway, session, TOKEN)
    sock.execute("set:x:1")
    done(api, session, "checkpoints", {"name": "c"}, 201)
    end = in_background(lambda: api.cell(session, "set:x:2\nprint:begun\nsleep:60000"))
    wait_for("the cell runs", 10, lambda: state(api, session) == "busy")
    done(api, session, "rollback", {"checkpoint": "c"})
    cell = end(20)
    assert cell["status"] == "cancelled" and "rolled back" in cell["detail"]
    assert stdout(sock.execute("get:x")) == "1\n"
    sock.close()


def test_a_foreign_checkpoint_is_unknown_here(api, session):
    other = api.create()
    c = done(api, other, "checkpoints", {}, 201)
    r = verb(api, session, "rollback", {"checkpoint": c["id"]})
    assert r.status == 404 and reason(r) == "no_such_checkpoint"
    for body in ({}, {"checkpoint": 7}, {"checkpoint": "x", "more": 1}):
        assert verb(api, session, "rollback", body).status == 400
    api.delete("/v1/sessions/" + other)


# --- forks -------------------------------------------------------------------------------------------


def test_forks_begin_where_the_source_is_and_go_their_own_ways(gateway, api):
    made = api.post("/v1/sessions", {"name": "src", "metadata": {"k": 1}, "timeouts": {"cell_s": 50, "idle_s": 0}}).json()
    src = made["id"]
    api.cell(src, "set:x:0\ntouch:f.txt:3")
    forks = done(api, src, "fork", {"count": 3}, 201)
    assert [f["name"] for f in forks] == ["src-fork-1", "src-fork-2", "src-fork-3"]
    assert all(f["metadata"] == {"k": 1} and f["timeouts"] == made["timeouts"] and f["state"] == "idle" for f in forks)
    for i, f in enumerate(forks):
        assert api.cell(f["id"], "get:x\nset:x:%d" % (i + 1))["stdout"] == "0\n"
        assert len(api.get_file(f["id"], "/home/user/f.txt").body) == 3
    assert api.cell(src, "get:x")["stdout"] == "0\n"
    assert api.delete("/v1/sessions/" + src).status == 204
    assert not os.path.exists(folder(gateway, src))
    for i, f in enumerate(forks):
        pause(api, f["id"])
        assert api.cell(f["id"], "get:x")["stdout"] == "%d\n" % (i + 1)
        api.delete("/v1/sessions/" + f["id"])


def test_a_paused_session_is_forked_asleep_and_forks_are_forked(api, session):
    api.cell(session, "set:x:1")
    pause(api, session)
    child, = done(api, session, "fork", {}, 201)
    assert state(api, session) == "paused"
    grandchild, = done(api, child["id"], "fork", {}, 201)
    assert api.cell(grandchild["id"], "get:x")["stdout"] == "1\n"
    api.delete("/v1/sessions/" + child["id"])
    pause(api, grandchild["id"])
    assert api.cell(grandchild["id"], "get:x")["stdout"] == "1\n"
    api.delete("/v1/sessions/" + grandchild["id"])


def test_a_fork_of_a_checkpoint_leaves_its_source_alone(gateway, api, session):
    api.cell(session, "set:x:old")
    point = done(api, session, "checkpoints", {"name": "early"}, 201)
    api.cell(session, "set:x:new\ntouch:late.txt:3")
    end = in_background(lambda: api.cell(session, "print:begun\nsleep:4000\nget:x"))
    wait_for("the cell runs", 10, lambda: state(api, session) == "busy")
    by_name = done(api, session, "fork", {"checkpoint": "early", "count": 2}, 201)
    assert end()["stdout"] == "begun\nnew\n", "the source went on"
    pause(api, session)
    by_id = done(api, session, "fork", {"checkpoint": point["id"]}, 201)
    assert state(api, session) == "paused", "it need not run for that"
    api.delete("/v1/sessions/%s/checkpoints/early" % session)
    for fork in by_name + by_id:
        assert api.cell(fork["id"], "get:x")["stdout"] == "old\n"
        assert api.get_file(fork["id"], "/home/user/late.txt").status == 404
        assert api.get("/v1/sessions/%s/checkpoints" % fork["id"]).json() == []
        pause(api, fork["id"])
        assert api.cell(fork["id"], "get:x")["stdout"] == "old\n"
        api.delete("/v1/sessions/" + fork["id"])
    assert api.cell(session, "get:x")["stdout"] == "new\n"


def test_a_fork_of_a_checkpoint_outlives_its_source(gateway, api):
    source = api.create()
    api.cell(source, "set:x:1")
    done(api, source, "checkpoints", {"name": "c"}, 201)
    fork, = done(api, source, "fork", {"checkpoint": "c"}, 201)
    again, = done(api, fork["id"], "fork", {}, 201)
    assert api.delete("/v1/sessions/" + source).status == 204
    for s in (fork, again):
        assert api.cell(s["id"], "get:x")["stdout"] == "1\n"
        api.delete("/v1/sessions/" + s["id"])


@pytest.mark.parametrize("body, status", [
    ({"checkpoint": "nothing"}, 404), ({"checkpoint": ""}, 404), ({"checkpoint": "../c"}, 404),
    ({"checkpoint": 7}, 400), ({"checkpoint": ["c"]}, 400), ({"checkpoint": "c", "count": 0}, 400)])
def test_the_checkpoint_of_a_fork_is_checked(api, session, body, status):
    done(api, session, "checkpoints", {"name": "c"}, 201)
    before = len(api.get("/v1/sessions").json())
    r = verb(api, session, "fork", body)
    assert (r.status, reason(r)) == (status, "no_such_checkpoint" if status == 404 else "bad_field"), r
    assert len(api.get("/v1/sessions").json()) == before


def test_a_fork_of_a_foreign_checkpoint_is_refused(api, session):
    other = api.create()
    c = done(api, other, "checkpoints", {"name": "theirs"}, 201)
    for which in (c["id"], "theirs"):
        assert reason(verb(api, session, "fork", {"checkpoint": which})) == "no_such_checkpoint"
    api.delete("/v1/sessions/" + other)


def test_a_fork_tells_its_progress(api, session):
    events = list(api.events("POST", "/v1/sessions/%s/fork" % session, {"count": 3}))
    assert [e.kind for e in events] == ["progress"] * 4 + ["done"]
    assert [e.json()["ready"] for e in events[:4]] == [0, 1, 2, 3]
    made = events[-1].json()["sessions"]
    assert len(made) == 3
    for s in made:
        api.delete("/v1/sessions/" + s["id"])


@pytest.mark.parametrize("count", [0, -1, 1001, 10 ** 30, "2", 1.5, None])
def test_the_count_of_forks_is_checked(api, session, count):
    before = len(api.get("/v1/sessions").json())
    r = verb(api, session, "fork", {"count": count})
    if count is None:  # as if it were left out
        assert r.status == 201
        api.delete("/v1/sessions/" + r.json()[0]["id"])
        return
    assert r.status == 400, r
    assert len(api.get("/v1/sessions").json()) == before


def test_more_forks_than_allowed_are_none(api, session):
    before = sorted(s["id"] for s in api.get("/v1/sessions").json())
    r = verb(api, session, "fork", {"count": 200})
    assert r.status == 429 and reason(r) == "too_many_sessions" and "Retry-After" in r.headers
    assert sorted(s["id"] for s in api.get("/v1/sessions").json()) == before


def test_a_client_that_leaves_gets_no_forks(gateway, api, session):
    before = set(os.listdir(os.path.join(gateway.state, "sessions")))
    stream = api.events("POST", "/v1/sessions/%s/fork" % session, {"count": 8})
    while next(stream).json()["ready"] < 1:
        pass
    stream.close()
    known = lambda: {s["id"] for s in api.get("/v1/sessions").json()}
    pool = lambda: set(os.listdir(os.path.join(gateway.state, "sessions"))) - before
    wait_for("nothing of the forks is left", 30, lambda: not (pool() & known()) and len(pool()) <= 2 and
             "cellkeep_sessions_creating 0" in api.get("/metrics").body.decode())
    assert api.cell(session, "print:lives")["stdout"] == "lives\n"


# --- time --------------------------------------------------------------------------------------------


def test_idle_sessions_pause_and_paused_ones_go(start):
    gw = start("--pool-size", "0", "--on-exit", "kill", "--idle-s", "2", "--delete-s", "3")
    api = gw.client()
    sid, kept = api.create(), api.post("/v1/sessions", {"timeouts": {"idle_s": 0}}).json()["id"]
    api.cell(sid, "set:x:5")
    end = in_background(lambda: api.cell(sid, "sleep:4000\nprint:done"))
    wait_for("busy", 10, lambda: state(api, sid) == "busy")
    assert end()["stdout"] == "done\n", "a busy kernel is not idle"
    wait_for("paused for being idle", 20, lambda: state(api, sid) == "paused")
    assert api.cell(sid, "get:x")["stdout"] == "5\n"
    wait_for("deleted", 30, lambda: api.get("/v1/sessions/" + sid).status == 404)
    wait_for("its folder is gone", 10, lambda: not os.path.exists(folder(gw, sid)))
    assert state(api, kept) == "idle"


def test_metrics_count_the_verbs(api, session):
    done(api, session, "checkpoints", {}, 201)
    pause(api, session)
    text = api.get("/metrics").body.decode()
    assert 'cellkeep_sessions{state="paused"} 1' in text
    for op in ("pause", "checkpoint"):
        line = next(x for x in text.splitlines() if x.startswith('cellkeep_life_seconds_count{op="%s"}' % op))
        assert int(line.split()[-1]) >= 1

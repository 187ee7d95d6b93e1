"""A session's life when things go wrong: gateways killed at awkward moments, damaged layers, bridges
that die in the middle, a hundred clients at once, and the gateway's own end with --on-exit pause."""
import collections
import os
import random
import shutil
import signal
import threading
import time

import pytest

from harness import procs
from harness.gateway import TOKEN, wait_for
from harness.jupyter import Socket, stdout
from harness.life import done, folder, pause, reason, state, verb
from integration.conftest import Fake
from integration.make_fake_image import make


def quietly(work):
    """In a thread; the client of a gateway that is killed may hear nothing."""
    def run():
        try:
            work()
        except OSError:
            pass
    t = threading.Thread(target=run)
    t.start()
    return t


# --- a gateway that is killed ------------------------------------------------------------------------


def test_paused_sessions_and_checkpoints_outlive_a_gateway(home, start):
    first = start("--pool-size", "0", state=home)
    api = first.client()
    sid = api.create(name="kept")
    api.cell(sid, "set:x:1")
    sock = Socket(first, sid, TOKEN)
    assert stdout(sock.execute("print:seen")) == "seen\n"
    c = done(api, sid, "checkpoints", {"name": "c"}, 201)
    usage = pause(api, sid)["usage"]
    first.kill()
    os.mkdir(folder(first, sid, "layers", "aaaaaaaa-0000-4000-8000-000000000001.tmp"))
    os.mkdir(folder(first, sid, "layers", "aaaaaaaa-0000-4000-8000-000000000002"))
    second = start("--pool-size", "0", "--on-exit", "kill", state=home)
    api = second.client()
    session = api.session(sid)
    assert session["state"] == "paused" and session["name"] == "kept" and session["usage"] == usage
    assert api.get("/v1/sessions/%s/checkpoints" % sid).json() == [c]
    wait_for("half-made layers are removed", 10, lambda: len(os.listdir(folder(second, sid, "layers"))) == 2)
    again = Socket(second, sid, TOKEN, session=sock.session)
    assert stdout(again.execute("get:x")) == "1\n"
    again.close()
    api.cell(sid, "set:x:2")
    done(api, sid, "rollback", {"checkpoint": "c"})
    assert api.cell(sid, "get:x")["stdout"] == "1\n"


@pytest.mark.parametrize("verb_name,body", [("pause", {}), ("checkpoints", {}), ("fork", {"count": 4}), ("resume", {}),
                                            ("rollback", {"checkpoint": "c"})])
def test_a_gateway_killed_in_the_middle_of_a_verb_loses_no_session(home, start, verb_name, body):
    rng = random.Random(verb_name)
    gw = start("--pool-size", "0", state=home)
    api = gw.client()
    sid = api.create()
    api.cell(sid, "set:x:9")
    done(api, sid, "checkpoints", {"name": "c"}, 201)
    for i in range(4):
        if verb_name == "resume":
            answers = []
            wait_for(answers, 20, lambda: answers.append(verb(api, sid, "pause")) or answers[-1].status == 200)
        client = quietly(lambda: verb(api, sid, verb_name, body))
        time.sleep(rng.random() * 0.25)
        gw.kill()
        client.join()
        gw = start("--pool-size", "0", *(["--on-exit", "kill"] if i == 3 else []), state=home)
        api = gw.client()
        listed = api.get("/v1/sessions").json()
        assert sid in [s["id"] for s in listed] and all(s["state"] != "dead" for s in listed), listed
        r = wait_for("an answer", 30, lambda: (r := verb(api, sid, "cells", {"code": "get:x"})).status == 200 and r)
        assert r.json()["stdout"] == "9\n"
        for s in listed:  # forks that stood, all of them or none
            if s["id"] != sid:
                assert api.delete("/v1/sessions/" + s["id"]).status == 204
        assert len(listed) in (1, 5)
    wait_for("no folder of half-made forks", 20, lambda: os.listdir(os.path.join(home, "sessions")) == [sid])
    assert gw.stop(60) == 0
    assert gw.leftovers() == {}
    assert os.listdir(os.path.join(home, "sessions")) == []


def test_a_fork_that_its_gateway_does_not_live_to_see_ends_by_itself(home, start):
    """Nobody else would end it: the next gateway may look into its folder before it says who it is."""
    gw = start("--pool-size", "0", state=home)
    api = gw.client()
    sid = api.create()

    def forking():
        """(folder, bridge) of a fork that has begun."""
        new = set(os.listdir(os.path.join(home, "sessions"))) - {sid}
        bridges = {p for p in procs.descendants({gw.pid}) if procs.cmdline(p).endswith("cellkeep bridge")} - {gw.bridge_pid(sid)}
        return (new.pop(), bridges.pop()) if new and bridges else None

    for _ in range(5):  # it may be quicker than we are
        t = quietly(lambda: api.post("/v1/sessions/%s/fork" % sid, {}))
        name, bridge = wait_for("a fork begins", 30, forking, every=0.005)
        os.kill(bridge, signal.SIGSTOP)
        if not os.path.exists(folder(gw, name, "bridge.json")):
            break
        os.kill(bridge, signal.SIGCONT)
        t.join(60)
        assert api.delete("/v1/sessions/" + name).status == 204
    gw.kill()
    t.join(60)
    os.kill(bridge, signal.SIGCONT)
    wait_for("it ends", 60, lambda: procs.start_of(bridge) is None)
    gw = start("--pool-size", "0", "--on-exit", "kill", state=home)
    api = gw.client()
    assert [s["id"] for s in api.get("/v1/sessions").json()] == [sid]
    assert api.cell(sid, "print:1")["stdout"] == "1\n"
    wait_for("no folder of it", 30, lambda: os.listdir(os.path.join(home, "sessions")) == [sid])


def test_on_exit_pause_puts_away_what_is_at_rest(home, start):
    first = start("--pool-size", "1", "--on-exit", "pause", state=home)
    api = first.client()
    sids = [api.create() for _ in range(5)]
    for sid in sids:
        api.cell(sid, "set:x:" + sid)
    busy = api.create()
    end = quietly(lambda: api.cell(busy, "set:x:busy\nprint:begun\nsleep:9000"))
    wait_for("busy", 10, lambda: state(api, busy) == "busy")
    assert first.stop(60) == 0
    end.join()
    for sid in sids:
        assert os.path.exists(folder(first, sid, "paused.json"))
        assert not procs.start_of(first.bridge_pid(sid))
    assert not os.path.exists(folder(first, busy, "paused.json"))
    assert "kept_running id=" + busy in first.stderr()
    second = start("--pool-size", "0", "--on-exit", "kill", state=home)
    api = second.client()
    states = {s["id"]: s["state"] for s in api.get("/v1/sessions").json()}
    assert states == {**{sid: "paused" for sid in sids}, busy: states[busy]} and states[busy] != "dead"
    for sid in sids:
        assert api.cell(sid, "get:x")["stdout"] == sid + "\n"


def test_a_paused_session_keeps_the_template_it_began_with(home, start):
    own = Fake()
    first = start("--pool-size", "0", state=home, over=own)
    api = first.client()
    sid = api.create()
    api.cell(sid, "set:x:old")
    pause(api, sid)
    first.stop()
    make(own.cache, ["another-image"])  # an upgrade: another image, another template
    second = start("--pool-size", "0", state=home, over=own)
    api = second.client()
    templates = os.path.join(own.cache, "templates")
    assert len([name for name in os.listdir(templates) if not name.startswith(".")]) == 2
    assert api.cell(api.create(), "print:new")["stdout"] == "new\n"
    fork, = done(api, sid, "fork", {}, 201)
    for s in (sid, fork["id"]):
        assert api.cell(s, "get:x")["stdout"] == "old\n"
        pause(api, s)
        assert api.cell(s, "get:x")["stdout"] == "old\n"
    pause(api, sid)
    second.stop()
    for name in os.listdir(templates):
        shutil.rmtree(os.path.join(templates, name), ignore_errors=True)
    third = start("--pool-size", "0", "--on-exit", "kill", state=home, over=own)
    r = verb(third.client(), sid, "cells", {"code": "get:x"})
    assert r.status == 503 and "template" in r.json()["message"], r
    assert state(third.client(), sid) == "paused"
    shutil.rmtree(own.cache, ignore_errors=True)


# --- what is damaged, what dies ------------------------------------------------------------------------


def paused_layer(gw, sid):
    layers = folder(gw, sid, "layers")
    return os.path.join(layers, os.listdir(layers)[0])


@pytest.mark.parametrize("part", ["ram", "state", "disk.qcow2", "layer.json", "session.json"])
@pytest.mark.parametrize("how", ["short", "other", "gone"])
def test_a_damaged_layer_is_refused_and_the_session_stays(gateway, api, session, part, how):
    api.cell(session, "set:x:3")
    sock = Socket(gateway, session, TOKEN)
    sock.execute("print:x")
    pause(api, session)
    path = os.path.join(paused_layer(gateway, session), part)
    with open(path, "rb") as f:
        whole = f.read()
    os.unlink(path)
    if how != "gone":
        with open(path, "wb") as f:
            f.write(whole[:len(whole) // 2] if how == "short" else bytes(b ^ 0x55 for b in whole))
        os.chmod(path, 0o444)
    r = verb(api, session, "cells", {"code": "get:x"})
    if r.status == 200:  # a disk's contents are QEMU's to check, and the fake has none
        assert part == "disk.qcow2"
        return
    assert r.status == 503 and reason(r) == "resume_failed", r
    assert state(api, session) == "paused"
    got = sock.execute("print:unheard")
    assert [m["content"]["ename"] for m in got if m["msg_type"] == "error"] == ["CellkeepError"]
    assert state(api, session) == "paused"
    os.path.exists(path) and os.unlink(path)
    with open(path, "wb") as f:
        f.write(whole)
    os.chmod(path, 0o444)
    assert stdout(sock.execute("get:x")) == "3\n", "made good, it runs again, and the socket was open all the time"
    sock.close()


def test_a_bridge_that_dies_while_it_pauses(start):
    deadly = Fake(["save-dies"])
    gw = start("--pool-size", "0", "--on-exit", "kill", over=deadly)
    api = gw.client()
    sid = api.create()
    r = verb(api, sid, "pause")
    assert r.status in (410, 500, 502), r
    wait_for("dead", 10, lambda: state(api, sid) == "dead")
    assert verb(api, sid, "pause").status == 410
    assert verb(api, sid, "fork").status == 410
    assert api.delete("/v1/sessions/" + sid).status == 204
    shutil.rmtree(deadly.cache, ignore_errors=True)


def test_a_layer_that_cannot_be_made_costs_nothing(start):
    broken = Fake(["save-fails"])
    gw = start("--pool-size", "0", "--on-exit", "kill", over=broken)
    api = gw.client()
    sid = api.create()
    api.cell(sid, "set:x:1")
    sock = Socket(gw, sid, TOKEN)
    for what in ("pause", "checkpoints", "fork"):
        r = verb(api, sid, what)
        assert r.status >= 500, (what, r)
        assert stdout(sock.execute("get:x")) == "1\n"
    assert len(api.get("/v1/sessions").json()) == 1
    assert api.get("/v1/sessions/%s/checkpoints" % sid).json() == []
    assert os.listdir(os.path.join(gw.state, "sessions")) == [sid]
    sock.close()
    shutil.rmtree(broken.cache, ignore_errors=True)


def test_forks_that_cannot_all_start_are_none(gateway, api, session):
    pause(api, session)
    path = os.path.join(paused_layer(gateway, session), "state")
    whole = open(path, "rb").read()
    os.unlink(path)
    with open(path, "wb") as f:
        f.write(bytes(len(whole)))
    before = {s["id"] for s in api.get("/v1/sessions").json()}
    r = verb(api, session, "fork", {"count": 6})
    assert r.status >= 400 and r.status != 429, r
    assert {s["id"] for s in api.get("/v1/sessions").json()} == before
    events = list(api.events("POST", "/v1/sessions/%s/fork" % session, {"count": 2}))
    assert events[-1].kind == "failed" and events[-1].json()["reason"]
    assert state(api, session) == "paused"


# --- many at once ------------------------------------------------------------------------------------------

DOCUMENTED = {
    "pause": {(200, ""), (409, "life_busy"), (409, "bad_state"), (409, "session_busy"), (409, "session_starting")},
    "resume": {(200, ""), (503, "resume_timeout")},
    "fork": {(201, ""), (409, "life_busy"), (409, "bad_state"), (409, "session_starting"), (429, "too_many_sessions")},
    "checkpoints": {(201, ""), (409, "life_busy"), (409, "bad_state"), (409, "session_starting"), (429, "too_many_checkpoints")},
    "rollback": {(200, ""), (409, "life_busy"), (409, "bad_state"), (409, "session_starting"), (503, "resume_timeout")},
    "cells": {(200, ""), (503, "resume_timeout"), (429, "queue_full")},
    "delete": {(204, "")},
}
GONE = (404, "no_such_session")


def test_a_hundred_clients_at_once(start):
    gw = start("--pool-size", "0", "--on-exit", "kill", "--max-sessions", "12")
    api = gw.client(timeout=150)
    sids = [api.create() for _ in range(3)]
    for sid in sids:
        api.cell(sid, "set:x:3")
        done(api, sid, "checkpoints", {"name": "base"}, 201)
    seen, wrong, made = collections.Counter(), [], []

    def call(rng, sid, what):
        body = {"rollback": {"checkpoint": "base"}, "cells": {"code": "get:x"}}.get(what, {})
        r = api.delete("/v1/sessions/" + sid) if what == "delete" else verb(api, sid, what, body)
        seen[what, r.status, reason(r)] += 1
        if (r.status, reason(r)) not in DOCUMENTED[what] | {GONE}:
            wrong.append((what, r))
        if what == "fork" and r.status == 201:
            made.extend(s["id"] for s in r.json())
        if what == "cells" and r.status == 200 and r.json()["status"] not in ("ok", "cancelled"):
            wrong.append((what, r.json()))  # a rollback may have ended it
        if made and rng.random() < 0.3:
            call(rng, made.pop(), "delete")

    def client(n):
        rng = random.Random(n)
        words = ["pause"] * 4 + ["resume"] * 3 + ["cells"] * 3 + ["fork", "checkpoints", "rollback"]
        for _ in range(4):
            call(rng, rng.choice(sids), rng.choice(words + (["delete"] if n == 50 else [])))

    threads = [threading.Thread(target=client, args=(n,)) for n in range(100)]
    [t.start() for t in threads]
    [t.join(300) for t in threads]
    assert not any(t.is_alive() for t in threads), "every call gets an answer"
    assert not wrong, wrong[:5]
    assert sum(n for (what, status, _), n in seen.items() if status in (200, 201)) > 20, seen
    for s in api.get("/v1/sessions").json():
        assert s["state"] != "dead", s
        r = wait_for("rest", 60, lambda: (r := verb(api, s["id"], "cells", {"code": "get:x"})).status == 200 and r)
        assert r.json()["stdout"] == "3\n"
    assert gw.stop(90) == 0
    assert gw.leftovers() == {} and os.listdir(os.path.join(gw.state, "sessions")) == []


def test_deletion_ends_whatever_is_under_way(gateway, api):
    for what in ("pause", "resume", "fork", "checkpoints"):
        sid = api.create()
        if what == "resume":
            pause(api, sid)
        client = quietly(lambda: verb(api, sid, what, {"count": 3} if what == "fork" else {}))
        time.sleep(0.05)
        assert api.delete("/v1/sessions/" + sid).status == 204
        client.join(30)
        assert api.get("/v1/sessions/" + sid).status == 404
        wait_for("its folder is gone", 10, lambda: not os.path.exists(folder(gateway, sid)))
        for s in api.get("/v1/sessions").json():
            api.delete("/v1/sessions/" + s["id"])

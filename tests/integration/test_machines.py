"""Virtual machines that do not come up, are not personalised, or do not end."""
import os
import shutil

import pytest

from harness import procs
from harness.gateway import wait_for
from harness.life import done, folder, pause, reason, state, verb
from integration.conftest import Fake


@pytest.mark.parametrize("fault", ["fail-personalise", "silent-personalise", "personalise-kernel-fails"])
def test_a_clone_that_was_not_personalised_is_never_handed_out(start, fault):
    bad = Fake(faults=(fault,))
    try:
        api = start("--pool-size", "1", over=bad).client()
        r = api.post("/v1/sessions", {}, timeout=150)
        assert r.status in (500, 503), r
        assert r.json()["message"]
        assert [s for s in api.get("/v1/sessions").json() if s["state"] in ("idle", "busy")] == []
    finally:
        shutil.rmtree(bad.cache, ignore_errors=True)


# Clock, entropy and names; the kernel's key and generators; the clock's second setting.
@pytest.mark.parametrize("fault", ["fail-personalise", "personalise-kernel-fails", "fail-set_time"])
def test_a_restored_session_that_does_not_confirm_who_it_is_is_destroyed(start, fault):
    bad = Fake()
    try:
        gw = start("--pool-size", "0", "--on-exit", "kill", over=bad)
        api = gw.client()
        running, asleep = api.create(), api.create()
        for sid in (running, asleep):
            api.cell(sid, "set:x:7")
        done(api, running, "checkpoints", {"name": "c"}, 201)
        pause(api, asleep)
        before = set(procs.mentioning(gw.state)) | procs.descendants({gw.bridge_pid(running)})
        faults = os.path.join(os.path.dirname(bad.qemu), "faults")
        with open(faults, "w") as f:
            f.write(fault)
        # A kernel that refuses is waited for until time is up: the bridge believes nothing but the new key. Once is enough.
        patient = fault == "personalise-kernel-fails"
        for sid in () if patient else (running, asleep):
            r = verb(api, sid, "fork", {"count": 3})
            assert r.status >= 500, r
        r = verb(api, asleep, "cells", {"code": "get:x"})
        assert r.status == 503 and reason(r) == "resume_failed", r
        assert {s["id"] for s in api.get("/v1/sessions").json()} == {running, asleep}
        assert state(api, asleep) == "paused" and os.path.exists(folder(gw, asleep, "paused.json"))
        wait_for("no process of those that failed", 10, lambda: procs.descendants({gw.pid}) | set(
            procs.mentioning(gw.state)) <= before | {gw.pid})
        assert set(os.listdir(os.path.join(gw.state, "sessions"))) == {running, asleep}
        assert api.cell(running, "get:x")["stdout"] == "7\n", "the source does not notice"
        if not patient:
            r = verb(api, running, "rollback", {"checkpoint": "c"})
            assert r.status >= 500, r  # the older machine had taken the place of this one, or never did
            assert state(api, running) == "dead" or api.cell(running, "get:x")["stdout"] == "7\n"
        os.unlink(faults)
        assert api.cell(asleep, "get:x")["stdout"] == "7\n", "nothing of it was lost"
    finally:
        shutil.rmtree(bad.cache, ignore_errors=True)


@pytest.mark.parametrize("fault", ["qmp-silent", "qmp-garbage", "restore-fails"])
def test_a_qemu_that_does_not_come_up_is_an_error_in_time(start, fault):
    bad = Fake()
    with open(os.path.join(os.path.dirname(bad.qemu), "faults"), "w") as f:
        f.write(fault)
    try:
        gw = start("--pool-size", "1", over=bad)
        api = gw.client()
        r = api.post("/v1/sessions", {}, timeout=150)
        assert r.status in (500, 503), r
        assert api.get("/healthz").status == 200
        assert gw.stop() == 0
        assert gw.leftovers() == {}
    finally:
        shutil.rmtree(bad.cache, ignore_errors=True)


def test_a_qemu_that_does_not_quit_is_killed(start):
    bad = Fake()
    with open(os.path.join(os.path.dirname(bad.qemu), "faults"), "w") as f:
        f.write("quit-hangs")
    try:
        gw = start("--pool-size", "0", over=bad)
        api = gw.client()
        sid = api.create()
        qemu = gw.qemu_pid(sid)
        assert api.delete("/v1/sessions/" + sid, timeout=30).status == 204
        wait_for("QEMU is gone", 10, lambda: procs.start_of(qemu) is None)
    finally:
        shutil.rmtree(bad.cache, ignore_errors=True)

"""Virtual machines that do not come up, are not personalised, or do not end."""
import os
import shutil

import pytest

from harness import procs
from harness.gateway import wait_for
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

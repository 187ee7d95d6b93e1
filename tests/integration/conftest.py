"""Gateways over the fake QEMU. `fake` is the cache with its template, made once; `gateway` is shared
by the tests of a file; `start` makes gateways of a test's own, with whatever options it needs."""
import os
import shutil
import subprocess

import pytest

from harness.gateway import Gateway, binary, scratch
from integration.make_fake_image import make


class Fake:
    """A cache folder with a fake image and its built template."""

    def __init__(self, faults=(), build=True):
        self.cache = scratch("c")
        self.qemu = make(self.cache, faults)
        if build:
            r = subprocess.run([binary(), "template", "build", "--cache-dir", self.cache, "--qemu", self.qemu,
                                "--accel", "tcg"], capture_output=True, text=True, timeout=120, stdin=subprocess.DEVNULL)
            assert r.returncode == 0, "template of the fake: %s %s" % (r.stdout, r.stderr)

    def options(self):
        return ["--cache-dir", self.cache, "--qemu", self.qemu, "--accel", "tcg"]


@pytest.fixture(scope="session")
def fake():
    f = Fake()
    yield f
    shutil.rmtree(f.cache, ignore_errors=True)


def checked_end(gw, request=None):
    """Ends a gateway; a sanitizer report anywhere in its logs fails the test."""
    reports = gw.sanitizer_reports()
    log = gw.stderr() if os.path.exists(gw.stderr_path) else ""
    gw.end()
    assert not reports, "sanitizers: %s\n%s" % (reports, log[-5000:])


@pytest.fixture(scope="module")
def gateway(fake):
    gw = Gateway(*fake.options(), "--pool-size", "2", "--on-exit", "kill").start()
    yield gw
    checked_end(gw)


@pytest.fixture
def api(gateway):
    return gateway.client()


@pytest.fixture
def session(api):
    sid = api.create()
    yield sid
    api.delete("/v1/sessions/" + sid)


@pytest.fixture
def start(fake):
    """start(*options, state=, fake=, env=) -> a running Gateway; all are ended after the test."""
    made = []

    def begin(*options, state=None, over=None, env=None):
        spares = [] if "--spare" in options else ["--spare", "0"]  # whoever counts folders and processes
        gw = Gateway(*(over or fake).options(), *options, *spares, state=state, env=env)
        made.append(gw)
        return gw.start()

    yield begin
    for gw in made:
        checked_end(gw)

"""Gateways over the real thing: QEMU, the guest image, ipykernel. The image and the template come from
the usual cache; script/test makes them first. Under emulation everything takes its time: deadlines
are multiplied by SLOW when the accelerator is not KVM."""
import os

import pytest

from harness.gateway import Gateway

SLOW = float(os.environ.get("CELLKEEP_TEST_SLOW", "1"))


@pytest.fixture(scope="module")
def gateway():
    gw = Gateway("--pool-size", "1", "--on-exit", "kill").start(900)
    yield gw
    gw.end()


@pytest.fixture
def api(gateway):
    return gateway.client(timeout=150)


@pytest.fixture
def session(api):
    sid = api.create()
    yield sid
    api.delete("/v1/sessions/" + sid)


@pytest.fixture(scope="module")
def shared(gateway):
    """One session for the tests of a file that do not harm it."""
    api = gateway.client(timeout=150)
    sid = api.create()
    yield sid
    api.delete("/v1/sessions/" + sid)


@pytest.fixture
def start():
    made = []

    def begin(*options, state=None, env=None):
        gw = Gateway(*options, state=state, env=env)
        made.append(gw)
        return gw.start(900)

    yield begin
    for gw in made:
        gw.end()

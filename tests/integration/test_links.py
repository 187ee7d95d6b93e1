"""The connection that a cell leaves for the next one: it is one, it goes when nobody needs it, and a cell
that finds it broken, busy or gone is none the worse for it."""
import threading

import pytest

from harness.between import Between
from harness.gateway import wait_for


@pytest.fixture
def between(gateway, session):
    made = []

    def begin(**how):
        made.append(Between(gateway, session, **how))
        return made[0]

    yield begin
    for b in made:
        b.end()


def settled(api, session, b):
    """After a cell: how many connections there are, and how many there have been."""
    assert api.cell(session, "print:x")["stdout"] == "x\n"
    return len(b.pairs), b.made


def test_cells_one_after_another_share_a_connection(api, session, between):
    b = between()
    assert settled(api, session, b) == (1, 1)
    for i in range(20):
        cell = api.cell(session, "print:%d\n%d" % (i, i))
        assert cell["stdout"] == "%d\n" % i and cell["result"]["text/plain"] == str(i)
    events = [e.kind for e in api.events("POST", "/v1/sessions/%s/cells" % session, {"code": "print:y"})]
    assert events[0] == "queued" and events[-1] == "done"
    assert settled(api, session, b)[1] <= 3  # one, unless this machine stood still for as long as it is kept


def test_cells_side_by_side_have_each_their_own_and_one_stays(api, session, between):
    b = between()
    got = {}

    def run(i):
        got[i] = [api.cell(session, "print:%d.%d" % (i, j), timeout=100)["stdout"] for j in range(10)]

    threads = [threading.Thread(target=run, args=(i,)) for i in range(6)]
    for t in threads:
        t.start()
    for t in threads:
        t.join(120)
    assert got == {i: ["%d.%d\n" % (i, j) for j in range(10)] for i in range(6)}
    wait_for("at most one connection that stays", 30, lambda: len(b.pairs) <= 1)


def test_a_connection_that_nobody_uses_goes(api, session, between):
    b = between()
    settled(api, session, b)
    wait_for("no connection that nobody uses", 60, lambda: not b.pairs)
    assert settled(api, session, b) == (1, 2)


def test_a_kept_connection_that_breaks_is_made_again(api, session, between):
    b = between()
    for n in range(1, 5):
        assert settled(api, session, b)[1] == n
        b.cut_all()
        wait_for("the connection is cut", 30, lambda: not b.pairs)
        assert api.get("/healthz").status == 200  # the gateway has had its turn to see it


def test_a_failed_or_refused_cell_leaves_a_good_connection_or_none(api, session, between):
    between()
    assert api.cell(session, "error:ValueError:no")["status"] == "error"
    assert api.cell(session, "print:begun\nsleep:60000", timeout_s=1)["status"] == "timeout"
    assert api.cell(session, "exit:3")["status"] == "kernel_died"
    assert api.post("/v1/sessions/%s/cells" % session, {"code": 3}).status == 400
    assert api.cell(session, "print:after")["stdout"] == "after\n"


def test_a_bridge_of_an_earlier_version_is_asked_for_the_events(api, session, between):
    asked = []

    def older(data):
        asked.append(b'"op":"attach","mode":"cell"' in data)
        return data.replace(b'"attach":true', b'"atta__":true')  # a word that it does not know

    between(change=older)
    for i in range(3):
        cell = api.cell(session, "print:%d\nthe result" % i)
        assert cell["stdout"] == "%d\n" % i and cell["result"]["text/plain"] == "the result"
    assert asked.count(True) == 3


def test_a_session_that_has_a_kept_connection_can_be_paused_and_goes_on(api, session):
    assert api.cell(session, "set:x:kept")["status"] == "ok"
    assert api.post("/v1/sessions/%s/pause" % session, {}, timeout=100).status == 200
    assert api.cell(session, "get:x", timeout=100)["stdout"] == "kept\n"
    assert api.cell(session, "get:x")["stdout"] == "kept\n"

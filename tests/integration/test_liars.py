"""An agent that lies, forges or falls silent: its session goes on or ends, in time, and alone."""
import pytest


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

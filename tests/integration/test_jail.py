"""Steps of the jail that the operator requires."""


def test_all_steps_can_be_required(start):
    gw = start("--pool-size", "1", "--require-jail", "all")
    api = gw.client()
    assert api.cell(api.create(), "1+1")["status"] == "ok"


def test_without_a_required_step_no_session_starts_and_it_is_named(start):
    gw = start("--pool-size", "0", "--require-jail", "net_ns,pid_ns")
    r = gw.client().post("/v1/sessions", {}, timeout=60)
    assert r.status >= 500 and "jail step pid_ns" in r.json()["message"], r

"""More sessions wanted than there are ready, and than the host has memory for: everybody gets an answer, and the
gateway starts no more at a time than it said."""
import threading

from harness.life import pause, reason, verb


def test_a_hundred_creations_at_once(start):
    gw = start("--pool-size", "2", "--on-exit", "kill", "--max-sessions", "120")
    api = gw.client(timeout=200)
    answers, most = [], 0

    def one(n):
        answers.append(api.post("/v1/sessions", {"name": "crowd-%d" % n}))

    threads = [threading.Thread(target=one, args=(n,)) for n in range(100)]
    [t.start() for t in threads]
    [t.join(200) for t in threads]
    assert len(answers) == 100 and not any(t.is_alive() for t in threads)
    made = [r.json()["id"] for r in answers if r.status == 201]
    refused = [r for r in answers if r.status != 201]
    assert made, answers[:3]
    assert len(refused) >= 100 - 64 - 2 - 4, "those that may wait, and what was ready or is handed out meanwhile"
    for r in refused:
        assert r.status == 503 and reason(r) == "no_capacity" and int(r.headers["Retry-After"]) > 0, r
    assert {s["id"] for s in api.get("/v1/sessions").json()} == set(made), "nobody has a session that was not told"
    assert api.cell(made[-1], "print:there")["stdout"] == "there\n"
    for sid in made:
        assert api.delete("/v1/sessions/" + sid).status == 204
    assert api.post("/v1/sessions", {}).status == 201, "and it goes on"
    assert gw.stop(60) == 0 and gw.leftovers() == {}


def test_no_session_is_started_into_the_hosts_last_memory(home, start):
    first = start("--pool-size", "0", state=home)
    sid = first.client().create()
    other = first.client().create()
    assert first.client().cell(sid, "set:x:1")["status"] == "ok"
    pause(first.client(), sid)
    first.stop()
    gw = start("--pool-size", "2", "--memory-reserve-mb", "100000000", state=home)
    api = gw.client()
    for path, body in (("/v1/sessions", {}), ("/api/kernels", {"name": "python3"})):
        r = api.post(path, body)
        assert r.status == 503 and "memory" in r.json()["message"], r
        assert int(r.headers["Retry-After"]) > 0, path
    assert api.get("/readyz").status == 503 and reason(api.get("/readyz")) == "no_capacity"
    assert api.cell(other, "print:on")["stdout"] == "on\n", "what runs runs on"
    r = verb(api, sid, "resume")
    assert r.status == 503 and "memory" in r.json()["message"], r
    assert api.session(sid)["state"] == "paused"
    r = verb(api, other, "fork", {"count": 3})
    assert r.status == 503 and "memory" in r.json()["message"], r
    assert {s["id"] for s in api.get("/v1/sessions").json()} == {sid, other}
    gw.stop()
    api = start("--pool-size", "0", "--memory-reserve-mb", "0", "--on-exit", "kill", state=home).client()
    assert api.cell(sid, "get:x")["stdout"] == "1\n"
    assert api.post("/v1/sessions", {}).status == 201

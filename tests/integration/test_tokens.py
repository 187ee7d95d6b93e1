"""Tokens beside the gateway's own: each has sessions of its own on every door, bounded, and none after it
was revoked."""
import json
import os
import sqlite3
import subprocess
import threading

import pytest

from harness.client import Client
from harness.gateway import TOKEN, binary, wait_for
from harness.jupyter import Socket

BOTH = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}


class Made:
    def __init__(self, gateway, **fields):
        self.api = gateway.client()
        r = self.api.post("/v1/tokens", fields)
        assert r.status == 201, r
        self.id, self.text = r.json()["id"], r.json()["token"]
        self.client = Client("127.0.0.1", gateway.port, self.text)

    def revoke(self):
        return self.api.delete("/v1/tokens/" + self.id)


@pytest.fixture
def two(gateway):
    made = [Made(gateway, name="a"), Made(gateway, name="b")]
    yield made
    for m in made:
        for s in m.client.get("/v1/sessions").json() if m.client.get("/v1/sessions").status == 200 else []:
            m.client.delete("/v1/sessions/" + s["id"])
        m.revoke()


def ids(answer):
    return {s["id"] for s in answer.json()}


def test_a_token_sees_its_own_sessions_and_the_gateway_s_token_all(api, two):
    a, b = (m.client for m in two)
    mine, other, main = a.create(name="x"), b.create(name="x"), api.create()
    assert ids(a.get("/v1/sessions")) == {mine} and ids(b.get("/v1/sessions")) == {other}
    assert ids(a.get("/api/kernels")) == {mine}
    assert {mine, other, main} <= ids(api.get("/v1/sessions"))
    assert a.cell(mine, "print:a")["stdout"] == "a\n" and api.cell(mine, "print:b")["stdout"] == "b\n"
    base = "/v1/sessions/" + other
    for method, path, body in [
        ("GET", base, None), ("PATCH", base, {"name": "y"}), ("DELETE", base, None), ("POST", base + "/cells", {"code": "1"}),
        ("GET", base + "/files/home/user", None), ("PUT", base + "/files/home/user/x", b"x"), ("POST", base + "/commands", {"cmd": "echo"}),
        ("GET", base + "/events", None), ("POST", base + "/pause", {}), ("POST", base + "/fork", {}), ("GET", base + "/checkpoints", None),
        ("POST", base + "/interrupt", {}), ("GET", "/v1/sessions?after=" + other, None),
        ("GET", "/api/kernels/" + other, None), ("DELETE", "/api/kernels/" + other, None), ("POST", "/api/kernels/%s/restart" % other, None),
    ]:
        r = a.request(method, path, body)
        assert r.status == 404, (method, path, r)
    assert b.session(other)["state"] == "idle"
    api.delete("/v1/sessions/" + main)


def test_jupyter_sessions_are_apart_even_with_one_path(two):
    a, b = (m.client for m in two)
    want = {"path": "n.ipynb", "type": "notebook", "name": "n", "kernel": {"name": "python3"}}
    ja, jb = a.post("/api/sessions", want).json(), b.post("/api/sessions", want).json()
    assert ja["kernel"]["id"] != jb["kernel"]["id"]
    assert a.post("/api/sessions", want).json()["id"] == ja["id"]
    assert ids(a.get("/api/sessions")) == {ja["id"]} and ids(b.get("/api/sessions")) == {jb["id"]}
    assert a.get("/api/sessions/" + jb["id"]).status == 404 and a.delete("/api/sessions/" + jb["id"]).status == 404
    stolen = a.post("/api/sessions", {**want, "path": "other.ipynb", "kernel": {"id": jb["kernel"]["id"]}})
    assert stolen.status != 201 or stolen.json()["kernel"]["id"] != jb["kernel"]["id"]
    assert b.get("/api/sessions/" + jb["id"]).status == 200


def test_mcp_clients_do_not_meet(two):
    def call(m, tool, headers=None, **args):
        body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": tool, "arguments": args}}
        return m.client.post("/mcp", body, headers={**BOTH, **(headers or {})})

    init = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {"protocolVersion": "2025-11-25"}}
    a, b = two
    peers = [{"Mcp-Session-Id": m.client.post("/mcp", init, headers=BOTH).headers["Mcp-Session-Id"]} for m in two]
    handle = call(a, "run_python", peers[0], code="set:x:1\nprint:a").json()["result"]["_meta"]["cellkeep/session"]
    assert ids(a.client.get("/v1/sessions")) == {handle}
    assert call(b, "run_python", peers[0], code="get:x").status == 404  # the other's MCP session
    assert call(b, "run_python", peers[1], code="get:x", session=handle).json()["result"]["isError"] is True
    assert call(b, "run_python", peers[1], code="get:x", session="mcp").json()["result"]["isError"] is True
    assert call(b, "close_session", peers[1], session=handle).json()["result"]["isError"] is True


def test_a_token_has_no_more_sessions_than_it_may(gateway, api):
    m = Made(gateway, max_sessions=2)
    got = []
    ts = [threading.Thread(target=lambda: got.append(m.client.post("/v1/sessions", {}, timeout=60))) for _ in range(5)]
    for t in ts:
        t.start()
    for t in ts:
        t.join()
    assert sorted(r.status for r in got) == [201, 201, 429, 429, 429]
    refused = [r for r in got if r.status == 429][0]
    assert refused.json()["reason"] == "too_many_sessions" and "2" in refused.json()["message"]
    assert m.client.post("/api/kernels", {}).status == 403
    one = [r.json()["id"] for r in got if r.status == 201]
    assert m.client.post("/v1/sessions/%s/fork" % one[0], {}).status == 429
    assert api.post("/v1/sessions/%s/fork" % one[0], {"count": 1}).status == 429  # it would be that token's
    m.client.delete("/v1/sessions/" + one[0])
    wait_for("room again", 10, lambda: m.client.post("/v1/sessions", {}, timeout=60).status == 201)
    for s in m.client.get("/v1/sessions").json():
        m.client.delete("/v1/sessions/" + s["id"])
    m.revoke()


def test_a_fork_belongs_to_its_source_s_token(api, two):
    a = two[0].client
    sid = a.create()
    forks = api.post("/v1/sessions/%s/fork" % sid, {"count": 1}, timeout=60)
    assert forks.status == 201 and ids(forks) < ids(a.get("/v1/sessions"))


def test_a_revoked_token_is_out_at_once_with_its_connections(gateway, api):
    m = Made(gateway, name="gone")
    sid = m.client.create()
    ws = Socket(gateway, sid, m.text)
    events = m.client.events("GET", "/v1/sessions/%s/events?from=0" % sid)
    next(events)
    assert m.revoke().status == 204
    assert m.client.get("/v1/sessions").status == 403 and m.client.post("/mcp", {}, headers=BOTH).status == 401
    with pytest.raises(Exception):
        for _ in events:
            pass
        raise EOFError  # the stream ended
    with pytest.raises(Exception):
        ws.execute("print:a")
    assert api.cell(sid, "print:still")["stdout"] == "still\n"
    assert m.revoke().status == 404
    api.delete("/v1/sessions/" + sid)


def test_only_the_gateway_s_token_manages_tokens(two):
    a = two[0].client
    for r in (a.get("/v1/tokens"), a.post("/v1/tokens", {}), a.delete("/v1/tokens/" + two[1].id)):
        assert r.status == 403 and r.json()["reason"] == "forbidden"
    assert two[1].client.get("/v1/sessions").status == 200


@pytest.mark.parametrize("body", [{"name": 7}, {"name": "x" * 201}, {"max_sessions": -1}, {"max_sessions": 1.5},
                                  {"max_sessions": 1000001}, {"admin": True}, []])
def test_wrong_fields_are_refused(api, body):
    assert api.post("/v1/tokens", body).status == 400


def test_tokens_and_owners_outlast_the_gateway_and_only_hashes_are_kept(start):
    gw = start("--pool-size", "1")
    m = Made(gw, name="kept")
    sid = m.client.create()
    main = gw.client().create()
    gw.stop()
    with sqlite3.connect(os.path.join(gw.state, "cellkeep.db")) as db:
        assert [r[1] for r in db.execute("SELECT * FROM tokens")] == ["kept"]
    for name in os.listdir(gw.state):
        path = os.path.join(gw.state, name)
        if os.path.isfile(path):
            with open(path, "rb") as f:
                assert m.text.encode() not in f.read(), name
    assert m.text not in gw.stderr()
    again = start("--pool-size", "1", state=gw.state)
    after = Client("127.0.0.1", again.port, m.text)
    assert ids(after.get("/v1/sessions")) == {sid} and after.get("/v1/sessions/" + main).status == 404
    assert [(t["id"], t["name"]) for t in again.client().get("/v1/tokens").json()] == [(m.id, "kept")]
    assert "token" not in again.client().get("/v1/tokens").json()[0]


def cli(gateway, *args, token=TOKEN):
    return subprocess.run([binary(), "token", *args, "--url", "http://127.0.0.1:%d" % gateway.port, "--token", token],
                          capture_output=True, text=True, timeout=60, stdin=subprocess.DEVNULL)


def test_the_command_line_makes_lists_and_revokes(gateway):
    made = cli(gateway, "create", "--name", "cli", "--max-sessions", "3")
    text = made.stdout.strip()
    assert made.returncode == 0 and text.startswith("ck_") and Client("127.0.0.1", gateway.port, text).get("/v1/sessions").status == 200
    table = cli(gateway, "list")
    assert "cli" in table.stdout and text not in table.stdout and table.stdout.startswith("NAME")
    assert [t["max_sessions"] for t in json.loads(cli(gateway, "list", "--json").stdout) if t["name"] == "cli"] == [3]
    refused = cli(gateway, "list", token=text)
    assert refused.returncode == 1 and "gateway's own token" in refused.stderr
    assert cli(gateway, "revoke", "cli").returncode == 0
    assert cli(gateway, "revoke", "cli").returncode == 1
    assert cli(gateway, "revoke").returncode == 2 and cli(gateway, "destroy").returncode == 2
    assert Client("127.0.0.1", gateway.port, text).get("/v1/sessions").status == 403

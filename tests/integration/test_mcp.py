"""The MCP door as bytes on the wire: both eras, their sessions, and everything that a client can get
wrong. What the real SDKs make of it is tests/clients/mcp.mjs."""
import base64
import json
import struct
import subprocess
import threading
import time

import pytest

from harness.gateway import TOKEN, binary, wait_for

MODERN = "2026-07-28"
BOTH = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}


class Mcp:
    """A client of the legacy era, or with modern=True one of the modern."""

    def __init__(self, gateway, modern=False, query="", version="2025-11-25"):
        self.api, self.modern, self.path, self.n, self.session = gateway.client(), modern, "/mcp" + query, 0, None
        if not modern:
            r = self.post({"method": "initialize", "params": {"protocolVersion": version, "capabilities": {},
                                                              "clientInfo": {"name": "t", "version": "1"}}})
            assert r.status == 200, r
            self.hello = r.json()["result"]
            self.session = r.headers["Mcp-Session-Id"]

    def headers(self, body):
        h = dict(BOTH)
        if self.session:
            h["Mcp-Session-Id"] = self.session
        if self.modern:
            h.update({"MCP-Protocol-Version": MODERN, "Mcp-Method": body["method"]})
            if body["method"] == "tools/call":
                h["Mcp-Name"] = body["params"]["name"]
        return h

    def body(self, message):
        body = {"jsonrpc": "2.0", **message}
        if "id" not in body and not body["method"].startswith("notifications/"):
            body["id"] = self.n
            self.n += 1
        if self.modern:
            body.setdefault("params", {}).setdefault("_meta", {})["io.modelcontextprotocol/protocolVersion"] = MODERN
        return body

    def post(self, message, headers=None, timeout=60):
        body = self.body(message)
        return self.api.post(self.path, body, headers={**self.headers(body), **(headers or {})}, timeout=timeout)

    def call(self, tool, ident=None, **args):
        message = {"method": "tools/call", "params": {"name": tool, "arguments": args}}
        r = self.post(message if ident is None else {**message, "id": ident})
        assert r.status == 200, r
        return r.json()["result"]

    def events(self, tool, token, **args):
        body = self.body({"method": "tools/call", "params": {"name": tool, "arguments": args, "_meta": {"progressToken": token}}})
        return self.api.events("POST", self.path, body, headers=self.headers(body))

    def end(self):
        return self.api.delete("/mcp", headers={"Mcp-Session-Id": self.session})


def text(result):
    return [c["text"] for c in result["content"] if c["type"] == "text"]


@pytest.fixture
def legacy(gateway):
    c = Mcp(gateway)
    yield c
    c.end()


@pytest.fixture
def modern(gateway):
    return Mcp(gateway, modern=True)


def test_a_client_keeps_its_session_and_delete_ends_it(gateway, api):
    c = Mcp(gateway)
    assert c.hello["protocolVersion"] == "2025-11-25" and "tools" in c.hello["capabilities"]
    assert c.post({"method": "notifications/initialized"}).status == 202
    assert text(c.call("run_python", code="set:x:7\nprint:begun")) == ["begun"]
    assert text(c.call("run_python", code="get:x")) == ["7"]
    other = Mcp(gateway)
    assert other.call("run_python", code="get:x")["isError"] is True
    handle = c.call("run_python", code="print:a")["_meta"]["cellkeep/session"]
    assert api.session(handle)["state"] in ("idle", "busy")
    assert c.end().status == 204 and other.end().status == 204
    wait_for("the session to be deleted", 10, lambda: api.get("/v1/sessions/" + handle).status == 404)
    assert c.post({"method": "ping"}).status == 404  # the client begins anew


def test_the_tools_are_listed_in_both_eras(legacy, modern):
    old = legacy.post({"method": "tools/list"}).json()["result"]
    new = modern.post({"method": "tools/list"}).json()["result"]
    assert [t["name"] for t in old["tools"]] == ["run_python", "run_command", "read_file", "write_file", "list_files",
                                                 "new_session", "close_session"]
    assert old["tools"] == new["tools"] and set(old) == {"tools"}
    assert new["resultType"] == "complete" and new["ttlMs"] > 0 and new["cacheScope"] == "private"
    assert new["_meta"]["io.modelcontextprotocol/serverInfo"]["name"] == "cellkeep"
    found = modern.post({"method": "server/discover"}).json()["result"]
    assert found["supportedVersions"] == [MODERN] and "tools" in found["capabilities"]


def test_the_modern_era_goes_on_with_a_handle(modern, api):
    r = modern.call("run_python", code="set:x:8\nprint:a")
    assert r["resultType"] == "complete" and r["isError"] is False
    handle = r["_meta"]["cellkeep/session"]
    assert text(r) == ["a", "session: " + handle]
    assert text(modern.call("run_python", code="get:x", session=handle)) == ["8"]
    made = modern.call("new_session", name="by hand")
    assert made["structuredContent"]["name"] == "by hand"
    assert text(modern.call("run_python", code="print:b", session="by hand")) == ["b"]
    assert "fresh" in text(modern.call("list_files"))[0]
    for h in (handle, "by hand"):
        assert modern.call("close_session", session=h)["isError"] is False
    assert modern.call("close_session", session=handle)["isError"] is True
    assert api.get("/v1/sessions/" + handle).status == 404


def test_results_hold_text_pictures_links_and_errors(legacy):
    r = legacy.call("run_python", code="print:out\nerr:bad\npng\ntouch:d/ä.csv:5\nthe result")
    kinds = [c["type"] for c in r["content"]]
    assert kinds == ["text", "text", "image", "text", "resource_link"] and r["isError"] is False
    assert text(r) == ["out", "stderr:\nbad", "the result"]
    assert "\n" not in r["content"][2]["data"] and r["content"][2]["mimeType"] == "image/png"
    link = r["content"][4]
    assert link["name"] == "ä.csv" and link["size"] == 5 and link["uri"].startswith("http://127.0.0.1:")
    assert legacy.api.get("/" + link["uri"].split("/", 3)[3]).body == b"fffff"
    r = legacy.call("run_python", code="touch:slow.open:5")
    assert [c["type"] for c in r["content"]] == ["resource_link", "text"] and "still being written" in text(r)[0]
    r = legacy.call("run_python", code="error:ValueError:told")
    assert r["isError"] is True and "ValueError: told" in text(r)[0]
    r = legacy.call("run_python", code="print:a\nsleep:60000", timeout_s=0.5)
    assert r["isError"] is True and text(r)[-1].startswith("The code ended: timeout")


def test_a_picture_is_shown_once_and_not_larger_than_models_look_at(legacy):
    r = legacy.call("run_python", code="bigpng:4000:3000\npng\npngfile:chart.png")
    assert [c["type"] for c in r["content"]] == ["image", "image", "text"]
    head = base64.b64decode(r["content"][0]["data"])
    assert struct.unpack(">II", head[16:24]) == (1568, 1176)
    assert text(r) == ["created file /home/user/chart.png (image/png, 69 bytes, a picture shown above)"]
    big = head[:16] + struct.pack(">II", 3136, 100) + head[24:]
    legacy.call("write_file", path="big.png", content=base64.b64encode(big).decode(), encoding="base64")
    r = legacy.call("read_file", path="big.png")
    assert struct.unpack(">II", base64.b64decode(r["content"][0]["data"])[16:24]) == (1568, 50)
    r = legacy.call("run_python", code="agent:shrink:fails\nbigpng:4000:3000")
    assert [c["type"] for c in r["content"]] == ["image", "text"] and r["isError"] is False
    assert "4000 x 3000" in text(r)[0]
    r = legacy.call("read_file", path="big.png")
    assert [c["type"] for c in r["content"]] == ["image", "text"] and "3136 x 100" in text(r)[0]


def test_an_old_client_gets_no_kind_of_content_that_it_does_not_know(gateway):
    c = Mcp(gateway, version="2025-03-26")
    assert c.hello["protocolVersion"] == "2025-03-26"
    r = c.call("run_python", code="touch:a.csv:5")
    assert [x["type"] for x in r["content"]] == ["text"] and "/home/user/a.csv" in text(r)[0]
    c.end()
    c = Mcp(gateway, version="1999-01-01")
    assert c.hello["protocolVersion"] == "2025-11-25"
    c.end()


def test_files_are_written_read_and_listed(legacy):
    assert text(legacy.call("write_file", path="a/b.txt", content="grüße\n")) == ["wrote /home/user/a/b.txt, 8 bytes"]
    assert text(legacy.call("read_file", path="a/b.txt")) == ["grüße\n"]
    whole = legacy.call("read_file", path="/home/user/a/b.txt", limit=4)
    assert text(whole) == ["grü", "[bytes 0 to 4 of 8; go on with offset 4]"]
    assert text(legacy.call("read_file", path="a/b.txt", offset=4)) == ["ße\n"]
    # A character that the limit cuts is left for the next part.
    cut = legacy.call("read_file", path="a/b.txt", limit=3)
    assert text(cut) == ["gr", "[bytes 0 to 2 of 8; go on with offset 2]"]
    legacy.call("write_file", path="z.bin", content="AAECAw==", encoding="base64")
    blob = legacy.call("read_file", path="z.bin")["content"][0]
    assert blob["type"] == "resource" and blob["resource"]["blob"] == "AAECAw=="
    big = "x" * 700_000
    assert legacy.call("write_file", path="big.txt", content=big)["isError"] is False
    assert text(legacy.call("read_file", path="big.txt", offset=699_998)) == ["xx"]
    assert "b.txt" in text(legacy.call("list_files", path="a"))[0]
    assert legacy.call("read_file", path="none.txt")["isError"] is True
    assert legacy.call("read_file", path="../../etc/passwd")["isError"] is True


def test_commands_return_output_and_exit_code(legacy):
    assert text(legacy.call("run_command", command="echo hello")) == ["hello"]
    assert text(legacy.call("run_command", command="cat", stdin="in")) == ["in"]
    r = legacy.call("run_command", command="exit 3")
    assert r["isError"] is True and text(r) == ["exit code 3"]
    r = legacy.call("run_command", command="sleep 60", timeout_s=0.5)
    assert r["isError"] is True and "too long" in text(r)[-1]


def test_wrong_arguments_are_told_to_the_model_and_wrong_calls_to_the_client(legacy):
    r = legacy.call("run_python", kode="1")
    assert r["isError"] is True and "kode" in text(r)[0] and "code" in text(r)[0]
    assert legacy.call("run_python", code="1", session="nobody")["isError"] is True
    for params in ({"name": "no_such_tool"}, {"name": 7}, {}, {"name": "run_python", "arguments": [1]}):
        e = legacy.post({"method": "tools/call", "params": params})
        assert e.status == 200 and e.json()["error"]["code"] == -32602
    assert legacy.post({"method": "no/such"}).json()["error"]["code"] == -32601


def test_progress_is_told_and_grows(legacy):
    seen = [json.loads(e.data) for e in legacy.events("run_python", "tok", code="count:6:300")]
    progress = [m["params"] for m in seen[:-1]]
    assert all(m["method"] == "notifications/progress" for m in seen[:-1]) and len(progress) >= 3
    assert all(p["progressToken"] == "tok" for p in progress)
    values = [p["progress"] for p in progress]
    assert values == sorted(set(values)) and progress[-1]["message"].isdigit()
    assert text(seen[-1]["result"]) == ["0\n1\n2\n3\n4\n5"]


def test_a_token_of_zero_is_a_token(legacy):
    seen = [json.loads(e.data) for e in legacy.events("run_python", 0, code="print:a")]
    assert seen[0]["params"]["progressToken"] == 0 and "result" in seen[-1]


def test_a_cancelled_call_interrupts_the_kernel_and_is_not_answered(legacy):
    legacy.call("run_python", code="set:x:kept")
    seen = []

    def run():
        seen.extend(json.loads(e.data) for e in legacy.events("run_python", "t", code="print:begun\nsleep:60000"))

    t = threading.Thread(target=run)
    ident = legacy.n
    t.start()
    handle = legacy.call("run_python", ident="look", code="x", session="nobody")  # answered meanwhile
    assert handle["isError"]
    sid = [s["id"] for s in legacy.api.get("/v1/sessions").json() if s["metadata"].get("mcp_session") == legacy.session][0]
    wait_for("the cell to run", 20, lambda: legacy.api.session(sid)["state"] == "busy")
    assert legacy.post({"method": "notifications/cancelled", "params": {"requestId": ident}}).status == 202
    t.join(20)
    assert not t.is_alive() and not any("result" in m for m in seen)
    assert text(legacy.call("run_python", code="get:x")) == ["kept"]


def test_a_modern_client_that_leaves_cancels_and_a_legacy_one_does_not(gateway, modern, legacy):
    handle = modern.call("new_session")["structuredContent"]["session"]
    events = modern.events("run_python", "t", code="print:begun\nsleep:60000", session=handle)
    next(events)
    assert modern.api.session(handle)["state"] == "busy"
    events.close()
    wait_for("the cell to be cancelled", 20, lambda: modern.api.session(handle)["state"] == "idle")
    modern.call("close_session", session=handle)

    events = legacy.events("run_python", "t", code="print:begun\nsleep:1500\nset:done:yes")
    next(events)
    events.close()
    assert text(legacy.call("run_python", code="get:done")) == ["yes"]


def test_two_calls_at_once_share_the_one_session_that_is_started(gateway):
    c = Mcp(gateway)
    got = []
    ts = [threading.Thread(target=lambda i=i: got.append(c.call("run_python", ident="c%d" % i, code="print:%d" % i))) for i in range(4)]
    for t in ts:
        t.start()
    for t in ts:
        t.join()
    assert sorted(text(r)[0] for r in got) == ["0", "1", "2", "3"]
    assert len({r["_meta"]["cellkeep/session"] for r in got}) == 1
    c.end()


def test_a_session_by_name_is_kept(gateway, api):
    c = Mcp(gateway, query="?session=my%20work")
    c.call("run_python", code="set:x:1")
    c.end()
    c = Mcp(gateway, query="?session=my%20work")
    assert text(c.call("run_python", code="get:x")) == ["1"]
    c.end()
    found = api.get("/v1/sessions?name=my%20work").json()
    assert len(found) == 1
    api.delete("/v1/sessions/" + found[0]["id"])


def test_a_session_that_ended_is_replaced_and_the_model_is_told(legacy, api):
    legacy.call("run_python", code="exit_qemu")
    r = legacy.call("run_python", code="print:again")
    assert "fresh" in text(r)[0] and text(r)[1] == "again"


def test_a_restarted_gateway_finds_the_client_s_session(start):
    gw = start("--pool-size", "1")
    c = Mcp(gw)
    c.call("run_python", code="set:x:kept")
    gw.stop()
    again = start("--pool-size", "1", state=gw.state)
    c.api = again.client()
    assert text(c.call("run_python", code="get:x")) == ["kept"]
    c.end()
    assert c.post({"method": "ping"}).status == 404


@pytest.mark.parametrize("body, code", [
    (b"", -32700), (b"{", -32700), (b"[]", -32600), (b'{"jsonrpc":"2.0","id":1}', -32600),
    (b'{"jsonrpc":"1.0","id":1,"method":"ping"}', -32600), (b'{"jsonrpc":"2.0","id":[],"method":"ping"}', -32600),
    (b'{"jsonrpc":"2.0","id":1,"method":"ping","params":7}', -32600), (b'"\xff"', -32700),
])
def test_bytes_that_are_no_message_are_400(api, body, code):
    r = api.post("/mcp", body, headers=BOTH)
    assert r.status == 400 and r.json()["error"]["code"] == code and r.json()["id"] is None


def test_http_is_checked_before_the_message(gateway, api, legacy):
    ping = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "ping"}).encode()
    one = {"Mcp-Session-Id": legacy.session}
    assert api.post("/mcp", ping, headers={**BOTH, **one}).status == 200
    assert api.post("/mcp", ping, headers={**BOTH, **one, "Accept": "application/json"}).status == 406
    assert api.post("/mcp", ping, headers={**BOTH, **one, "Content-Type": "text/plain"}).status == 415
    assert api.post("/mcp", ping, headers={**BOTH, **one, "MCP-Protocol-Version": "1999-01-01"}).status == 400
    assert api.post("/mcp", ping, headers=BOTH).status == 400
    assert api.post("/mcp", ping, headers={**BOTH, "Mcp-Session-Id": "00000000-0000-4000-8000-000000000000"}).status == 404
    assert api.post("/mcp", ping, headers={**BOTH, **one, "Origin": "http://evil.example"}).status == 403
    assert api.post("/mcp", ping, headers={**BOTH, **one, "Origin": "http://127.0.0.1:%d" % gateway.port}).status == 200
    assert api.get("/mcp").status == 405
    stranger = gateway.client()
    stranger.token = "wrong"
    r = stranger.post("/mcp", ping, headers=BOTH)
    assert r.status == 401 and r.headers["WWW-Authenticate"].startswith("Bearer")


@pytest.mark.parametrize("change, code, status", [
    ({"MCP-Protocol-Version": "2025-11-25"}, -32020, 400), ({"Mcp-Method": "tools/list"}, -32020, 400),
    ({"Mcp-Name": "run_command"}, -32020, 400), ({"Mcp-Name": "=?base64?cnVuX3B5dGhvbg==?="}, None, 200),
])
def test_modern_headers_must_say_what_the_body_says(modern, change, code, status):
    r = modern.post({"method": "tools/call", "params": {"name": "run_python", "arguments": {}}}, headers=change)
    assert r.status == status and (code is None or r.json()["error"]["code"] == code)


def test_modern_versions_and_methods_that_are_unknown(modern):
    body = {"method": "tools/list", "params": {"_meta": {"io.modelcontextprotocol/protocolVersion": "2030-01-01"}}, "id": 5, "jsonrpc": "2.0"}
    r = modern.api.post("/mcp", body, headers={**BOTH, "MCP-Protocol-Version": "2030-01-01", "Mcp-Method": "tools/list"})
    assert r.status == 400 and r.json()["error"]["code"] == -32022 and r.json()["id"] == 5
    assert r.json()["error"]["data"] == {"supported": [MODERN], "requested": "2030-01-01"}
    r = modern.post({"method": "prompts/list"})
    assert r.status == 404 and r.json()["error"]["code"] == -32601


class Stdio:
    def __init__(self, gateway, *options):
        self.p = subprocess.Popen([binary(), "mcp", "--url", "http://127.0.0.1:%d" % gateway.port, "--token", TOKEN, *options],
                                  stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def write(self, message):
        self.p.stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
        self.p.stdin.flush()

    def read(self):
        return json.loads(self.p.stdout.readline())

    def ask(self, **message):
        self.write(message)
        return self.read()

    def tool(self, ident, name, modern=False, **args):
        params = {"name": name, "arguments": args}
        if modern:
            params["_meta"] = {"io.modelcontextprotocol/protocolVersion": MODERN}
        return self.ask(id=ident, method="tools/call", params=params)["result"]

    def end(self):
        self.p.stdin.close()
        assert self.p.wait(20) == 0 and self.p.stderr.read() == b""


INIT = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}


def test_stdio_carries_both_eras_and_ends_its_session(gateway, api):
    before = {s["id"] for s in api.get("/v1/sessions").json()}
    s = Stdio(gateway)
    assert s.ask(id=0, method="initialize", params=INIT)["result"]["serverInfo"]["name"] == "cellkeep"
    s.write({"method": "notifications/initialized"})
    assert text(s.tool(1, "run_python", code="set:x:1\nprint:a")) == ["a"]
    assert text(s.tool("two", "run_python", code="get:x")) == ["1"]
    assert s.ask(id=3, method="no/such")["error"]["code"] == -32601
    s.p.stdin.write(b"no json\n")
    s.p.stdin.flush()
    assert s.read()["error"]["code"] == -32700
    s.end()
    m = Stdio(gateway)
    meta = {"_meta": {"io.modelcontextprotocol/protocolVersion": MODERN}}
    assert m.ask(id=0, method="server/discover", params=meta)["result"]["supportedVersions"] == [MODERN]
    # One client, so it has a session of its own although its era knows none.
    m.tool(1, "run_python", modern=True, code="set:x:2")
    assert text(m.tool(2, "run_python", modern=True, code="get:x")) == ["2"]
    m.end()
    wait_for("both sessions to be deleted", 20, lambda: {s["id"] for s in api.get("/v1/sessions").json()} <= before)


@pytest.mark.parametrize("modern", [False, True])
def test_stdio_passes_a_cancellation_on(gateway, modern):
    s = Stdio(gateway)
    s.ask(id=0, method="initialize", params=INIT)
    s.tool(1, "run_python", modern=modern, code="set:x:kept")
    params = {"name": "run_python", "arguments": {"code": "print:begun\nsleep:60000"}, "_meta": {"progressToken": "p"}}
    if modern:
        params["_meta"]["io.modelcontextprotocol/protocolVersion"] = MODERN
    s.write({"id": 2, "method": "tools/call", "params": params})
    assert s.read()["method"] == "notifications/progress"
    s.write({"method": "notifications/cancelled", "params": {"requestId": 2}})
    begun = time.monotonic()
    s.write({"id": 3, "method": "tools/call", "params": {**params, "arguments": {"code": "get:x"}}})
    while (m := s.read()).get("id") != 3:
        assert m.get("id") != 2
    assert text(m["result"]) == ["kept"] and time.monotonic() - begun < 50
    s.end()


def test_stdio_without_a_gateway_answers_with_an_error():
    class Nobody:
        port = 9  # discard: nobody listens
    s = Stdio(Nobody)
    e = s.ask(id=0, method="initialize", params=INIT)["error"]
    assert e["code"] == -32603 and "no gateway answers" in e["message"]
    s.end()


def test_stdio_outlives_a_restart_of_the_gateway(start):
    gw = start("--pool-size", "1")
    port = gw.port
    s = Stdio(gw)
    s.ask(id=0, method="initialize", params=INIT)
    gw.kill()
    start("--pool-size", "1", "--port", str(port), state=gw.state)
    assert text(s.tool(1, "run_python", code="print:again")) == ["again"]
    s.end()

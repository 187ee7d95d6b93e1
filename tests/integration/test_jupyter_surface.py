"""What Jupyter's clients rely on, one test a rule: statuses exactly, fields exactly, bodies as they are
sent in the field. The kernel gateway's own suite is expressed again here where it is of use."""
import json
import re
import socket
import uuid

import pytest
import websocket

from harness.client import Client
from harness.gateway import TOKEN
from harness.jupyter import Socket, reply

NOBODY = "7d444840-9dc0-41d1-b245-5ffdce74fad2"  # the same in every process of a test run
SIX_DIGITS = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z$")
UUID4 = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$")


def is_kernel(k):
    assert set(k) == {"id", "name", "last_activity", "execution_state", "connections"}, k
    assert UUID4.match(k["id"]) and k["name"] == "python3" and SIX_DIGITS.match(k["last_activity"])
    assert k["execution_state"] in ("starting", "idle", "busy") and isinstance(k["connections"], int)
    return k


def is_session(s):
    assert set(s) - {"notebook"} == {"id", "path", "name", "type", "kernel"}, s
    assert ("notebook" in s) == (s["type"] == "notebook")
    assert s.get("notebook", {"path": s["path"], "name": s["name"]}) == {"path": s["path"], "name": s["name"]}
    is_kernel(s["kernel"])
    return s


def error(r, status):
    assert r.status == status and r.headers["Content-Type"] == "application/json", r
    body = r.json()
    assert body["message"] and "reason" in body, body
    return body


@pytest.fixture
def kernel(api):
    k = is_kernel(api.post("/api/kernels").json())
    yield k["id"]
    api.delete("/api/kernels/" + k["id"])


# --- the rules for every client ----------------------------------------------------------------------

@pytest.mark.parametrize("query", ["?1795961276983", "?a=b&1795961276983", "?", "?user=someone", "?user=x/python3"])
def test_unknown_query_parameters_are_ignored(api, query):
    for path in ("/api/kernels", "/api/kernelspecs", "/api/sessions", "/api/status", "/api/me"):
        r = api.get(path + query)
        assert r.status == 200 and r.headers["Content-Type"] == "application/json", (path, r)


@pytest.mark.parametrize("headers,body", [
    ({"Content-Type": "text/plain;charset=UTF-8"}, b'{"name":"python3"}'), ({}, b""), ({}, None),
    ({"Content-Type": "application/octet-stream", "Content-Length": "0"}, b""),
    ({"Content-Type": "application/x-www-form-urlencoded"}, b"{}"), ({"Connection": "close"}, b"{}"),
    ({"Content-Type": "application/json"}, json.dumps({"env": {"V%d" % i: "x" * 80 for i in range(500)}}).encode()),
])
def test_a_body_is_json_whatever_its_type_and_may_be_absent(api, headers, body):
    r = api.request("POST", "/api/kernels", body, headers=headers)
    assert r.status == 201, r
    assert api.delete("/api/kernels/" + r.json()["id"]).status == 204


def test_a_chunked_body_is_taken(api):
    c = api.connection()
    c.request("POST", "/api/sessions", iter([b'{"path":"ch', b'unked","type"', b':"console"}']), api.headers(),
              encode_chunked=True)
    r = c.getresponse()
    s = is_session(json.loads(r.read()))
    assert r.status == 201 and s["path"] == "chunked"
    c.close()
    api.delete("/api/sessions/" + s["id"])


def test_a_trailing_slash_and_head_are_the_same_resource(api, kernel):
    for path in ("/api", "/api/kernels", "/api/kernelspecs", "/api/kernels/" + kernel):
        assert api.get(path + "/").status == 200
        head = api.request("HEAD", path)
        assert head.status == 200 and head.body == b"" and int(head.headers["Content-Length"]) == len(api.get(path).body)


def test_requests_are_kept_alive_or_closed_as_the_client_wants(gateway, api):
    raw = "GET /api HTTP/1.1\r\nHost: x\r\n%s\r\n"
    with socket.create_connection(("127.0.0.1", gateway.port), 10) as s:
        s.sendall((raw % "" + raw % "" + raw % "Connection: close\r\n").encode())
        text = b""
        while more := s.recv(65536):
            text += more
    assert text.count(b"HTTP/1.1 200") == 3


@pytest.mark.parametrize("headers,query,status", [
    ({"Authorization": "token " + TOKEN}, "", 200), ({"Authorization": "Token " + TOKEN}, "", 200),
    ({"Authorization": "Bearer " + TOKEN}, "", 200), ({}, "?token=" + TOKEN, 200),
    ({"Authorization": "token "}, "?token=" + TOKEN, 200),
    ({}, "", 403), ({"Authorization": "token "}, "", 403), ({"Authorization": "token wrong"}, "", 403), ({}, "?token=", 403),
])
def test_the_token_is_taken_in_every_form(gateway, headers, query, status):
    r = Client("127.0.0.1", gateway.port, None).get("/api/kernels" + query, headers=headers)
    if status == 200:
        assert r.status == 200
    else:
        assert error(r, 403)["message"] == "Forbidden"


def test_a_preflight_is_answered_for_every_path_without_token(gateway):
    nobody = Client("127.0.0.1", gateway.port, None)
    for path in ("/api/kernels", "/api/sessions/" + NOBODY, "/nope", "/"):
        r = nobody.request("OPTIONS", path, headers={"Origin": "https://x", "Access-Control-Request-Method": "POST"})
        assert r.status == 204 and r.body == b""
        for word in ("accept", "content-type", "authorization", "x-xsrftoken"):
            assert word in r.headers["Access-Control-Allow-Headers"]
        assert r.headers["Access-Control-Allow-Methods"] == "GET, PUT, POST, PATCH, DELETE, OPTIONS"
        assert int(r.headers["Access-Control-Max-Age"]) > 0


def test_what_a_client_probes_for_other_servers_is_absent(gateway, api):
    nobody = Client("127.0.0.1", gateway.port, None)
    assert nobody.get("/").status == 200 and nobody.get("/tree?").status in (200, 404)
    for path in ("/hub/api", "/login?", "/api/contents", "/api/terminals", "/lab/api/settings", "/api/nbconvert"):
        assert error(api.get(path), 404)


# --- kernels and kernelspecs -------------------------------------------------------------------------

def test_the_version_is_for_everybody(gateway):
    r = Client("127.0.0.1", gateway.port, None).get("/api")
    assert r.status == 200 and set(r.json()) == {"version"}


def test_kernelspecs_have_all_fields(api):
    all_ = api.get("/api/kernelspecs").json()
    assert all_["default"] == "python3" and list(all_["kernelspecs"]) == ["python3"]
    one = all_["kernelspecs"]["python3"]
    assert set(one) == {"name", "spec", "resources"} and one["name"] == "python3" and one["resources"] == {}
    assert set(one["spec"]) == {"argv", "display_name", "language", "env", "interrupt_mode", "metadata"}
    assert one["spec"]["language"] == "python" and one["spec"]["interrupt_mode"] in ("signal", "message")
    for name in ("python3", "python"):
        assert api.get("/api/kernelspecs/" + name).json() == one
    error(api.get("/api/kernelspecs/nope"), 404)
    error(api.get("/kernelspecs/python3/logo-64x64.png"), 404)


def test_the_life_of_a_kernel_by_rest(api):
    r = api.post("/api/kernels", {"name": "python"})
    k = is_kernel(r.json())
    assert r.status == 201 and r.headers["Location"] == "/api/kernels/" + k["id"]
    path = "/api/kernels/" + k["id"]
    assert is_kernel(api.get(path).json())["id"] == k["id"]
    assert k["id"] in [is_kernel(x)["id"] for x in api.get("/api/kernels").json()]
    for body in (None, b"", b"{}", {}):
        r = api.post(path + "/interrupt", body)
        assert (r.status, r.body) == (204, b"") and "Content-Type" not in r.headers
    for body in (None, b"{}"):
        r = api.post(path + "/restart", body, timeout=90)
        assert r.status == 200 and is_kernel(r.json())["id"] == k["id"]
    r = api.delete(path)
    assert (r.status, r.body) == (204, b"")
    for method, tail in (("GET", ""), ("DELETE", ""), ("POST", "/interrupt"), ("POST", "/restart")):
        assert k["id"] in error(api.request(method, path + tail), 404)["message"]


@pytest.mark.parametrize("ident", [NOBODY, "not-a-uuid", "a-b-c-d-e", "%F0%9F%8D%95"])
def test_an_unknown_kernel_is_a_404_in_json(api, ident):
    error(api.get("/api/kernels/" + ident), 404)
    error(api.delete("/api/kernels/" + ident), 404)


@pytest.mark.parametrize("body", [b"{", b"[]", b'"x"', b"nul", b'{"name":1}', b'{"name":"x",}', b"\xff\xfe"])
def test_a_bad_body_is_400(api, body):
    error(api.post("/api/kernels", body), 400)
    error(api.post("/api/sessions", body), 400)


def test_an_unknown_kernel_name_is_what_clients_look_for(api):
    r = api.post("/api/kernels", {"name": "nope"})
    assert r.status == 500 and b"raise NoSuchKernel" in r.body and r.json()["message"]
    r = api.post("/api/sessions", {"path": "x", "type": "notebook", "kernel": {"name": "nope"}})
    assert r.status == 501 and r.json()["short_message"] == "nope not found" and r.json()["message"]


def test_status_me_and_events(gateway, api, kernel):
    status = api.get("/api/status").json()
    assert set(status) == {"connections", "kernels", "last_activity", "started"} and status["kernels"] >= 1
    assert SIX_DIGITS.match(status["started"]) and SIX_DIGITS.match(status["last_activity"])
    me = api.get("/api/me").json()
    assert set(me) == {"identity", "permissions"}
    assert set(me["identity"]) == {"username", "name", "display_name", "initials", "avatar_url", "color"}
    r = api.post("/api/events", {"schema_id": "x"})
    assert (r.status, r.body) == (204, b"")
    ws = websocket.create_connection("ws://127.0.0.1:%d/api/events/subscribe?token=%s" % (gateway.port, TOKEN), timeout=10)
    ws.ping("still there")
    assert ws.recv_frame().data == b"still there"
    ws.close()


def test_connections_and_state_show_in_the_model(gateway, api, kernel):
    a, b = Socket(gateway, kernel, TOKEN), Socket(gateway, kernel, TOKEN)
    a.execute("print:x")
    assert api.get("/api/kernels/" + kernel).json()["connections"] == 2
    mid = a.send("execute_request", {"code": "sleep:700", "silent": False})
    while a.recv(10)["msg_type"] != "execute_input":
        pass
    assert api.get("/api/kernels/" + kernel).json()["execution_state"] == "busy"
    a.until_done(mid)
    assert api.get("/api/kernels/" + kernel).json()["execution_state"] == "idle"
    a.close()
    b.close()


# --- sessions ----------------------------------------------------------------------------------------

@pytest.fixture
def notebook(api):
    r = api.post("/api/sessions", {"path": "dir/%s.ipynb" % uuid.uuid4(), "type": "notebook", "name": "n",
                                   "kernel": {"name": "python3"}})
    assert r.status == 201 and r.headers["Location"] == "/api/sessions/" + r.json()["id"]
    yield is_session(r.json())
    api.delete("/api/sessions/" + r.json()["id"])


def test_the_life_of_a_session(api, notebook):
    path = "/api/sessions/" + notebook["id"]
    assert is_session(api.get(path).json())["kernel"]["id"] == notebook["kernel"]["id"]
    assert [s["id"] for s in api.get("/api/sessions").json()].count(notebook["id"]) == 1
    again = api.post("/api/sessions", {"path": notebook["path"], "type": "notebook", "kernel": {"name": "python3"}})
    assert again.status == 201 and again.json()["id"] == notebook["id"]
    r = api.delete(path)
    assert (r.status, r.body) == (204, b"")
    for method in ("GET", "DELETE"):
        error(api.request(method, path), 404)
    error(api.request("PATCH", path, {"path": "x"}), 404)
    error(api.get("/api/kernels/" + notebook["kernel"]["id"]), 404)


def test_the_older_body_of_a_session_is_understood(api):
    r = api.post("/api/sessions", {"id": "any", "notebook": {"path": "anywhere"}, "kernel": {"name": "python"}})
    s = is_session(r.json())
    assert r.status == 201 and s["path"] == "anywhere" and s["type"] == "notebook"
    assert api.delete("/api/sessions/" + s["id"]).status == 204


@pytest.mark.parametrize("body,missing", [({"type": "notebook"}, "path"), ({"path": "x"}, "type")])
def test_a_missing_field_is_named(api, body, missing):
    assert error(api.post("/api/sessions", body), 400)["message"] == "Missing field in JSON data: " + missing


def test_a_session_is_changed_field_by_field(api, notebook):
    path = "/api/sessions/" + notebook["id"]
    for change in ({"path": "other.ipynb"}, {"name": "renamed"}, {"type": "console"}, {"id": notebook["id"], "name": "again"}):
        r = api.request("PATCH", path, change)
        assert r.status == 200 and all(is_session(r.json())[k] == v for k, v in change.items())
    assert r.json()["path"] == "other.ipynb" and r.json()["kernel"]["id"] == notebook["kernel"]["id"]


def test_another_kernel_for_a_session_ends_the_old_one(api, notebook, kernel):
    path, old = "/api/sessions/" + notebook["id"], notebook["kernel"]["id"]
    r = api.request("PATCH", path, {"kernel": {"name": "python3"}})
    new = is_session(r.json())["kernel"]["id"]
    assert r.status == 200 and new != old
    error(api.get("/api/kernels/" + old), 404)
    r = api.request("PATCH", path, {"kernel": {"id": kernel}})
    assert r.status == 200 and r.json()["kernel"]["id"] == kernel
    error(api.get("/api/kernels/" + new), 404)
    assert api.request("PATCH", path, {"kernel": {"name": "nope"}}).status == 501
    error(api.request("PATCH", path, {"kernel": {"id": NOBODY}}), 400)


def test_a_session_whose_kernel_is_gone_says_so(api, notebook):
    assert api.delete("/api/kernels/" + notebook["kernel"]["id"]).status == 204
    error(api.delete("/api/sessions/" + notebook["id"]), 410)
    assert notebook["id"] not in [s["id"] for s in api.get("/api/sessions").json()]


def test_a_kernel_that_exists_can_get_a_session(api, kernel):
    s = is_session(api.post("/api/sessions", {"path": "byid", "type": "notebook", "kernel": {"id": kernel}}).json())
    assert s["kernel"]["id"] == kernel
    assert api.delete("/api/sessions/" + s["id"]).status == 204


# --- sockets -----------------------------------------------------------------------------------------

def test_kernel_info_comes_within_ten_messages(gateway, kernel):
    for v1 in (True, False):
        s = Socket(gateway, kernel, TOKEN, v1=v1, query=False)
        s.send("kernel_info_request", {})
        assert "kernel_info_reply" in [s.recv(10)["msg_type"] for _ in range(3)]
        s.close()


def test_nothing_reaches_a_legacy_client_without_its_parent(gateway, api, kernel):
    """The kernel's own first "starting" has no parent, and old clients index into it."""
    s = Socket(gateway, kernel, TOKEN, v1=False)
    assert api.post("/api/kernels/%s/restart" % kernel, timeout=90).status == 200
    got = s.execute("print:x")
    assert reply(got)["status"] == "ok" and all(m["parent_header"]["msg_id"] for m in got)
    s.close()


def test_a_subprotocol_is_picked_when_it_was_offered(gateway, kernel):
    url = "ws://127.0.0.1:%d/api/kernels/%s/channels?token=%s" % (gateway.port, kernel, TOKEN)
    v1 = "v1.kernel.websocket.jupyter.org"
    for offer, want in (([v1], v1), (["other", v1], v1), (None, None)):
        ws = websocket.create_connection(url, timeout=10, subprotocols=offer)
        assert ws.subprotocol == want
        ws.close()

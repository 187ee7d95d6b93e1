"""Requests that are wrong get the right status and a JSON error that says what would be right."""
import socket
import time

import pytest

from harness.client import Client
from harness.gateway import wait_for

NOBODY = "00000000-0000-4000-8000-000000000000"


def refused(answer, status, reason=None):
    assert answer.status == status, answer
    assert answer.headers["Content-Type"].startswith("application/json"), answer.headers
    body = answer.json()
    assert body["message"], body
    assert "Traceback" not in body["message"] and "<html" not in body["message"].lower()
    if reason:
        assert body.get("code", body["reason"]) == reason, body  # the Jupyter door has the word in "code"
    return body


@pytest.mark.parametrize("path", ["/v1/sessions", "/v1/sessions/" + NOBODY, "/api/kernels", "/api/sessions"])
def test_without_a_token_nothing_is_shown(gateway, path):
    for token in (None, "", "wrong", "test-token"):
        r = Client("127.0.0.1", gateway.port, token).get(path)
        assert r.status in (401, 403), (token, r)
        refused(r, r.status)


def test_every_way_to_say_the_token_works(gateway):
    c = Client("127.0.0.1", gateway.port, None)
    token = gateway.client().token
    for scheme in ("Bearer", "token", "Token", "TOKEN", "bearer"):
        assert c.get("/api/kernels", headers={"Authorization": scheme + " " + token}).status == 200, scheme
    assert c.get("/api/kernels?token=" + token).status == 200
    assert c.get("/api/kernels?token=" + token, headers={"Authorization": "Bearer wrong"}).status in (401, 403)


def test_health_and_readiness_need_no_token(gateway):
    c = Client("127.0.0.1", gateway.port, None)
    assert c.get("/healthz").status == 200
    wait_for("readiness", 20, lambda: c.get("/readyz").status == 200)  # the pool fills after the ready line


@pytest.mark.parametrize("method,path,body", [
    ("GET", "/v1/sessions/%s", None), ("DELETE", "/v1/sessions/%s", None), ("PATCH", "/v1/sessions/%s", {}),
    ("POST", "/v1/sessions/%s/cells", {"code": "1"}), ("POST", "/v1/sessions/%s/interrupt", {}),
    ("POST", "/v1/sessions/%s/restart", {}), ("GET", "/v1/sessions/%s/events", None),
    ("GET", "/v1/sessions/%s/files/home/user", None), ("PUT", "/v1/sessions/%s/files/home/user/x", "data"),
    ("POST", "/v1/sessions/%s/commands", {"cmd": "echo"}), ("GET", "/api/kernels/%s", None),
    ("DELETE", "/api/kernels/%s", None), ("POST", "/api/kernels/%s/interrupt", {}), ("GET", "/api/sessions/%s", None),
])
@pytest.mark.parametrize("ident", [NOBODY, "nobody", "%2e%2e"])
def test_an_unknown_session_is_404(api, method, path, body, ident):
    refused(api.request(method, path % ident, body), 404)


@pytest.mark.parametrize("path", ["/nope", "/v1", "/v1/nope", "/v2/sessions", "/api/nope"])
def test_an_unknown_path_is_404(api, path):
    refused(api.get(path), 404)


def test_a_wrong_method_is_405(api):
    r = api.request("PUT", "/v1/sessions", {})
    refused(r, 405)
    assert "GET" in r.headers.get("Allow", "") and "POST" in r.headers.get("Allow", "")


@pytest.mark.parametrize("body,line,column", [('{"code": }', 1, 10), ('{"a":1,\n  "b" 2}', 2, 7), ("{", 1, 2)])
def test_malformed_json_is_400_with_the_position(api, session, body, line, column):
    said = refused(api.post("/v1/sessions/%s/cells" % session, body), 400, "bad_json")
    assert "line %d" % line in said["message"] and "column %d" % column in said["message"], said


@pytest.mark.parametrize("body,words", [
    ('{"code": "x"', "ends before"), ("{'code': 1}", "double quotes"), ('{"code": "a\nb"}', "\\n"),
    ('{"code": "a\\q"}', "backslash"), ('{"code": tru}', '"t" is not'), ('{"code": 1,}', "is not what JSON has"),
    ('{"code": "a\\u0000b"}', "NUL character"), ('{"code": "\\ud800"}', "surrogate"),
    ('{"code": 1, "code": 2}', "same key twice"), ('{"code": 99999999999999999999}', "64 bits"),
    ('{"code": 1e999}', "too large"), ("[" * 200 + "]" * 200, "nested deeper than 128"),
    ('{"code": [%s1]}' % ("1," * 200000), "more than 200000 values")])
def test_what_is_wrong_with_json_is_said_in_plain_words(api, session, body, words):
    said = refused(api.post("/v1/sessions/%s/cells" % session, body), 400, "bad_json")["message"]
    assert words in said and len(said) < 200, said
    assert "column" in said or "values" in said
    for library in ("JSON_", "jansson", "near", "token"):
        assert library not in said, said


@pytest.mark.parametrize("body", [b'{"code":"\xff"}', b'{"code":"\xed\xa0\x80"}', b'\xff\xfe{}'])
def test_code_that_is_not_utf8_is_400(api, session, body):
    said = refused(api.post("/v1/sessions/%s/cells" % session, body), 400)
    assert "UTF-8" in said["message"], said


@pytest.mark.parametrize("body", [{}, {"code": 7}, {"code": None}, [], "text", {"code": "1", "timeout_s": -1},
                                  {"code": "1", "timeout_s": "x"}, {"code": "1", "unknown_field": 1}])
def test_wrong_fields_are_400_and_named(api, session, body):
    import json
    refused(api.post("/v1/sessions/%s/cells" % session, json.dumps(body)), 400)


def test_a_depth_bomb_is_400(api, session):
    refused(api.post("/v1/sessions/%s/cells" % session, "[" * 1000000), 400)


def test_a_body_over_the_limit_is_413_and_not_read_to_its_end(gateway, session):
    s = socket.create_connection(("127.0.0.1", gateway.port), 10)
    s.sendall(("POST /v1/sessions/%s/cells HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\nContent-Length: %d\r\n\r\n"
               % (session, gateway.client().token, 1 << 40)).encode())
    head = s.recv(4096)
    assert b" 413 " in head.split(b"\r\n")[0], head
    s.close()


def test_a_chunked_body_over_the_limit_is_413(gateway, session):
    s = socket.create_connection(("127.0.0.1", gateway.port), 10)
    s.sendall(("POST /v1/sessions HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\nTransfer-Encoding: chunked\r\n\r\n"
               % gateway.client().token).encode())
    got, chunk = b"", b"100000\r\n" + b" " * 0x100000 + b"\r\n"
    s.settimeout(0.2)
    for _ in range(400):
        try:
            s.sendall(chunk)
        except (ConnectionError, socket.timeout):
            pass
        try:
            got = s.recv(4096)
            break
        except socket.timeout:
            continue
        except ConnectionError:
            break
    assert b" 413 " in got.split(b"\r\n")[0], got
    s.close()


def test_an_empty_body_creates_a_session_and_any_content_type_is_taken(api):
    for headers in ({}, {"Content-Type": "text/plain;charset=UTF-8"}, {"Content-Type": "application/octet-stream"}):
        r = api.post("/api/kernels", b"", headers=headers, timeout=60)
        assert r.status == 201, r
        kid = r.json()["id"]
        assert r.headers["Location"].endswith("/api/kernels/" + kid)
        assert api.delete("/api/kernels/" + kid).status == 204


@pytest.mark.parametrize("raw", [
    b"GARBAGE\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\0" * 200,
    b"GET /" + b"a" * 100000 + b" HTTP/1.1\r\nHost: x\r\n\r\n",
    b"GET / HTTP/1.1\r\n" + b"X: " + b"y" * 200000 + b"\r\n\r\n",
    b"GET / HTTP/1.1\r\n" + b"X: y\r\n" * 20000 + b"\r\n",
    b"POST /v1/sessions HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n",
    b"POST /v1/sessions HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello",
    b"POST /v1/sessions HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    b"POST /v1/sessions HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
])
def test_what_is_no_http_is_closed_and_the_gateway_lives(gateway, api, raw):
    s = socket.create_connection(("127.0.0.1", gateway.port), 10)
    s.settimeout(10)
    try:
        s.sendall(raw)
        s.shutdown(socket.SHUT_WR)
        while s.recv(65536):
            pass
    except ConnectionError:
        pass
    s.close()
    assert api.get("/v1/sessions").status == 200


def test_a_slow_client_does_not_stop_others(gateway, api):
    stuck = [socket.create_connection(("127.0.0.1", gateway.port), 10) for _ in range(50)]
    for s in stuck:
        s.sendall(b"POST /v1/sessions HTTP/1.1\r\nHost: x\r\nContent-Le")
    begun = time.monotonic()
    assert api.get("/healthz").status == 200
    assert time.monotonic() - begun < 2
    for s in stuck:
        s.close()


def test_a_path_outside_what_the_guest_serves_is_refused(api, session):
    for path in ("/proc/1/environ", "/sys/kernel", "/dev/vda"):
        assert api.get_file(session, path).status in (403, 404)
    r = api.get("/v1/sessions/%s/files/home/user/%%2e%%2e/%%2e%%2e/proc/1/environ" % session)
    assert r.status in (400, 403, 404), r


def test_openapi_describes_the_routes(api):
    doc = api.get("/openapi.json").json()
    assert doc["openapi"].startswith("3.")
    assert any(p.endswith("/cells") for p in doc["paths"])


def test_jupyter_models_have_the_fields_that_clients_need(api):
    r = api.post("/api/kernels", {"name": "python3"}, timeout=60)
    assert r.status == 201, r
    model = r.json()
    import re
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", model["last_activity"])
    assert model["execution_state"] in ("starting", "idle", "busy") and model["connections"] == 0
    assert any(k["id"] == model["id"] for k in api.get("/api/kernels").json())
    assert api.post("/api/kernels/%s/interrupt" % model["id"]).status == 204
    assert api.post("/api/kernels/%s/restart" % model["id"], timeout=60).status == 200
    assert api.delete("/api/kernels/" + model["id"]).status == 204
    refused(api.delete("/api/kernels/" + model["id"]), 404)
    specs = api.get("/api/kernelspecs").json()
    assert specs["default"] == "python3" and specs["kernelspecs"]["python3"]["spec"]["language"] == "python"


def test_an_unknown_kernel_name_is_refused(api):
    r = api.post("/api/kernels", {"name": "ruby"})
    assert r.status in (400, 500, 501) and r.json()["message"], r


def test_secrets_are_in_no_log(gateway, api, session):
    api.cell(session, "print:sEcReT-in-code")
    api.post("/v1/sessions", {"name": "x", "env": {"A": "sEcReT-in-env"}, "bogus": 1})
    api.get("/v1/sessions?token=sEcReT-in-query")
    log = gateway.stderr()
    assert "sEcReT" not in log and api.token not in log


@pytest.mark.parametrize("query", ["state=foo", "state=", "state=IDLE", "state=idle,busy", "limit=0", "limit=x",
                                   "after=x", "metadata=[]"])
def test_a_filter_that_is_none_is_400(api, query):
    said = refused(api.get("/v1/sessions?" + query), 400)
    assert query.split("=")[0] in said["message"]


def test_sessions_are_listed_by_state(api, session):
    assert session in [s["id"] for s in api.get("/v1/sessions?state=idle").json()]
    assert api.get("/v1/sessions?state=dead").json() == []


@pytest.mark.parametrize("method,path", [("POST", "/v1/sessions"), ("POST", "/v1/sessions/%s/cells"),
                                         ("PUT", "/v1/sessions/%s/files/home/user/z"), ("POST", "/api/kernels")])
def test_a_compressed_body_is_415(api, session, method, path):
    import gzip
    path = path % session if "%s" in path else path
    r = api.request(method, path, gzip.compress(b'{"code":"print:x"}'), headers={"Content-Encoding": "gzip"})
    said = refused(r, 415, "unsupported_encoding")
    assert "Content-Encoding" in said["message"] and r.headers["Accept-Encoding"] == "identity"
    r = api.post("/v1/sessions/%s/cells" % session, {"code": "print:x"}, headers={"Content-Encoding": "identity"})
    assert r.status == 200 and r.json()["stdout"] == "x\n"


def test_an_id_may_be_written_in_capitals(api, session):
    assert api.session(session.upper())["id"] == session
    assert api.get("/api/kernels/" + session.upper()).json()["id"] == session

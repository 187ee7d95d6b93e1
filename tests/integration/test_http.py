"""The HTTP and WebSocket server on the wire: what a plain socket sees. What the doors do with it is
tested elsewhere."""
import base64
import json
import os
import signal
import socket
import ssl
import struct
import subprocess
import time

import pytest
import websocket

from harness.gateway import TOKEN, Gateway, scratch
from harness.jupyter import Closed, Socket

KEY = base64.b64encode(b"0123456789abcdef").decode()


@pytest.fixture(scope="module")
def gw(fake):
    g = Gateway(*fake.options(), "--pool-size", "1", "--on-exit", "kill", "--max-connections", "40").start()
    yield g
    g.end()


def dial(gw):
    s = socket.create_connection(("127.0.0.1", gw.port), 10)
    s.settimeout(15)
    return s


def head(method, path, *headers, token=TOKEN, version="1.1"):
    auth = ["Authorization: Bearer " + token] if token else []
    return ("\r\n".join(["%s %s HTTP/%s" % (method, path, version), "Host: x", *auth, *headers]) + "\r\n\r\n").encode()


class Reply:
    def __init__(self, status, headers, body):
        self.status, self.headers, self.body = status, headers, body

    def reason(self):
        said = json.loads(self.body)
        return said.get("code", said["reason"])  # the Jupyter door has the word in "code"


def read_reply(f, no_body=False):
    status = int(f.readline().split()[1])
    headers = {}
    while (line := f.readline().strip()):
        name, _, value = line.partition(b":")
        headers[name.decode().lower()] = value.strip().decode()
    if no_body or status in (101, 204):
        body = b""
    elif headers.get("transfer-encoding") == "chunked":
        body = b""
        while (n := int(f.readline(), 16)):
            body += f.read(n)
            f.readline()
        f.readline()
    else:
        body = f.read(int(headers["content-length"]))
    return Reply(status, headers, body)


def ask(gw, raw):
    with dial(gw) as s:
        s.sendall(raw)
        return read_reply(s.makefile("rb"))


def cpu_seconds(pid):
    with open("/proc/%d/stat" % pid) as f:
        fields = f.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def open_ws(gw, path, *headers):
    s = dial(gw)
    s.sendall(head("GET", path, "Upgrade: websocket", "Connection: Upgrade", "Sec-WebSocket-Version: 13",
                   "Sec-WebSocket-Key: " + KEY, *headers))
    f = s.makefile("rb")
    return s, f, read_reply(f)


def frame(op, payload, fin=True):
    n = len(payload)
    size = bytes([0x80 | n]) if n < 126 else b"\xfe" + struct.pack(">H", n) if n < 65536 else b"\xff" + struct.pack(">Q", n)
    return bytes([(0x80 if fin else 0) | op]) + size + b"\1\2\3\4" + bytes(c ^ b"\1\2\3\4"[i & 3] for i, c in enumerate(payload))


def read_frame(f):
    op = f.read(1)
    if not op:
        return None
    n = f.read(1)[0]
    if n == 126:
        n = struct.unpack(">H", f.read(2))[0]
    elif n == 127:
        n = struct.unpack(">Q", f.read(8))[0]
    return op[0] & 15, f.read(n)


def events_path(gw):
    api = gw.client()
    return "/v1/sessions/%s/events" % api.create()


# --- requests ------------------------------------------------------------------------------------------

def test_pipelined_requests_are_answered_in_order(gw):
    with dial(gw) as s:
        s.sendall(head("GET", "/healthz") + head("GET", "/nope") + head("POST", "/v1/sessions/x/cells", "Content-Length: 2") +
                  b"{}" + head("GET", "/readyz"))
        f = s.makefile("rb")
        assert [read_reply(f).status for _ in range(3)] == [200, 404, 404]
        assert read_reply(f).status in (200, 503)


def test_a_byte_at_a_time_is_as_good(gw):
    with dial(gw) as s:
        for b in head("POST", "/v1/sessions/x/cells", "Transfer-Encoding: chunked") + b"2\r\n{}\r\n0\r\n\r\n":
            s.sendall(bytes([b]))
        f = s.makefile("rb")
        assert read_reply(f).status == 404
        s.sendall(head("GET", "/healthz"))
        assert read_reply(f).status == 200


@pytest.mark.parametrize("raw,status,reason", [
    (b"GET / HTTP/1.1\r\n\r\n", 400, "bad_request"),
    (b"GET / HTTP/2.0\r\nHost: x\r\n\r\n", 505, "http_version"),
    (b"GET /" + b"a" * 17000 + b" HTTP/1.1\r\nHost: x\r\n\r\n", 414, "target_too_long"),
    (b"GET / HTTP/1.1\r\nHost: x\r\nX: " + b"y" * 40000 + b"\r\n\r\n", 431, "headers_too_large"),
    (head("POST", "/v1/sessions", "Content-Length: 5", "Transfer-Encoding: chunked") + b"0\r\n\r\n", 400, "bad_request"),
    (head("POST", "/v1/sessions", "Content-Length: 5", "Content-Length: 5") + b"hello", 400, "bad_request"),
    (head("POST", "/v1/sessions", "Transfer-Encoding: gzip"), 501, "transfer_encoding"),
    (head("POST", "/v1/sessions", "Transfer-Encoding: chunked") + b"zz\r\n", 400, "bad_chunked"),
    (head("GET", "/v1/sessions/%zz"), 400, "bad_url"),
    (head("GET", "/v1/sessions/a%00b"), 400, "bad_url"),
    (head("GET", "/v1/sessions", "Expect: tea"), 417, "expectation"),
    (head("BREW", "/v1/sessions"), 405, "method_not_allowed"),
    (head("GET", "/v1/sessions", token=None), 403, "forbidden"),
    (head("GET", "/v1/sessions?token=wrong", token=None), 403, "forbidden"),
    (head("GET", "/hub/api", token=None), 404, "not_found"),
])
def test_refusals_are_json_with_their_reason(gw, raw, status, reason):
    r = ask(gw, raw)
    assert (r.status, r.headers["content-type"], r.reason()) == (status, "application/json", reason)


def test_a_refused_upload_can_read_why(gw):
    with dial(gw) as s:
        s.sendall(head("POST", "/v1/sessions", "Content-Length: 300000000"))
        sent = 0
        try:
            while sent < 40 << 20:
                sent += s.send(b"x" * 65536)
        except OSError:
            pass  # it may stop listening, but not before it has answered
        r = read_reply(s.makefile("rb"))
        assert r.status == 413 and r.headers["connection"] == "close"


def test_expect_continue_is_answered_only_when_the_body_is_wanted(gw):
    with dial(gw) as s:
        s.sendall(head("POST", "/v1/sessions/x/cells", "Content-Length: 2", "Expect: 100-continue"))
        f = s.makefile("rb")
        assert f.readline().startswith(b"HTTP/1.1 100 ")
        f.readline()
        s.sendall(b"{}")
        assert read_reply(f).status == 404
    r = ask(gw, head("POST", "/v1/sessions", "Content-Length: 999999999", "Expect: 100-continue"))
    assert r.status == 413


def test_http_1_0_closes_and_may_keep(gw):
    with dial(gw) as s:
        s.sendall(b"GET /healthz HTTP/1.0\r\n\r\n")
        f = s.makefile("rb")
        assert read_reply(f).headers["connection"] == "close" and f.read() == b""
    with dial(gw) as s:
        s.sendall(b"GET /healthz HTTP/1.0\r\nConnection: keep-alive\r\n\r\n" * 2)
        f = s.makefile("rb")
        assert read_reply(f).status == read_reply(f).status == 200


def test_head_has_the_length_and_no_body(gw):
    with dial(gw) as s:
        s.sendall(head("HEAD", "/healthz") + head("GET", "/healthz"))
        f = s.makefile("rb")
        h = read_reply(f, no_body=True)
        assert h.status == 200 and int(h.headers["content-length"]) == len(read_reply(f).body)


def test_a_preflight_needs_no_token(fake, start):
    g = start("--pool-size", "0", "--allow-origin", "https://a.example")
    r = ask(g, head("OPTIONS", "/api/kernels", "Origin: https://a.example", "Access-Control-Request-Method: POST", token=None))
    assert r.status == 204
    assert r.headers["access-control-allow-origin"] == "https://a.example"
    for word in ("accept", "content-type", "authorization", "x-xsrftoken"):
        assert word in r.headers["access-control-allow-headers"]
    assert r.headers["access-control-allow-methods"] == "GET, PUT, POST, PATCH, DELETE, OPTIONS"
    assert ask(g, head("OPTIONS", "*", token=None)).status == 204


def test_a_token_opens_every_origin_and_no_token_none(gw):
    assert ask(gw, head("GET", "/healthz", "Origin: https://b.example")).headers["access-control-allow-origin"] == "https://b.example"
    assert "access-control-allow-origin" not in ask(gw, head("GET", "/healthz", "Origin: https://b.example", token=None)).headers


def test_the_page_and_the_probes_of_vs_code(gw):
    r = ask(gw, head("GET", "/?", token=None))
    assert r.status == 200 and r.headers["content-type"].startswith("text/html") and b"<script" not in r.body
    assert ask(gw, head("GET", "/tree?", token=None)).status in (200, 404)


def test_metrics_are_prometheus_text(gw):
    text = ask(gw, head("GET", "/metrics")).body.decode()
    values = dict(line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#"))
    assert float(values["process_resident_memory_bytes"]) > 1e6
    assert 'cellkeep_sessions{state="idle"}' in values and float(values["cellkeep_connections"]) >= 1


# --- connections ----------------------------------------------------------------------------------------

def test_too_many_connections_are_told_so(gw):
    held = []
    try:
        for _ in range(60):  # each shows its token: those that do not would give way (test_surface.py)
            held.append(dial(gw))
            held[-1].sendall(head("GET", "/healthz"))
            r = read_reply(held[-1].makefile("rb"))
            if r.status != 200:
                break
        assert (r.status, r.reason()) == (503, "busy")
    finally:
        for s in held:
            s.close()
    deadline = time.monotonic() + 5
    while True:
        try:
            assert ask(gw, head("GET", "/healthz")).status == 200
            return
        except (AssertionError, OSError, IndexError, ValueError):
            assert time.monotonic() < deadline
            time.sleep(0.1)


def test_clients_that_leave_or_stop_reading_cost_no_processor_time(gw):
    path = events_path(gw)
    api = gw.client()
    sid = path.split("/")[3]
    gone, stuck = dial(gw), dial(gw)
    gone.sendall(head("GET", path, "Accept: text/event-stream"))
    gone.recv(10)
    gone.shutdown(socket.SHUT_WR)  # half closed while an answer streams
    stuck.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    stuck.sendall(head("GET", path, "Accept: text/event-stream"))
    api.cell(sid, "flood:400:65536", timeout=120)  # fills what nobody reads
    stuck.sendall(head("GET", "/healthz") * 3000)  # and more input behind the unread answer
    time.sleep(1)
    before = cpu_seconds(gw.pid)
    time.sleep(2)
    assert cpu_seconds(gw.pid) - before < 0.3
    stuck.close()
    gone.close()
    api.delete("/v1/sessions/" + sid)


def test_a_head_that_never_ends_is_timed_out(gw):
    with dial(gw) as s:
        s.settimeout(40)
        s.sendall(b"GET / HTTP/1.1\r\nHost")
        r = read_reply(s.makefile("rb"))
        assert (r.status, r.reason()) == (408, "timeout")


# --- WebSockets ------------------------------------------------------------------------------------------

@pytest.fixture
def kernel(gw):
    sid = gw.client().create()
    yield "/api/kernels/%s/channels" % sid
    gw.client().delete("/v1/sessions/" + sid)


def test_the_offered_subprotocol_is_echoed_and_an_unknown_one_does_no_harm(gw, kernel):
    jupyter = "v1.kernel.websocket.jupyter.org"
    for offer, want in ((jupyter, jupyter), ("x, " + jupyter, jupyter), ("x, y", None), (None, None)):
        s, _f, r = open_ws(gw, kernel, *(["Sec-WebSocket-Protocol: " + offer] if offer else []))
        assert r.status == 101 and r.headers.get("sec-websocket-protocol") == want
        assert "sec-websocket-extensions" not in r.headers
        s.close()


def test_a_refused_upgrade_is_json_before_the_upgrade(gw):
    unknown = "/api/kernels/00000000-0000-4000-8000-000000000000/channels"
    s, _f, r = open_ws(gw, unknown)
    assert r.status == 404 and json.loads(r.body)["message"]
    s.close()
    r = ask(gw, head("GET", unknown))
    assert (r.status, r.reason()) == (426, "upgrade_required")
    r = ask(gw, head("GET", unknown, "Upgrade: websocket", "Connection: Upgrade", "Sec-WebSocket-Version: 7", "Sec-WebSocket-Key: " + KEY))
    assert r.status == 426


def test_pings_are_answered_between_fragments_and_closing_is_echoed(gw, kernel):
    s, f, r = open_ws(gw, kernel)
    s.sendall(frame(1, b"{", fin=False) + frame(9, b"are you there") + frame(0, b"}"))
    while True:
        op, data = read_frame(f)
        if op == 10:
            break
    assert data == b"are you there"
    s.sendall(frame(8, struct.pack(">H", 4000) + b"done"))
    while True:
        op, data = read_frame(f)
        if op == 8:
            break
    assert struct.unpack(">H", data[:2])[0] == 4000
    while read_frame(f):
        pass
    s.close()


@pytest.mark.parametrize("raw,code", [
    (b"\x81\x01a", 1002), (frame(3, b"x"), 1002), (b"\xc1\x81\1\2\3\4a", 1002), (frame(0, b"x"), 1002),
    (b"\x82\xff" + struct.pack(">Q", 1 << 62) + b"\1\2\3\4", None),
])
def test_protocol_errors_close_with_a_code(gw, kernel, raw, code):
    s, f, r = open_ws(gw, kernel)
    assert r.status == 101
    s.sendall(raw)
    if code:
        while (got := read_frame(f)) and got[0] != 8:
            pass
        assert struct.unpack(">H", got[1][:2])[0] == code
    s.close()
    assert ask(gw, head("GET", "/healthz")).status == 200


# --- the end -------------------------------------------------------------------------------------------

def test_draining_never_says_1000_or_1001(start):
    g = start("--pool-size", "1", "--on-exit", "kill")
    sid = g.client().create()
    s, f, r = open_ws(g, "/api/kernels/%s/channels" % sid)
    idle = dial(g)
    idle.sendall(head("GET", "/healthz"))
    read_reply(idle.makefile("rb"))
    g.proc.send_signal(signal.SIGTERM)
    codes = []
    while (got := read_frame(f)):
        if got[0] == 8:
            codes.append(struct.unpack(">H", got[1][:2])[0])
            s.sendall(frame(8, got[1]))
    assert codes == [4012] or codes == []
    assert idle.recv(10) == b""
    assert g.proc.wait(15) == 0
    with pytest.raises(OSError):
        dial(g)


def test_clients_understand_the_close_code_of_a_stopping_gateway(start):
    """python3-websocket refuses close codes that it does not know, 1012 among them."""
    g = start("--pool-size", "1")
    sock = Socket(g, g.client().create(), TOKEN)
    sock.execute("print:x")
    g.proc.send_signal(signal.SIGTERM)
    with pytest.raises(Closed) as e:
        while True:
            sock.recv(10)
    assert e.value.code == 4012


def test_a_foreign_origin_needs_the_token_like_everybody(gw):
    """No cookies, no mode without a token: a foreign page has no credential unless it was given one."""
    sid = gw.client().create()
    url = "ws://127.0.0.1:%d/api/kernels/%s/channels" % (gw.port, sid)
    for query, status in (("", 403), ("?token=wrong", 403)):
        with pytest.raises(websocket.WebSocketBadStatusException) as e:
            websocket.create_connection(url + query, origin="https://evil.example", timeout=20)
        assert e.value.status_code == status
    websocket.create_connection(url + "?token=" + TOKEN, origin="https://app.example", timeout=20).close()
    gw.client().delete("/v1/sessions/" + sid)


def test_a_second_signal_ends_at_once(start):
    g = start("--pool-size", "1", "--on-exit", "kill")
    sid = g.client().create()
    g.note_processes()
    os.kill(g.bridge_pid(sid), signal.SIGSTOP)  # will not end when asked
    g.proc.send_signal(signal.SIGTERM)
    time.sleep(0.3)
    g.proc.send_signal(signal.SIGTERM)
    begun = time.monotonic()
    assert g.proc.wait(5) == 1 and time.monotonic() - begun < 3
    assert g.leftovers(5) == {}


def test_tls(fake, start):
    d = scratch("t")
    cert, key = os.path.join(d, "c.pem"), os.path.join(d, "k.pem")
    subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", key, "-out", cert, "-days", "2",
                    "-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1"], check=True, capture_output=True)
    g = Gateway(*fake.options(), "--pool-size", "0", "--tls-cert", cert, "--tls-key", key, "--on-exit", "kill")
    try:
        g.start()
        context = ssl.create_default_context(cafile=cert)
        raw = socket.create_connection(("127.0.0.1", g.port), 10)
        s = context.wrap_socket(raw, server_hostname="127.0.0.1")
        f = s.makefile("rb")
        for _ in range(3):
            s.sendall(head("GET", "/v1/sessions"))
            assert read_reply(f).status == 200
        s.close()
        plain = dial(g)
        plain.sendall(head("GET", "/healthz"))
        try:
            assert b"200" not in plain.recv(4096)
        except ConnectionError:
            pass
        plain.close()
    finally:
        g.end()

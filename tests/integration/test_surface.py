"""What the network can do to a gateway without a right token: guess, hold connections, smuggle, look for the
token where it must not be."""
import json
import os
import re
import shutil
import socket
import ssl
import subprocess

import pytest

from harness.gateway import TOKEN, Gateway, scratch, wait_for
from integration.conftest import checked_end
from integration.test_http import KEY, ask, dial, head, read_reply

UPGRADE = ("Upgrade: websocket", "Connection: Upgrade", "Sec-WebSocket-Version: 13", "Sec-WebSocket-Key: " + KEY)
EVIL = "evil-guess-not-a-token"


@pytest.fixture(scope="module")
def gateway(fake):
    g = Gateway(*fake.options(), "--pool-size", "1", "--on-exit", "kill", "--max-connections", "40",
                "--max-auth-failures", "5").start()
    yield g
    checked_end(g)


def metric(gw, name):
    return float(re.search(r"^%s (\S+)$" % name, gw.client().get("/metrics").body.decode(), re.M).group(1))


# --- guessing ---------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def guessed(gateway):
    """After this, the address of the tests has failed too often."""
    for path in ("/v1/sessions", "/v1/sessions?token=" + EVIL, "/api/kernels", "/mcp", "/nope"):
        ask(gateway, head("GET", path, token=None if "?" in path else EVIL))
    return gateway


@pytest.mark.parametrize("method, path, headers", [
    ("GET", "/v1/sessions", ()), ("GET", "/api/kernels", ()), ("POST", "/mcp", ("Content-Length: 0",)), ("GET", "/metrics", ()),
    ("GET", "/api/kernels/5301659d-02c1-48c2-8668-29a4d371d5bc/channels", UPGRADE)])
def test_too_many_wrong_tokens_are_told_to_wait_and_lose_their_connection(guessed, method, path, headers):
    r = ask(guessed, head(method, path, *headers, token=EVIL))
    assert (r.status, r.reason()) == (429, "too_many_failures")
    assert 1 <= int(r.headers["retry-after"]) <= 60 and r.headers["connection"] == "close"
    assert EVIL.encode() not in r.body


def test_the_right_token_is_let_in_from_the_same_address(guessed):
    for _ in range(20):
        assert ask(guessed, head("GET", "/v1/sessions", token=EVIL)).status == 429
        assert ask(guessed, head("GET", "/v1/sessions")).status == 200
        assert ask(guessed, head("GET", "/v1/sessions?token=" + TOKEN, token=None)).status == 200
    api = guessed.client()
    made = api.post("/v1/tokens", {"name": "ada"}).json()
    assert ask(guessed, head("GET", "/v1/sessions", token=made["token"])).status == 200
    assert api.delete("/v1/tokens/" + made["id"]).status == 204
    assert ask(guessed, head("GET", "/v1/sessions", token=made["token"])).status == 429, "revoked: one wrong token more"


def test_who_has_no_token_does_not_guess_and_is_told_what_is_missing(guessed):
    before = metric(guessed, "cellkeep_auth_failures_total")
    for _ in range(10):
        assert ask(guessed, head("GET", "/v1/sessions", token=None)).status == 403
        assert ask(guessed, head("GET", "/v1/sessions", "Authorization: token ", token=None)).status == 403
    assert metric(guessed, "cellkeep_auth_failures_total") == before


def test_what_is_open_stays_open(guessed):
    for path in ("/healthz", "/openapi.json", "/api"):
        assert ask(guessed, head("GET", path, token=EVIL)).status == 200


def test_failures_are_counted(guessed):
    failed, refused = metric(guessed, "cellkeep_auth_failures_total"), metric(guessed, "cellkeep_auth_refused_total")
    assert ask(guessed, head("GET", "/v1/sessions", token=EVIL)).status == 429
    assert metric(guessed, "cellkeep_auth_failures_total") == failed + 1
    assert metric(guessed, "cellkeep_auth_refused_total") == refused + 1


# --- holding connections ----------------------------------------------------------------------------


def test_connections_that_show_no_token_give_way(gateway):
    """A slow loris: many more than there may be, each with half a head, and one with half a body."""
    kept, f = dial(gateway), None
    held = []
    try:
        kept.sendall(head("GET", "/v1/sessions"))
        f = kept.makefile("rb")
        assert read_reply(f).status == 200
        for i in range(150):
            s = dial(gateway)
            held.append(s)
            s.sendall(b"GET /v1/sessions HTTP/1.1\r\nHost: x\r\nX-" if i % 2 else
                      head("POST", "/v1/sessions", "Content-Length: 100", token=None)[:60])
        assert ask(gateway, head("GET", "/v1/sessions")).status == 200, "who has a token is served"
        kept.sendall(head("GET", "/v1/sessions"))
        assert read_reply(f).status == 200, "and keeps the connection that it had"
        assert metric(gateway, "cellkeep_connections_evicted_total") >= 100
    finally:
        for s in held + [kept]:
            s.close()
    wait_for("the others are gone", 10, lambda: metric(gateway, "cellkeep_connections") <= 2)


# --- smuggling --------------------------------------------------------------------------------------

INNER = head("GET", "/metrics").decode()


@pytest.mark.parametrize("raw", [
    "Content-Length: 0\r\nTransfer-Encoding: chunked\r\n\r\n", "Transfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n",
    "Content-Length: 0\r\nContent-Length: 50\r\n\r\n", "Content-Length: 0, 0\r\n\r\n", "Content-Length: +0\r\n\r\n",
    "Content-Length: -1\r\n\r\n", "Content-Length: 0x0\r\n\r\n", "Content-Length : 0\r\n\r\n", "Content-Length: \r\n\r\n",
    "Content-Length: 99999999999999999999\r\n\r\n", "Transfer-Encoding: chunked, chunked\r\n\r\n0\r\n\r\n",
    "Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n", "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n0\r\n\r\n",
    "Transfer-Encoding:\x0bchunked\r\n\r\n0\r\n\r\n", "X: y\r\n Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "X: y\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", "X: y\rTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "Transfer-Encoding: chunked\r\n\r\n-0\r\n\r\n", "Transfer-Encoding: chunked\r\n\r\n0x0\r\n\r\n",
    "Transfer-Encoding: chunked\r\n\r\n0\n\n", "Transfer-Encoding: chunked\r\n\r\n1\r\nab\r\n0\r\n\r\n",
    "Transfer-Encoding: chunked\r\n\r\nffffffffffffffff1\r\n", "Host: y\r\n\r\n", "Authorization: Bearer other\r\n\r\n",
    "X\0: y\r\n\r\n", ": y\r\n\r\n"])
def test_where_a_request_ends_is_never_a_matter_of_opinion(gateway, raw):
    """What two servers could read in two ways is refused, and nothing behind it is read as a request."""
    start = "POST /v1/sessions HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\n" % TOKEN
    with dial(gateway) as s:
        s.sendall((start + raw + INNER).encode("latin-1"))
        said = b""
        try:
            while (piece := s.recv(65536)):
                said += piece
        except ConnectionError:
            pass
    assert said.count(b"HTTP/1.1 ") == 1 and re.match(rb"HTTP/1\.1 (400|501) ", said), said[:300]
    assert b"cellkeep_sessions" not in said


def test_a_head_has_bounds(gateway):
    many = ["X-%d: y" % i for i in range(101)]
    assert ask(gateway, head("GET", "/healthz", *many)).status == 431
    assert ask(gateway, head("GET", "/healthz", *many[:90])).status == 200
    assert ask(gateway, head("GET", "/healthz?" + "a" * 17000)).status == 414
    assert ask(gateway, head("GET", "/healthz?" + "a" * 15000)).status == 200
    assert ask(gateway, head("GET", "/healthz", "X: " + "y" * 33000)).status == 431


# --- where the token must not be --------------------------------------------------------------------


def test_the_token_is_in_no_log_and_no_answer(gateway):
    for path in ("/v1/sessions?token=" + TOKEN, "/nope?token=" + TOKEN, "/api/kernels?token=%2574&token=" + TOKEN,
                 "/v1/sessions?token=" + EVIL):
        r = ask(gateway, head("GET", path, "Referer: http://x/?token=" + TOKEN, "Cookie: token=" + TOKEN, token=None))
        assert TOKEN.encode() not in r.body and TOKEN not in json.dumps(r.headers), path
    r = ask(gateway, head("GET", "/?token=" + TOKEN, token=None))
    assert r.headers.get("referrer-policy", "no-referrer") == "no-referrer" and TOKEN.encode() not in r.body
    log = gateway.stderr()
    assert TOKEN not in log and EVIL not in log and "token=" not in log
    for folder, _, names in os.walk(gateway.state):
        for name in names:
            if name.endswith((".log", ".db", ".db-wal")):
                with open(os.path.join(folder, name), "rb") as f:
                    assert TOKEN.encode() not in f.read(), name


# --- TLS --------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def tls(fake):
    d = scratch("t")
    cert, key = os.path.join(d, "c.pem"), os.path.join(d, "k.pem")
    subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", key, "-out", cert, "-days", "2",
                    "-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1"], check=True, capture_output=True)
    g = Gateway(*fake.options(), "--pool-size", "0", "--tls-cert", cert, "--tls-key", key, "--on-exit", "kill",
                "--max-connections", "40").start()
    yield g, cert
    checked_end(g)
    shutil.rmtree(d)


def over_tls(g, context):
    with socket.create_connection(("127.0.0.1", g.port), 10) as raw:
        with context.wrap_socket(raw, server_hostname="127.0.0.1") as s:
            s.sendall(head("GET", "/v1/sessions", "Connection: close"))
            return read_reply(s.makefile("rb")).status, s.version()


@pytest.mark.filterwarnings("ignore:ssl.TLSVersion")
def test_old_versions_of_tls_are_not_spoken(tls):
    g, cert = tls
    context = ssl.create_default_context(cafile=cert)
    assert over_tls(g, context) == (200, "TLSv1.3")
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    assert over_tls(g, context) == (200, "TLSv1.2")
    old = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    old.check_hostname, old.verify_mode = False, ssl.CERT_NONE
    old.set_ciphers("ALL:@SECLEVEL=0")
    old.minimum_version, old.maximum_version = ssl.TLSVersion.TLSv1, ssl.TLSVersion.TLSv1_1
    with pytest.raises((ssl.SSLError, ConnectionError)):
        over_tls(g, old)


def test_handshakes_that_never_end_keep_nobody_out(tls):
    g, cert = tls
    held = [dial(g) for _ in range(100)]
    try:
        for s in held:
            s.sendall(b"\x16\x03\x01")  # the beginning of a ClientHello
        assert over_tls(g, ssl.create_default_context(cafile=cert))[0] == 200
    finally:
        for s in held:
            s.close()

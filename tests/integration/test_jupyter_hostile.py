"""Clients of the Jupyter door that send nonsense: it costs them a reply with the reason or their own
connection, and nobody else anything."""
import json
import os
import struct
import threading
import time
import uuid

import pytest
import websocket

from harness import procs
from harness.client import Client
from harness.gateway import TOKEN, sanitized, wait_for
from harness.jupyter import Socket, encode_v1, reply, stdout

MB = 1 << 20
BINARY, TEXT = websocket.ABNF.OPCODE_BINARY, websocket.ABNF.OPCODE_TEXT


@pytest.fixture
def neighbour(gateway, api, session):
    """Another client of the same kernel, and another session: both must notice nothing."""
    other = api.create()
    friend = Socket(gateway, session, TOKEN)
    friend.execute("print:before")
    yield
    assert stdout(friend.execute("print:unharmed")) == "unharmed\n"
    assert api.cell(other, "print:unharmed")["stdout"] == "unharmed\n"
    friend.close()
    api.delete("/v1/sessions/" + other)


def header(mtype="execute_request", **more):
    return {"msg_id": uuid.uuid4().hex, "msg_type": mtype, "session": "hostile", "username": "u", "date": "",
            "version": "5.3", **more}


def execute(**content):
    return {"header": header(), "parent_header": {}, "metadata": {}, "content": {"code": "print:x", **content}}


def message_v1(offsets=None, table=None, channel=b"shell", msg=None):
    """A v1 frame whose table says what the test wants."""
    raw = encode_v1(channel.decode(), msg or execute())
    n, = struct.unpack_from("<Q", raw)
    have = list(struct.unpack_from("<%dQ" % n, raw, 8))
    for i, v in (offsets or {}).items():
        have[i] = v
    return struct.pack("<%dQ" % (n + 1), n if table is None else table, *have) + raw[8 * (n + 1):]


TABLES = {
    "no offsets": message_v1(table=0), "one offset": message_v1(table=1), "five offsets": message_v1(table=5),
    "a million offsets": message_v1(table=1000000), "2^64-1 offsets": message_v1(table=2 ** 64 - 1),
    "2^61 offsets": message_v1(table=2 ** 61), "first offset in the table": message_v1({0: 8}),
    "first offset 0": message_v1({0: 0}), "offset goes back": message_v1({2: 60}),
    "offset after the end": message_v1({5: 10 ** 6}), "offset 2^64-1": message_v1({3: 2 ** 64 - 1}),
    "all offsets the same": message_v1({i: 56 for i in range(6)}), "only the count": struct.pack("<Q", 6),
    "half a count": b"\x06\0\0\0", "empty": b"",
}


@pytest.mark.parametrize("name", TABLES)
def test_a_bad_offset_table_is_refused_and_the_connection_lives(gateway, session, neighbour, name):
    s = Socket(gateway, session, TOKEN)
    s.ws.send(TABLES[name], BINARY)
    assert stdout(s.execute("print:lives")) == "lives\n"
    s.close()


LEGACY = {
    "no buffers": struct.pack(">I", 0), "2^32-1 buffers": struct.pack(">II", 2 ** 32 - 1, 12),
    "offset in the table": struct.pack(">III", 2, 4, 12), "offset goes back": struct.pack(">III", 2, 12, 5) + b"{}",
    "offset after the end": struct.pack(">III", 2, 12, 99999) + b"{}", "JSON that is none": struct.pack(">II", 1, 8) + b"{nope",
}


@pytest.mark.parametrize("opcode", [BINARY, TEXT], ids=["binary", "text"])
@pytest.mark.parametrize("name", LEGACY)
def test_a_bad_legacy_table_is_refused_and_the_connection_lives(gateway, session, neighbour, name, opcode):
    s = Socket(gateway, session, TOKEN, v1=False)
    s.ws.send(LEGACY[name], opcode)
    assert stdout(s.execute("print:lives")) == "lives\n"
    s.close()


@pytest.mark.parametrize("v1", [True, False], ids=["v1", "legacy"])
def test_every_beginning_of_a_frame_is_survived(gateway, session, neighbour, v1):
    s = Socket(gateway, session, TOKEN, v1=v1)
    msg = execute()
    whole = encode_v1("shell", msg) if v1 else json.dumps({**msg, "channel": "shell"}).encode()
    for n in range(0, len(whole), 7):
        s.ws.send(whole[:n], BINARY if v1 else TEXT)
    assert stdout(s.execute("print:lives")) == "lives\n"
    s.close()


def test_a_msg_id_that_was_used_before_harms_nobody(gateway, session, neighbour):
    """Two requests under one id are two requests; whoever sent them cannot tell their answers apart."""
    s = Socket(gateway, session, TOKEN)
    for _ in range(3):
        msg = execute(code="print:x")
        msg["header"]["msg_id"] = "the-same"
        s.ws.send(encode_v1("shell", msg), BINARY)
    replies = idles = 0
    while replies < 3 or idles < 3:
        m = s.recv(15)
        if m["parent_header"].get("msg_id") == "the-same":
            replies += m["msg_type"] == "execute_reply"
            idles += m["content"].get("execution_state") == "idle"
    assert stdout(s.execute("print:lives")) == "lives\n"
    s.close()


BOMBS = {
    "deep lists": b'{"code":"print:x","a":' + b"[" * 200000 + b"]" * 200000 + b"}",
    "deep objects": b'{"a":' * 200000 + b"1" + b"}" * 200000,
    "never closed": b'{"code":"print:x","a":' + b"[" * 5000000,
    "twenty million numbers": b'{"code":"print:x","a":[' + b"1," * 10000000 + b"1]}",
    "long numbers": b'{"code":"print:x","a":[' + b",".join([b"9" * 4000] * 1000) + b"]}",
    "a million keys": b'{"code":"print:x"' + b"".join(b',"%x":0' % i for i in range(1000000)) + b"}",
}


@pytest.mark.parametrize("v1", [True, False], ids=["v1", "legacy"])
@pytest.mark.parametrize("name", BOMBS)
def test_a_json_bomb_is_answered_and_costs_little(gateway, session, neighbour, name, v1):
    s = Socket(gateway, session, TOKEN, v1=v1, timeout=60)
    h = header()
    parts = [b"shell", json.dumps(h).encode(), b"{}", b"{}", BOMBS[name]]
    if v1:
        offsets = [8 * 7]
        for p in parts:
            offsets.append(offsets[-1] + len(p))
        raw = struct.pack("<7Q", 6, *offsets) + b"".join(parts)
    else:
        raw = b'{"header":%s,"parent_header":{},"metadata":{},"content":%s,"channel":"shell"}' % (parts[1], parts[4])
    s.ws.send(raw, BINARY if v1 else TEXT)
    got = s.until_done(h["msg_id"], 60)  # run, or refused: but answered
    assert reply(got)["status"] in ("ok", "error")
    assert stdout(s.execute("print:lives")) == "lives\n"
    s.close()
    if not sanitized():
        wait_for("the memory to go back", 20, lambda: procs.rss_bytes(gateway.pid) < 60 * MB, every=0.5)


def masked(opcode, payload, fin=True):
    return bytes([(0x80 if fin else 0) | opcode, 0x80 | len(payload)]) + b"\0\0\0\0" + payload


MILLIONS = {
    "empty text": masked(1, b"") * 1000000, "half a JSON": masked(1, b"{") * 1000000, "empty binary": masked(2, b"") * 1000000,
    "pings": masked(9, b"x") * 1000000, "pongs": masked(10, b"12345678") * 1000000,
    "fragments": masked(1, b"", fin=False) + masked(0, b"x", fin=False) * 1000000 + masked(0, b""),
}


@pytest.mark.parametrize("name", MILLIONS)
def test_a_million_tiny_frames_stop_nobody(gateway, api, session, neighbour, name):
    s = Socket(gateway, session, TOKEN, v1=False, timeout=120)
    before = os.path.getsize(gateway.stderr_path)
    flood = threading.Thread(target=lambda: s.ws.sock.sendall(MILLIONS[name]))
    drain = threading.Thread(target=read_all, args=(s.ws.sock,))
    flood.start()
    drain.start()
    slowest, rounds = 0, 0
    while flood.is_alive() or rounds < 3:
        rounds += 1
        begun = time.monotonic()
        assert api.cell(session, "print:in between", timeout=60)["stdout"] == "in between\n"
        slowest = max(slowest, time.monotonic() - begun)
    flood.join()
    s.ws.sock.shutdown(2)
    drain.join()
    assert os.path.getsize(gateway.stderr_path) - before < 2 * MB, "the log took part"
    assert slowest < (20 if sanitized() else 5), slowest


def read_all(sock):
    try:
        while sock.recv(65536):
            pass
    except OSError:
        pass


@pytest.mark.parametrize("headers,query", [({}, ""), ({}, "?token=wrong"), ({"Authorization": "token wrong"}, ""),
                                           ({"Authorization": "token "}, ""), ({"Authorization": "Basic dTpw"}, "?token=")])
def test_a_handshake_without_the_right_token_is_refused_with_a_reason(gateway, session, headers, query):
    upgrade = {"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13",
               "Sec-WebSocket-Key": "AAAAAAAAAAAAAAAAAAAAAA=="}
    nobody = Client("127.0.0.1", gateway.port, None)
    for path in ("/api/kernels/%s/channels" % session, "/api/events/subscribe"):
        r = nobody.get(path + query, headers={**upgrade, **headers})
        assert r.status == 403 and r.json()["message"] == "Forbidden", r


def test_a_foreign_origin_gets_nothing_without_the_token(gateway, session):
    """A page of a stranger has no token; one that has it is the user's own (as in jupyter-server)."""
    url = "ws://127.0.0.1:%d/api/kernels/%s/channels" % (gateway.port, session)
    with pytest.raises(websocket.WebSocketBadStatusException) as e:
        websocket.create_connection(url, timeout=10, origin="https://evil.example")
    assert e.value.status_code == 403
    nobody = Client("127.0.0.1", gateway.port, None)
    for method in ("GET", "OPTIONS", "POST"):
        r = nobody.request(method, "/api/kernels", headers={"Origin": "https://evil.example"})
        assert "Access-Control-Allow-Origin" not in r.headers
    ws = websocket.create_connection(url + "?token=" + TOKEN, timeout=10, origin="https://lab.example")
    ws.close()

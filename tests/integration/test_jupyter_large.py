"""Messages of a hundred megabytes, a big plot or a big buffer, in both directions."""
import json
import os
import struct
import time
import uuid

import pytest

from harness import procs
from harness.gateway import TOKEN, sanitized, wait_for
from harness.jupyter import Socket, stdout

MB = 1 << 20


def comm_msg(sock, buffer):
    """A comm_msg with one buffer in the socket's dialect; the kernel sends its buffers back."""
    h = {"msg_id": uuid.uuid4().hex, "msg_type": "comm_msg", "session": sock.session, "username": "t", "date": "",
         "version": "5.3"}
    content = {"comm_id": "c", "data": {}}
    if sock.v1:
        parts = [b"shell", json.dumps(h).encode(), b"{}", b"{}", json.dumps(content).encode(), buffer]
        offsets = [8 * (len(parts) + 2)]
        for p in parts:
            offsets.append(offsets[-1] + len(p))
        raw = struct.pack("<%dQ" % (len(offsets) + 1), len(offsets), *offsets) + b"".join(parts)
    else:
        text = json.dumps({"header": h, "parent_header": {}, "metadata": {}, "content": content, "channel": "shell"}).encode()
        raw = struct.pack(">III", 2, 12, 12 + len(text)) + text + buffer
    # An all-zero mask is a valid one, and does not take Python ten seconds.
    head = struct.pack("!BBQ", 0x82, 0xff, len(raw)) + b"\0\0\0\0"
    sock.ws.sock.sendall(head)
    sock.ws.sock.sendall(raw)
    return h["msg_id"]


def next_big(sock):
    while True:
        _op, data = sock.ws.recv_data()
        if len(data) > MB:
            return data


@pytest.mark.parametrize("v1", [True, False], ids=["v1", "legacy"])
def test_a_hundred_megabytes_pass_both_ways(gateway, api, session, v1):
    sock = Socket(gateway, session, TOKEN, v1=v1, timeout=120)
    assert stdout(sock.execute("print:warm")) == "warm\n"
    before = procs.rss_bytes(gateway.pid)
    buffer = os.urandom(MB) * 100
    comm_msg(sock, buffer)
    got = next_big(sock)
    assert len(got) < len(buffer) + 5000 and got.endswith(buffer)
    assert stdout(sock.execute("print:and on")) == "and on\n"
    sock.close()
    if not sanitized():
        wait_for("the gateway's memory", 20, lambda: procs.rss_bytes(gateway.pid) - before < 20 * MB, every=0.5)


def test_several_clients_get_a_large_message_each(gateway, api, session):
    """It is over the log's cap: nobody must find it dropped who could read it."""
    socks = [Socket(gateway, session, TOKEN, timeout=120) for _ in range(3)]
    for s in socks:
        s.execute("print:warm")
    buffer = os.urandom(MB) * 70
    comm_msg(socks[0], buffer)
    for s in socks:
        assert next_big(s).endswith(buffer)
    late = Socket(gateway, session, TOKEN, session=socks[2].session, timeout=120)  # and it says what it has
    assert stdout(late.execute("print:on")) == "on\n"
    for s in (*socks, late):
        s.close()


@pytest.mark.parametrize("v1", [True, False], ids=["v1", "legacy"])
def test_a_message_over_the_cap_is_answered_and_the_connection_lives(gateway, session, v1):
    sock = Socket(gateway, session, TOKEN, v1=v1, timeout=120)
    sock.execute("print:warm")
    mid = comm_msg(sock, bytes(MB) * 105)
    while (m := sock.recv(60))["parent_header"].get("msg_id") != mid:
        pass
    assert m["msg_type"] == "error" and m["content"]["ename"] == "MessageTooLarge" and "104 MiB" in m["content"]["evalue"]
    assert stdout(sock.execute("print:lives")) == "lives\n"
    sock.close()


def test_large_messages_one_after_the_other(gateway, api, session):
    sock = Socket(gateway, session, TOKEN, timeout=120)
    sock.execute("print:warm")
    for i in range(4):
        buffer = bytes([i]) * (40 * MB)
        comm_msg(sock, buffer)
        assert next_big(sock).endswith(buffer)
    time.sleep(0.2)
    assert stdout(sock.execute("print:on")) == "on\n"
    sock.close()

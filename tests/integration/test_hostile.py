"""A guest that lies: forged, malformed, endless and oversized traffic costs that session at most."""
import re
import threading
import time

import pytest

from harness.client import kept_and_dropped
from harness.gateway import wait_for
from harness.jupyter import Socket, stdout
from harness.memory import MB, SLACK, Memory

@pytest.fixture
def neighbour(api):
    sid = api.create()
    api.cell(sid, "set:x:unharmed")
    yield
    assert api.cell(sid, "get:x", timeout=30)["stdout"] == "unharmed\n"
    api.delete("/v1/sessions/" + sid)


def test_forged_messages_are_dropped(api, session, neighbour):
    c = api.cell(session, "print:before\nbad_hmac:100\nprint:after")
    assert c["status"] == "ok" and c["stdout"] == "before\nafter\n"


def test_frames_that_are_no_messages_are_dropped(api, session, neighbour):
    c = api.cell(session, "print:before\ngarbage\nprint:after")
    assert c["status"] == "ok" and c["stdout"] == "before\nafter\n"
    assert api.cell(session, "print:next")["stdout"] == "next\n"


@pytest.mark.parametrize("what", ["bad_json", "deep", "nan", "array", "types", "type_number", "surrogate", "long_type",
                                  "parent", "fake_idle"])
def test_signed_nonsense_does_not_end_a_cell_or_the_session(gateway, api, session, neighbour, what):
    sock = Socket(gateway, session, api.token)
    c = api.cell(session, "print:before\nsigned:%s\nprint:after\nsleep:100\nprint:end" % what, timeout=30)
    said = c["stdout"]
    if what == "deep":  # output whose too deep part was left out is marked at its end
        said, mark = said.split("\n[… ")
        assert mark.endswith(" bytes left out …]\n"), c
    assert c["status"] == "ok" and said.startswith("before\n") and said.endswith("after\nend\n"), c
    assert stdout(sock.execute("print:both doors")) == "both doors\n"
    sock.close()


def test_invalid_utf8_is_replaced_not_passed_on(gateway, api, session):
    sock = Socket(gateway, session, api.token, v1=False)
    c = api.cell(session, "signed:bad_utf8")
    assert c["status"] == "ok" and "\ufffd" in c["stdout"] and c["stdout"].startswith("caf"), c
    while sock.recv(10)["msg_type"] != "stream":  # a text frame: not UTF-8 would break the client
        pass
    sock.close()


def test_two_hundred_megabytes_of_output_are_bounded_and_marked(gateway, api, session, neighbour):
    bridge = gateway.bridge_pid(session)
    with Memory(bridge, gateway.pid) as m:
        c = api.cell(session, "flood:3200:65536\nprint:the end", timeout=120)
    assert c["status"] == "ok"
    assert kept_and_dropped(c) == 3200 * 65536 + len("the end\n")
    assert c["truncated"]["stdout_bytes"] > 0 and len(c["stdout"]) <= 64 * MB and c["stdout"].endswith("the end\n")
    assert m.growth(bridge) < 200 * MB + SLACK, m.growth(bridge)
    assert m.growth(gateway.pid) < 150 * MB + SLACK, m.growth(gateway.pid)
    gaps, seen = [], []
    for e in api.events("GET", "/v1/sessions/%s/events?from=1" % session, timeout=60):
        seen.append(e)
        if e.kind == "gap":
            gaps.append(e.json())
        if e.kind == "done":
            break
    assert gaps and sum(g["bytes"] for g in gaps) > 50 * MB
    assert api.cell(session, "print:next")["stdout"] == "next\n"


def test_a_flood_of_small_messages_ends(gateway, api, session, neighbour):
    c = api.cell(session, "flood:30000:20\nprint:the end", timeout=120)
    assert c["status"] == "ok"
    assert kept_and_dropped(c) == 30000 * 20 + 8


def test_one_message_of_fifty_megabytes(gateway, api, session, neighbour):
    bridge = gateway.bridge_pid(session)
    with Memory(bridge, gateway.pid) as m:
        c = api.cell(session, "print:before\nhuge:%d\nprint:after" % (50 * MB), timeout=120)
    assert c["status"] == "ok" and c["stdout"].endswith("after\n")
    assert kept_and_dropped(c) == len("before\n") + 50 * MB + len("after\n")
    assert m.growth(bridge) < 200 * MB + SLACK, m.growth(bridge)
    assert m.growth(gateway.pid) < 150 * MB + SLACK, m.growth(gateway.pid)
    assert api.cell(session, "print:next")["stdout"] == "next\n"


def test_a_message_over_the_cap_is_dropped_and_said(start):
    gw = start("--pool-size", "1", "--on-exit", "kill", "--max-message-mb", "32")
    api = gw.client()
    sid = api.create()
    bridge = gw.bridge_pid(sid)
    with Memory(bridge, gw.pid) as m:
        c = api.cell(sid, "print:before\nhuge:%d\nprint:after" % (50 * MB), timeout=120)
    assert c["status"] == "ok" and c["stdout"].startswith("before\nafter\n")
    assert re.search(r"message of 5242\d{4} bytes was dropped", c["stderr"]), c["stderr"]
    assert m.growth(bridge) < 200 * MB + SLACK, m.growth(bridge)
    assert m.growth(gw.pid) < 150 * MB + SLACK, m.growth(gw.pid)
    assert api.cell(sid, "print:next")["stdout"] == "next\n"


def test_a_message_over_every_limit_is_refused_and_the_session_goes_on_or_ends(api, session, neighbour):
    c = api.cell(session, "huge:%d\nprint:after" % (220 * MB), timeout=150)
    assert c["status"] in ("ok", "kernel_died", "vm_died", "timeout")
    if api.session(session)["state"] != "dead":
        assert api.cell(session, "print:next", timeout=60)["status"] == "ok"


def test_a_client_that_does_not_read_costs_no_memory(gateway, api, session, neighbour):
    import socket
    bridge = gateway.bridge_pid(session)
    stuck = []
    for _ in range(4):
        s = socket.create_connection(("127.0.0.1", gateway.port), 10)
        s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        s.sendall(("GET /v1/sessions/%s/events?from=0 HTTP/1.1\r\nHost: x\r\nAccept: text/event-stream\r\n"
                   "Authorization: Bearer %s\r\n\r\n" % (session, api.token)).encode())
        stuck.append(s)
    with Memory(bridge, gateway.pid) as m:
        c = api.cell(session, "flood:1500:65536", timeout=120)
    assert c["status"] == "ok"
    assert m.growth(bridge) < 200 * MB + SLACK, m.growth(bridge)
    assert m.growth(gateway.pid) < 150 * MB + SLACK, m.growth(gateway.pid)
    begun = time.monotonic()
    assert api.cell(session, "print:x")["status"] == "ok"
    assert time.monotonic() - begun < 5
    for s in stuck:
        s.close()


def test_an_interrupt_gets_through_a_flood(api, session):
    out = {}
    t = threading.Thread(target=lambda: out.update(api.cell(session, "flood:1000000:1000", timeout=100)))
    t.start()
    wait_for("busy", 10, lambda: api.session(session)["state"] == "busy")
    time.sleep(0.5)
    begun = time.monotonic()
    assert api.post("/v1/sessions/%s/interrupt" % session).status == 200
    t.join(30)
    assert out["status"] == "interrupted" and time.monotonic() - begun < 20

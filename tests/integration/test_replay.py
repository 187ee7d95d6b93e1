"""Lossless streams: every event has a number, and a reader that comes back goes on where it was."""
import os
import signal
import socket
import struct
import threading
import time

import pytest
import websocket

from harness.gateway import TOKEN, wait_for
from harness.jupyter import Socket, decode_v1, reply, stdout


def read_events(api, sid, start, until):
    """Events from `start` on, until until(list) is true."""
    got = []
    stream = api.events("GET", "/v1/sessions/%s/events?from=%s" % (sid, start), timeout=30)
    for e in stream:
        got.append(e)
        if until(got):
            break
    stream.close()
    return got


def done_count(n):
    return lambda got: sum(e.kind == "done" for e in got) >= n


def test_events_replay_from_any_number(api, session):
    for i in range(3):
        api.cell(session, "print:cell %d\nthe result" % i)
    whole = read_events(api, session, 1, done_count(3))
    ids = [e.id for e in whole]
    assert ids == sorted(set(ids))
    for at in range(0, len(whole), 3):
        tail = read_events(api, session, ids[at], done_count(sum(e.kind == "done" for e in whole[at:])))
        assert [(e.id, e.kind, e.data) for e in tail] == [(e.id, e.kind, e.data) for e in whole[at:]]


def test_last_event_id_goes_on_after_it(api, session):
    api.cell(session, "print:one")
    api.cell(session, "print:two")
    whole = read_events(api, session, 0, done_count(2))
    middle = whole[len(whole) // 2]
    stream = api.events("GET", "/v1/sessions/%s/events" % session, headers={"Last-Event-ID": str(middle.id)})
    assert next(stream).id > middle.id
    stream.close()


def test_live_events_follow_the_replayed_ones_without_a_hole(api, session):
    api.cell(session, "print:before")
    got, ready = [], threading.Event()

    def read():
        for e in api.events("GET", "/v1/sessions/%s/events?from=0" % session, timeout=30):
            got.append(e)
            ready.set()
            if sum(x.kind == "done" for x in got) == 2:
                return

    t = threading.Thread(target=read)
    t.start()
    ready.wait(10)
    api.cell(session, "count:200:1")
    t.join(30)
    text = "".join(e.json()["content"]["text"] for e in got if e.kind == "stream")
    assert text == "before\n" + "".join("%d\n" % i for i in range(200))


def test_a_websocket_stream_runs_cells_and_shows_events(gateway, api, session):
    import json
    ws = websocket.create_connection("ws://127.0.0.1:%d/v1/sessions/%s/stream?from=0&token=%s"
                                     % (gateway.port, session, TOKEN), timeout=20)
    ws.send(json.dumps({"type": "execute", "code": "print:by websocket", "ref": "r1"}))
    seen = []
    while not any(m.get("type") == "done" for m in seen):
        seen.append(json.loads(ws.recv()))
    done = next(m for m in seen if m["type"] == "done")
    assert done["finished"]["stdout"] == "by websocket\n"
    assert any(m.get("ref") == "r1" for m in seen)
    ws.send("{bad")
    while json.loads(ws.recv())["type"] not in ("failed", "error", "refused"):
        pass
    ws.close()


def test_a_jupyter_client_that_lost_its_network_misses_nothing(gateway, session):
    first = Socket(gateway, session, TOKEN)
    first.execute("print:warm")
    mid = first.send("execute_request", {"code": "count:30:30\nthe result", "silent": False})
    got = []
    while sum(m["msg_type"] == "stream" for m in got) < 5:
        got.append(first.recv(10))
    first.drop()
    time.sleep(0.5)
    again = Socket(gateway, session, TOKEN, session=first.session)
    got += again.until_done(mid, 30)
    mine = [m for m in got if m["parent_header"].get("msg_id") == mid]
    ids = [m["header"]["msg_id"] for m in mine]
    text = stdout(mine)
    want = "".join("%d\n" % i for i in range(30))
    assert text == want or len(ids) != len(set(ids)), "lost: %r" % text
    unique = {m["header"]["msg_id"]: m for m in mine}
    assert stdout(unique.values()) == want  # what was in flight may come twice, with the same id
    assert reply(mine)["status"] == "ok"
    again.close()


def test_a_cell_that_ended_while_nobody_listened_is_replayed(gateway, session):
    first = Socket(gateway, session, TOKEN)
    first.execute("print:warm")
    mid = first.send("execute_request", {"code": "print:one\nsleep:500\nprint:two", "silent": False})
    while first.recv(10)["msg_type"] != "stream":
        pass
    first.drop()
    time.sleep(1.5)
    again = Socket(gateway, session, TOKEN, session=first.session)
    got = again.until_done(mid, 10)
    assert stdout(got).endswith("two\n") and reply(got)["status"] == "ok"
    again.close()


def _ended(messages):
    kinds = {(m["msg_type"], m["content"].get("execution_state")) for m in messages}
    return ("execute_reply", None) in kinds and ("status", "idle") in kinds


def test_a_reconnect_storm_loses_nothing(gateway, session):
    key = Socket(gateway, session, TOKEN)
    key.execute("print:warm")
    mid = key.send("execute_request", {"code": "count:100:15", "silent": False})
    seen, sock = {}, key
    for _ in range(12):
        end = time.monotonic() + 0.12
        while time.monotonic() < end:
            try:
                m = sock.recv(0.05)
            except (websocket.WebSocketTimeoutException, TimeoutError):
                continue
            seen[m["header"]["msg_id"]] = m
        sock.drop()
        sock = Socket(gateway, session, TOKEN, session=key.session)
    # On a slow machine the cell may have ended within the storm: then its end was seen there already.
    end = time.monotonic() + 30
    while not _ended(mine := [m for m in seen.values() if m["parent_header"].get("msg_id") == mid]):
        assert time.monotonic() < end, "the end of the cell was lost"
        try:
            m = sock.recv(0.5)
        except (websocket.WebSocketTimeoutException, TimeoutError):
            continue
        seen[m["header"]["msg_id"]] = m
    assert stdout(mine) == "".join("%d\n" % i for i in range(100))
    sock.close()


def test_one_session_id_has_one_socket(gateway, session):
    first = Socket(gateway, session, TOKEN)
    first.execute("print:x")
    second = Socket(gateway, session, TOKEN, session=first.session)
    second.execute("print:y")
    try:
        for _ in range(50):
            first.recv(2)
        raise AssertionError("the first socket still gets messages")
    except (ConnectionError, websocket.WebSocketException):
        pass
    second.close()


def test_unrelated_clients_start_at_now(gateway, api, session):
    api.cell(session, "print:long ago")
    s = Socket(gateway, session, TOKEN)
    got = s.execute("print:now")
    assert stdout(got) == "now\n"
    s.close()


# --- what a client has is what it says, not what TCP says --------------------------------------------

class Frames:
    """A client that answers pings only when it is told to."""

    def __init__(self, gateway, sid, session=None):
        self.sock = Socket(gateway, sid, TOKEN, session=session)
        self.ws = self.sock.ws
        self.ids, self.texts = [], []

    def until(self, wanted, answer=True):
        """Frames up to the one that is wanted; that one, and pings if answer is false, stays unanswered."""
        while True:
            f = self.ws.recv_frame()
            if f.opcode == websocket.ABNF.OPCODE_BINARY:
                m = decode_v1(f.data)
                self.ids.append(m["header"]["msg_id"])
                self.texts.append(m["content"].get("text") or m["content"].get("execution_state"))
            if wanted(f):
                return f
            if answer and f.opcode == websocket.ABNF.OPCODE_PING:
                self.ws.pong(f.data)

    def run_to_the_last_question(self, code):
        """The cell is over, its last message has come, and the question that follows is not answered."""
        self.sock.send("execute_request", {"code": code, "silent": False})
        self.until(lambda f: self.texts and self.texts[-1] == "idle")
        return self.until(lambda f: f.opcode == websocket.ABNF.OPCODE_PING)

    def cut(self, how):
        s = self.ws.sock
        if how == "reset":
            s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            s.close()
        else:  # no close frame
            s.shutdown(socket.SHUT_WR)


def seen_again(gateway, sid, before):
    """Message ids that a new connection of the same client gets, up to the end of a cell of its own."""
    again = Socket(gateway, sid, TOKEN, session=before.sock.session)
    mid = again.send("execute_request", {"code": "print:again", "silent": False})
    got = []
    while True:
        m = again.recv(20)
        if m["parent_header"].get("msg_id") == mid and m["content"].get("execution_state") == "idle":
            break
        got.append(m)
    again.close()
    return got


@pytest.mark.parametrize("how", ["end", "reset"])
def test_bytes_that_a_proxy_swallowed_come_again(gateway, session, how):
    """The client's side of the connection acknowledged everything and ended; its program read nothing."""
    f = Frames(gateway, session)
    f.ws.pong(f.run_to_the_last_question("print:warm").data)
    f.sock.send("execute_request", {"code": "print:one\nprint:two", "silent": False})
    wait_for("the cell", 10, lambda: gateway.client().session(session)["state"] == "idle")
    time.sleep(0.3)
    f.cut(how)
    time.sleep(0.2)
    assert stdout(seen_again(gateway, session, f)) == "one\ntwo\nagain\n"


@pytest.mark.parametrize("how", ["end", "reset"])
@pytest.mark.parametrize("part", ["whole", "cut"])
def test_the_last_word_of_a_client_counts_when_its_connection_breaks(gateway, session, how, part):
    """It answered, or began to, and was gone before the gateway looked."""
    f = Frames(gateway, session)
    ping = f.run_to_the_last_question("print:one")
    os.kill(gateway.pid, signal.SIGSTOP)
    try:
        pong = websocket.ABNF(1, 0, 0, 0, websocket.ABNF.OPCODE_PONG, 1, ping.data).format()
        f.ws.sock.sendall(pong if part == "whole" else pong[:5])
        f.cut(how)
        time.sleep(0.1)
    finally:
        os.kill(gateway.pid, signal.SIGCONT)
    again = seen_again(gateway, session, f)
    assert stdout(again) == "again\n"
    assert not {m["header"]["msg_id"] for m in again} & set(f.ids)


def test_an_answer_behind_output_that_nobody_reads_counts(gateway, session):
    """While a client does not read, the gateway may not read either: at the end it looks all the same."""
    f = Frames(gateway, session)
    ping = f.run_to_the_last_question("print:one")
    f.sock.send("execute_request", {"code": "flood:300:60000", "silent": False})
    wait_for("the cell", 30, lambda: gateway.client().session(session)["state"] == "idle")
    time.sleep(0.3)
    os.kill(gateway.pid, signal.SIGSTOP)
    try:
        f.ws.sock.sendall(websocket.ABNF(1, 0, 0, 0, websocket.ABNF.OPCODE_PONG, 1, ping.data).format())
        f.cut("reset")
        time.sleep(0.1)
    finally:
        os.kill(gateway.pid, signal.SIGCONT)
    again = seen_again(gateway, session, f)
    assert stdout(again) == ("x" * 59999 + "\n") * 300 + "again\n"
    assert not {m["header"]["msg_id"] for m in again} & set(f.ids)


def test_an_answer_counts_although_the_gateway_is_just_writing(gateway, session):
    """The connection breaks under a write, before the gateway has read the answer that came first."""
    key = Frames(gateway, session)
    key.ws.pong(key.run_to_the_last_question("print:warm").data)
    key.sock.send("execute_request", {"code": "flood:60000:200", "silent": False})
    f, confirmed, text = key, set(), []
    for _ in range(120):
        ping = f.until(lambda x: x.opcode == websocket.ABNF.OPCODE_PING and len(x.data) == 8)
        pong = websocket.ABNF(1, 0, 0, 0, websocket.ABNF.OPCODE_PONG, 1, ping.data).format()
        f.ws.sock.sendall(pong)
        f.cut("reset")
        assert not confirmed & set(f.ids), "the client had confirmed it"
        assert len(f.ids) == len(set(f.ids))
        confirmed |= set(f.ids)
        text += f.texts
        f = Frames(gateway, session, session=key.sock.session)
    f.cut("reset")
    gateway.client().post("/api/kernels/%s/interrupt" % session)

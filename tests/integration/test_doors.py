"""Both doors on one session: the Jupyter WebSocket (v1 and legacy) and the cell API see one kernel."""
import struct
import threading

import pytest
import websocket

from harness.gateway import TOKEN, wait_for
from harness.jupyter import Socket, reply, stdout


@pytest.fixture(params=["v1", "legacy"])
def sock(request, gateway, session):
    s = Socket(gateway, session, TOKEN, v1=request.param == "v1")
    yield s
    s.close()


def test_a_jupyter_client_runs_code(sock):
    got = sock.execute("print:hello\nthe result")
    assert stdout(got) == "hello\n" and reply(got)["status"] == "ok"
    assert any(m["msg_type"] == "execute_result" for m in got)
    kinds = [m["msg_type"] for m in got]
    assert kinds.index("execute_input") < kinds.index("stream") < kinds.index("execute_result")


def test_variables_are_shared_between_the_doors(api, session, sock):
    sock.execute("set:x:from jupyter")
    assert api.cell(session, "get:x")["stdout"] == "from jupyter\n"
    api.cell(session, "set:y:from v1")
    assert stdout(sock.execute("get:y")) == "from v1\n"


def test_a_jupyter_client_sees_the_output_of_a_v1_cell(api, session, sock):
    sock.execute("print:x")
    c = api.cell(session, "print:seen by both")
    while True:
        m = sock.recv(10)
        if m["msg_type"] == "stream" and m["content"]["text"] == "seen by both\n":
            break
    assert m["parent_header"]["msg_id"] == c["id"]


def test_replies_go_only_to_the_client_that_asked(gateway, session):
    a, b = Socket(gateway, session, TOKEN), Socket(gateway, session, TOKEN)
    mid = a.send("execute_request", {"code": "print:for a", "silent": False})
    a.until_done(mid)
    seen = []
    while not any(m["msg_type"] == "status" and m["content"]["execution_state"] == "idle"
                  and m["parent_header"].get("msg_id") == mid for m in seen):
        seen.append(b.recv(10))
    mine = [m for m in seen if m["parent_header"].get("msg_id") == mid]
    assert any(m["msg_type"] == "stream" for m in mine)
    assert not any(m["msg_type"] == "execute_reply" for m in mine)
    a.close()
    b.close()


def test_stdin_works_through_jupyter(sock):
    mid = sock.send("execute_request", {"code": "input:name? ", "silent": False, "allow_stdin": True})
    while True:
        m = sock.recv(20)
        if m["msg_type"] == "input_request":
            break
    assert m["channel"] == "stdin" and m["content"]["prompt"] == "name? "
    sock.send("input_reply", {"value": "Eve"}, channel="stdin", parent=m["header"])
    assert stdout(sock.until_done(mid)) == "got Eve\n"


def test_interrupt_by_rest_and_by_message(api, session, sock):
    for how in ("rest", "message"):
        mid = sock.send("execute_request", {"code": "sleep:60000", "silent": False})
        wait_for("busy", 10, lambda: api.get("/api/kernels/" + session).json()["execution_state"] == "busy")
        if how == "rest":
            assert api.post("/api/kernels/%s/interrupt" % session).status == 204
        else:
            sock.send("interrupt_request", {}, channel="control")
        got = sock.until_done(mid, 20)
        assert reply(got)["ename"] == "KeyboardInterrupt"


def test_an_interrupt_at_rest_does_not_reach_the_cell_behind_it(api, session, sock):
    api.cell(session, "late:300")
    for _ in range(3):
        sock.send("interrupt_request", {}, channel="control")
        sock.send("interrupt_request", {}, channel="control")
        got = sock.until_done(sock.send("execute_request", {"code": "sleep:900\nprint:whole", "silent": False}), 30)
        assert reply(got)["status"] == "ok" and stdout(got) == "whole\n", reply(got)


def test_other_requests_are_answered(sock):
    for kind, content in (("kernel_info_request", {}), ("complete_request", {"code": "x", "cursor_pos": 1}),
                          ("is_complete_request", {"code": "x"}), ("history_request", {}), ("comm_info_request", {})):
        got = sock.until_done(sock.send(kind, content), 20)
        assert any(m["msg_type"] == kind.replace("request", "reply") for m in got)


def test_buffers_pass_both_ways(gateway, session):
    import uuid
    from harness.jupyter import encode_v1
    s = Socket(gateway, session, TOKEN)
    header = {"msg_id": uuid.uuid4().hex, "msg_type": "comm_msg", "session": s.session, "username": "", "date": "",
              "version": "5.3"}
    buffers = [b"\x00\x01\x02", b"", bytes(range(256)) * 100]
    s.ws.send_binary(encode_v1("shell", {"header": header, "parent_header": {}, "metadata": {},
                                         "content": {"comm_id": "c", "data": {"k": 1}}}, buffers))
    while True:
        m = s.recv(10)
        if m["msg_type"] == "comm_msg":
            break
    assert m["buffers"] == buffers and m["content"]["data"] == {"k": 1}
    s.close()


def test_a_dead_kernel_is_announced_and_replaced(sock):
    mid = sock.send("execute_request", {"code": "exit:1", "silent": False})
    states = []
    while "restarting" not in states:
        m = sock.recv(30)
        if m["msg_type"] == "status":
            states.append(m["content"]["execution_state"])
    assert set(states) <= {"starting", "idle", "busy", "restarting"}
    assert stdout(sock.execute("print:alive")) == "alive\n"
    assert mid


def test_a_restart_by_rest_answers_with_the_fresh_kernel(api, session, sock):
    sock.execute("set:x:1")
    r = api.post("/api/kernels/%s/restart" % session, timeout=90)
    assert r.status == 200 and r.json()["id"] == session
    assert reply(sock.execute("get:x"))["ename"] == "NameError"


def test_many_clients_at_once(gateway, session):
    socks = [Socket(gateway, session, TOKEN, v1=i % 2 == 0) for i in range(12)]
    results = {}

    def run(i):
        results[i] = stdout(socks[i].execute("print:client %d" % i, timeout=60))

    threads = [threading.Thread(target=run, args=(i,)) for i in range(12)]
    [t.start() for t in threads]
    [t.join(60) for t in threads]
    assert results == {i: "client %d\n" % i for i in range(12)}
    for s in socks:
        s.close()


def test_unknown_kernels_are_refused_at_the_handshake(gateway):
    for ident in ("00000000-0000-4000-8000-000000000000", "nope"):
        with pytest.raises(websocket.WebSocketBadStatusException) as e:
            Socket(gateway, ident, TOKEN)
        assert e.value.status_code == 404


def test_a_wrong_token_is_refused_at_the_handshake(gateway, session):
    with pytest.raises(websocket.WebSocketBadStatusException) as e:
        Socket(gateway, session, "wrong")
    assert e.value.status_code in (401, 403)


@pytest.mark.parametrize("raw,binary", [("{", False), ("[]", False), ("\xff\xff", False), ("{}", False),
                                        (b"", True), (b"\x06\0\0\0\0\0\0\0" + b"\xff" * 48, True), (b"\xff" * 200, True),
                                        ('{"header":{},"channel":"nope"}', False)])
def test_malformed_messages_do_not_take_the_session_down(gateway, api, session, raw, binary):
    s = Socket(gateway, session, TOKEN, v1=binary)
    try:
        s.ws.send_binary(raw) if binary else s.ws.send(raw)
        s.execute("print:x", timeout=5)
    except (ConnectionError, websocket.WebSocketException, AssertionError):
        pass  # closing the connection that sent it is fine
    assert api.cell(session, "print:alive")["stdout"] == "alive\n"


HEADER = '{"msg_id":"wrong-1","msg_type":"%s","session":"s","username":"u","version":"5.3"}'


def v1_frame(channel, header, content=b"{}", cut=0):
    parts = [channel, header, b"{}", b"{}", content]
    off = [8 * 7]
    for p in parts:
        off.append(off[-1] + len(p))
    raw = struct.pack("<7Q", 6, *off) + b"".join(parts)
    return raw[:len(raw) - cut]


def wrong_frames(mtype):
    """Frames that cannot be taken, but whose msg_id can be read: name, whether in the v1 form, bytes."""
    h = (HEADER % mtype).encode()
    json_frame = b'{"header":%s,"parent_header":{},"metadata":{},"content":%s,"channel":%s}'
    yield "unknown channel", False, json_frame % (h, b"{}", b'"nope"')
    yield "iopub", False, json_frame % (h, b"{}", b'"iopub"')
    yield "channel is a number", False, json_frame % (h, b"{}", b"7")
    yield "not UTF-8", False, json_frame % (h, b'{"code":"\xff"}', b'"shell"')
    yield "cut off", False, (json_frame % (h, b'{"code":"print:x"}', b'"shell"'))[:-30]
    yield "content is a list", False, json_frame % (h, b"[]", b'"shell"')
    yield "no session", False, json_frame % (h.replace(b'"session":"s",', b""), b"{}", b'"shell"')
    yield "v1, unknown channel", True, v1_frame(b"nope", h)
    yield "v1, iopub", True, v1_frame(b"iopub", h)
    yield "v1, not UTF-8", True, v1_frame(b"shell", h, b'{"code":"\xff"}')
    yield "v1, cut off", True, v1_frame(b"shell", h, b'{"code":"print:x"}', 5)
    yield "v1, content is a list", True, v1_frame(b"shell", h, b"[]")


@pytest.mark.parametrize("mtype", ["execute_request", "comm_msg"])
@pytest.mark.parametrize("v1", [True, False], ids=["v1", "legacy"])
def test_a_message_that_cannot_be_taken_is_answered_under_its_id(gateway, session, v1, mtype):
    """Each on the same socket, which goes on working."""
    s = Socket(gateway, session, TOKEN, v1=v1)
    s.execute("print:warm")
    for name, is_v1, raw in wrong_frames(mtype):
        if is_v1 != v1:
            continue
        s.ws.send(raw, opcode=websocket.ABNF.OPCODE_BINARY if v1 else websocket.ABNF.OPCODE_TEXT)
        mine = []
        while not mine or (mtype == "execute_request" and mine[-1]["content"].get("execution_state") != "idle"):
            m = s.recv(10)
            if m["parent_header"].get("msg_id") == "wrong-1":
                mine.append(m)
        told = [m["content"] for m in mine if m["msg_type"] in ("execute_reply", "error")]
        assert all(t["ename"] == "BadMessage" and t["evalue"] for t in told), (name, told)
        assert [m["channel"] for m in mine] == (["iopub", "iopub", "shell", "iopub"] if mtype == "execute_request"
                                                else ["iopub"]), name
    assert stdout(s.execute("print:on")) == "on\n"
    s.close()


def test_jupyter_sessions_bind_a_path_to_a_kernel(api):
    r = api.post("/api/sessions", {"path": "a.ipynb", "type": "notebook", "name": "a", "kernel": {"name": "python3"}},
                 timeout=60)
    assert r.status == 201, r
    s = r.json()
    assert s["path"] == "a.ipynb" and s["notebook"]["path"] == "a.ipynb" and s["kernel"]["id"]
    again = api.post("/api/sessions", {"path": "a.ipynb", "type": "notebook", "name": "a",
                                       "kernel": {"name": "python3"}}, timeout=60)
    assert again.status == 201 and again.json()["id"] == s["id"]
    r = api.request("PATCH", "/api/sessions/" + s["id"], {"path": "b.ipynb"})
    assert r.status == 200 and r.json()["path"] == "b.ipynb"
    assert api.delete("/api/sessions/" + s["id"]).status == 204
    assert api.get("/api/kernels/" + s["kernel"]["id"]).status == 404


@pytest.mark.parametrize("method,path,status,reason,code", [
    ("GET", "/api/kernels/1-2-3-4-5", 404, "Not Found", "no_such_kernel"),
    ("GET", "/api/kernels/00000000-0000-4000-8000-000000000000", 404, "Not Found", "no_such_kernel"),
    ("DELETE", "/api/sessions/1-2-3-4-5", 404, "Not Found", "no_such_session"),
    ("GET", "/api/kernelspecs/nope", 404, "Not Found", "no_such_kernelspec"),
    ("GET", "/kernelspecs/python3/logo.png", 404, "Not Found", "no_such_file"),
    ("GET", "/api/contents", 404, "Not Found", "not_found"),
    ("PUT", "/api/kernels", 405, "Method Not Allowed", "method_not_allowed")])
def test_errors_are_as_those_of_a_jupyter_server(api, method, path, status, reason, code):
    r = api.request(method, path)
    assert (r.status, r.json()["reason"], r.json()["code"]) == (status, reason, code), r
    if path.startswith("/api/kernels/"):
        assert path.split("/")[-1] in r.json()["message"]


def test_without_a_token_a_jupyter_client_is_told_so_in_its_own_words(gateway):
    from harness.client import Client
    r = Client("127.0.0.1", gateway.port, None).get("/api/kernels")
    assert (r.status, r.json()["message"], r.json()["reason"]) == (403, "Forbidden", "Forbidden")
    r = Client("127.0.0.1", gateway.port, None).get("/v1/sessions")
    assert (r.status, r.json()["reason"]) == (403, "forbidden") and "code" not in r.json()

"""The edges of the Jupyter door, by hand: answers and errors of the REST API, the legacy dialect as
old clients and front-ends send it, handshakes that are refused, replay and replacement of sockets.

   sockets.py URL TOKEN
"""
import asyncio
import json
import struct
import uuid

import aiohttp
import websockets
from websockets.frames import OP_BINARY, OP_TEXT

from check import SCALE, arguments, check, run, within

URL, TOKEN = arguments()
WS = "ws" + URL[4:]
AUTH = {"Authorization": f"token {TOKEN}"}


def message(msg_type, content, session, **more):
    return {"header": {"msg_id": uuid.uuid4().hex, "msg_type": msg_type, "session": session, "username": "u",
                       "version": "5.3"}, "content": content, **more}


def channels(kernel, session=None):
    query = f"?token={TOKEN}" + (f"&session_id={session}" if session else "")
    return websockets.connect(f"{WS}/api/kernels/{kernel}/channels{query}", max_size=None)


async def execute(ws, code, session, **more):
    m = message("execute_request", {"code": code, "silent": False}, session, **more)
    await ws.send(json.dumps(m))
    return await finish(ws, m["header"]["msg_id"])


async def finish(ws, msg_id):
    """Messages about one request until its reply and idle."""
    got, idle, reply = [], False, False
    while not (idle and reply):
        frame = await within(15, "a message", ws.recv())
        m = json.loads(frame) if isinstance(frame, str) else legacy_binary(frame)
        if m["parent_header"].get("msg_id") != msg_id:
            continue
        got.append(m)
        idle = idle or m["content"].get("execution_state") == "idle"
        reply = reply or m["channel"] == "shell"
    return got


def legacy_binary(frame):
    (n,) = struct.unpack_from(">I", frame)
    offsets = struct.unpack_from(f">{n}I", frame, 4) + (len(frame),)
    parts = [frame[a:b] for a, b in zip(offsets, offsets[1:])]
    return {**json.loads(parts[0]), "buffers": parts[1:]}


def text(messages):
    return "".join(m["content"]["text"] for m in messages if m["msg_type"] == "stream")


async def rest(state, name):
    """REST answers"""
    state["http"] = http = aiohttp.ClientSession(headers=AUTH)
    state["closers"] = [http.close]
    cases = [
        ("GET", "/api", None, 200, "version"),
        ("GET", "/api/kernelspecs", None, 200, "kernelspecs"),
        ("GET", "/api/kernelspecs?user=someone", None, 200, "kernelspecs"),
        ("GET", "/api/kernelspecs/python3", None, 200, "spec"),
        ("GET", "/api/kernelspecs/nope", None, 404, "message"),
        ("GET", "/kernelspecs/python3/logo-64x64.png", None, 404, "message"),
        ("GET", "/api/status", None, 200, "last_activity"),
        ("GET", "/api/me", None, 200, "identity"),
        ("GET", "/api/kernels?1795961276983", None, 200, None),
        ("GET", "/api/sessions", None, 200, None),
        ("GET", f"/api/kernels/{uuid.uuid4()}", None, 404, "message"),
        ("GET", "/api/kernels/not-a-kernel", None, 404, "message"),
        ("DELETE", f"/api/kernels/{uuid.uuid4()}", None, 404, "message"),
        ("POST", f"/api/kernels/{uuid.uuid4()}/interrupt", b"{}", 404, "message"),
        ("POST", f"/api/kernels/{uuid.uuid4()}/restart", b"", 404, "message"),
        ("POST", "/api/kernels", b"{", 400, "message"),
        ("POST", "/api/kernels", b"[]", 400, "message"),
        ("POST", "/api/kernels", b'{"name":7}', 400, "message"),
        ("POST", "/api/sessions", b'{"type":"notebook"}', 400, "message"),
        ("POST", "/api/sessions", b'{"path":"x"}', 400, "message"),
        ("GET", f"/api/sessions/{uuid.uuid4()}", None, 404, "message"),
        ("DELETE", f"/api/sessions/{uuid.uuid4()}", None, 404, "message"),
        ("PATCH", f"/api/sessions/{uuid.uuid4()}", b"{}", 404, "message"),
        ("GET", "/hub/api", None, 404, "message"),
    ]
    for method, path, body, status, key in cases:
        async with http.request(method, URL + path, data=body) as r:
            answer = await r.json()
            check(f"{method} {path} is {status}", r.status == status and (key is None or key in answer), r.status)
    async with http.post(URL + "/api/events", data=b"{}") as r:
        check("POST /api/events is 204 without a body", r.status == 204 and await r.read() == b"")
    async with http.post(URL + "/api/kernels", data=b'{"name":"nope"}') as r:
        check("an unknown kernel name names NoSuchKernel", r.status == 500 and "NoSuchKernel" in await r.text(), r.status)
    async with http.post(URL + "/api/sessions", data=b'{"path":"x","type":"notebook","kernel":{"name":"nope"}}') as r:
        check("a session with one is 501", r.status == 501 and (await r.json())["short_message"] == "nope not found")


async def tokens(_, name):
    """without the right token nothing is told"""
    async with aiohttp.ClientSession() as http:
        for headers, query, want in [({}, "", 403), ({"Authorization": "token wrong"}, "", 403), ({}, "?token=wrong", 403),
                                     ({}, f"?token={TOKEN}", 200), ({"Authorization": f"Bearer {TOKEN}"}, "", 200),
                                     ({"Authorization": f"TOKEN {TOKEN}"}, "", 200)]:
            async with http.get(URL + "/api/kernels" + query, headers=headers) as r:
                check(f"{name}: {sorted(headers)} {query.partition('=')[0]} is {want}", r.status == want and r.content_type == "application/json", r.status)


async def handshakes(state, name):
    """handshakes are refused before they are accepted"""
    for path, headers, want in [(f"/api/kernels/{uuid.uuid4()}/channels?token={TOKEN}", {}, 404),
                                (f"/api/kernels/{uuid.uuid4()}/channels", {}, 403),
                                ("/api/events/subscribe?token=wrong", {}, 403)]:
        try:
            async with websockets.connect(WS + path, extra_headers=headers):
                status = 101
        except websockets.InvalidStatusCode as e:
            status = e.status_code
        check(f"{name}: {want}", status == want, status)
    async with websockets.connect(f"{WS}/api/events/subscribe?token={TOKEN}") as ws:
        pong = await ws.ping()
        await within(5, "a pong", pong)
        check("the event channel is held open", ws.open)


async def kernel(state, name):
    """a kernel by its old name, from an empty body"""
    async with state["http"].post(URL + "/api/sessions", data=json.dumps(
            {"id": "any", "notebook": {"path": f"edge-{uuid.uuid4()}"}, "kernel": {"name": "python"}})) as r:
        model = await r.json()
        check(name, r.status == 201 and model["type"] == "notebook" and model["kernel"]["name"] == "python3" and
              model["notebook"]["path"] == model["path"], r.status)
    state["session"], state["kernel"] = model["id"], model["kernel"]["id"]
    async with state["http"].get(URL + "/api/sessions") as r:
        check("it is listed once", [s["id"] for s in await r.json()].count(model["id"]) == 1)


async def tolerance(state, name):
    """legacy messages with parts missing"""
    session = uuid.uuid4().hex
    async with channels(state["kernel"]) as ws:
        for label, more in [("nothing but header and content", {}), ("buffers {}", {"buffers": {}}),
                            ("buffers []", {"buffers": [], "channel": "shell", "parent_header": {}, "metadata": {}}),
                            ("null parent", {"parent_header": None, "metadata": None})]:
            got = await execute(ws, "print('seen')", session, **more)
            check(f"{name}: {label}", text(got) == "seen\n" and all(m["msg_id"] == m["header"]["msg_id"] for m in got))
        for junk in ["", "{", "[]", "\0\0\0", '{"header":{}}', b"\0\0\0\2", b"\xff" * 40,
                     json.dumps(message("execute_request", {"code": "1"}, session, channel="iopub"))]:
            await ws.send(junk)
        check("junk is dropped and the connection lives", text(await execute(ws, "print(2)", session)) == "2\n")


TARGET = """
def _edge(comm, _):
    @comm.on_msg
    def _m(m):
        comm.send({"got": [len(b) for b in m["buffers"]]}, buffers=[bytes(m["buffers"][0]) * 2])
get_ipython().kernel.comm_manager.register_target("edge", _edge)
"""


async def buffers(state, name):
    """legacy buffers, in a binary frame and in a text frame"""
    session = uuid.uuid4().hex
    async with channels(state["kernel"], session) as ws:
        await execute(ws, TARGET, session)
        await ws.send(json.dumps(message("comm_open", {"comm_id": "c1", "target_name": "edge", "data": {}}, session)))
        for as_text in (False, True):
            raw = b"\xff\x00\x80"
            head = json.dumps(message("comm_msg", {"comm_id": "c1", "data": {}}, session)).encode()
            frame = struct.pack(">III", 2, 12, 12 + len(head)) + head + raw
            # jupyter-server 1.23 marks the frame as text, whatever is in it
            await ws.write_frame(True, OP_TEXT if as_text else OP_BINARY, frame)
            while True:
                answer = await within(15, "comm_msg", ws.recv())
                if isinstance(answer, bytes):
                    break
            m = legacy_binary(answer)
            check(f"{name}: {'text' if as_text else 'binary'}", m["content"]["data"]["got"] == [3] and m["buffers"] == [raw * 2])


async def replay(state, name):
    """what happened between two sockets of one session_id is replayed, once and in order"""
    session = uuid.uuid4().hex
    ws = await channels(state["kernel"], session)
    m = message("execute_request", {"code": "import time\nfor i in range(8):\n  print(i, flush=True); time.sleep(.3)", "silent": False}, session)
    await ws.send(json.dumps(m))
    first = []
    while "1" not in text(first):
        first.append(json.loads(await within(15, "a message", ws.recv())))
    ws.transport.abort()
    await asyncio.sleep(1)
    ws = await channels(state["kernel"], session)
    second = await finish(ws, m["header"]["msg_id"])
    await ws.close()
    both = text([x for x in first if x["parent_header"].get("msg_id") == m["header"]["msg_id"]]) + text(second)
    check(name, both.split() == [str(i) for i in range(8)], both.split())


async def replay_without_id(state, name):
    """a client without session_id is known by the session of its messages"""
    session = uuid.uuid4().hex
    ws = await channels(state["kernel"])
    m = message("execute_request", {"code": "import time; time.sleep(1.5); print('missed'); 7", "silent": False}, session)
    await ws.send(json.dumps(m))
    await asyncio.sleep(0.7)
    ws.transport.abort()
    await asyncio.sleep(2.5)
    async with channels(state["kernel"]) as ws:
        await ws.send(json.dumps(message("kernel_info_request", {}, session)))
        got = await finish(ws, m["header"]["msg_id"])
    check(name, text(got) == "missed\n" and [x["msg_type"] for x in got].count("execute_reply") == 1,
          " ".join(x["msg_type"] for x in got))


async def replacement(state, name):
    """a second socket of one session_id replaces the first"""
    session = uuid.uuid4().hex
    old = await channels(state["kernel"], session)
    await execute(old, "1", session)
    async with channels(state["kernel"], session) as new:
        try:
            while True:
                await within(10, "the old socket's end", old.recv())
        except websockets.ConnectionClosed as e:
            code = e.code
        check(name, code not in (1000, 1001), code)
        check("and works", text(await execute(new, "print('new')", session)) == "new\n")
    async with state["http"].get(f"{URL}/api/kernels/{state['kernel']}") as r:
        await asyncio.sleep(0.2)
        check("no connection stays counted", (await r.json())["connections"] <= 1)


async def listener(state, name):
    """a socket that only listens sees what others run"""
    async with channels(state["kernel"]) as quiet, channels(state["kernel"]) as busy:
        await execute(busy, "print('overheard')", uuid.uuid4().hex)
        seen = ""
        while "overheard" not in seen:
            m = json.loads(await within(10, "fan-out", quiet.recv()))
            assert m["channel"] == "iopub", m["channel"]
            seen += text([m])
        check(name, True)


async def both_doors(state, name):
    """the cell API and a Jupyter client share variables and output"""
    http, session = state["http"], uuid.uuid4().hex
    async with channels(state["kernel"], session) as ws:
        await execute(ws, "shared = 41", session)
        async with http.post(f"{URL}/v1/sessions/{state['kernel']}/cells", json={"code": "print(shared + 1); mine = 'v1'"}) as r:
            cell = await r.json()
        check(name, cell["stdout"] == "42\n" and cell["status"] == "ok", cell.get("status"))
        check("the Jupyter client's next cell sees what it made", text(await execute(ws, "print(mine)", session)) == "v1\n")
    async with channels(state["kernel"]) as quiet:
        await asyncio.sleep(1 * SCALE / 2)
        async with http.post(f"{URL}/v1/sessions/{state['kernel']}/cells", json={"code": "print('from the other door')"}):
            pass
        seen = ""
        while "other door" not in seen:
            seen += text([json.loads(await within(10, "output of a /v1 cell", quiet.recv()))])
        check("and a Jupyter socket shows its output", True)
    async with http.post(f"{URL}/v1/sessions", data=b"{}") as r:
        made = (await r.json())["id"]
    async with http.get(f"{URL}/api/kernels") as r:
        check("a session of the cell API is a kernel in the list", made in [k["id"] for k in await r.json()])
    async with http.delete(f"{URL}/api/kernels/{made}") as r:
        check("and can be deleted as one", r.status == 204)
    async with http.get(f"{URL}/v1/sessions/{made}") as r:
        check("for both doors", r.status == 404)


async def slow_reader(state, name):
    """a client that does not read holds up nobody else"""
    slow = await channels(state["kernel"], uuid.uuid4().hex)
    slow.transport.pause_reading()
    session = uuid.uuid4().hex
    async with channels(state["kernel"], session) as ws:
        got = await execute(ws, "for i in range(40): print('x' * 250_000)", session)
        check(name, len(text(got)) == 40 * 250_001, len(text(got)))
    slow.transport.resume_reading()
    size = 0
    while size < 40 * 250_001:
        size += len(text([json.loads(await within(15, "the rest", slow.recv()))]))
    check("and gets everything when it reads again", size == 40 * 250_001, size)
    await slow.close()


async def delete(state, name):
    """DELETE of the session ends its kernel"""
    async with state["http"].delete(f"{URL}/api/sessions/{state['session']}") as r:
        check(name, r.status == 204, r.status)
    async with state["http"].get(f"{URL}/api/kernels/{state['kernel']}") as r:
        check("its kernel is gone", r.status == 404, r.status)


run([rest, tokens, handshakes, kernel, tolerance, buffers, replay, replay_without_id, replacement, listener, both_doors,
     slow_reader, delete])

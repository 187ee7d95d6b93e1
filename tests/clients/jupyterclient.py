"""jupyter_client's own Session builds and reads every message, over the gateway's HTTP and v1 socket.

   jupyterclient.py URL TOKEN
"""
import struct

import aiohttp
from jupyter_client.session import Session, json_packer, json_unpacker

from check import arguments, check, run, within

URL, TOKEN = arguments()
HEADERS = {"Authorization": f"Bearer {TOKEN}"}
PROTOCOL = "v1.kernel.websocket.jupyter.org"


def pack(channel, msg, buffers=()):
    parts = [channel.encode()] + [json_packer(msg[k]) for k in ("header", "parent_header", "metadata", "content")]
    parts += list(buffers)
    offsets = [8 * (len(parts) + 2)]
    for p in parts:
        offsets.append(offsets[-1] + len(p))
    return struct.pack(f"<{len(offsets) + 1}Q", len(offsets), *offsets) + b"".join(parts)


def unpack(frame):
    (n,) = struct.unpack_from("<Q", frame)
    offsets = struct.unpack_from(f"<{n}Q", frame, 8)
    parts = [frame[a:b] for a, b in zip(offsets, offsets[1:])]
    msg = {k: json_unpacker(p) for k, p in zip(("header", "parent_header", "metadata", "content"), parts[1:5])}
    return {"channel": parts[0].decode(), "buffers": parts[5:], **msg}


class Kernel:
    """A kernel behind the gateway, used by one jupyter_client session."""

    def __init__(self, http, model):
        self.http, self.id = http, model["id"]
        self.session = Session(key=b"")
        self.ws = None

    async def connect(self):
        self.ws = await self.http.ws_connect(
            f"{URL}/api/kernels/{self.id}/channels?session_id={self.session.session}",
            protocols=[PROTOCOL], max_msg_size=0, headers=HEADERS)
        return self

    async def request(self, msg_type, content, channel="shell", buffers=()):
        msg = self.session.msg(msg_type, content)
        await self.ws.send_bytes(pack(channel, msg, buffers))
        return msg["header"]["msg_id"]

    async def messages(self, msg_id, reply=True):
        """Everything about one request, until idle and, if there is one, the reply."""
        idle, replied, got = False, not reply, []
        while not (idle and replied):
            m = unpack((await within(15, "a message", self.ws.receive())).data)
            if m["parent_header"].get("msg_id") != msg_id:
                continue
            got.append(m)
            idle = idle or m["content"].get("execution_state") == "idle"
            replied = replied or m["channel"] in ("shell", "control")
        return got

    async def execute(self, code, **more):
        return await self.messages(await self.request("execute_request", {"code": code, "silent": False, **more}))


def text(messages):
    return "".join(m["content"]["text"] for m in messages if m["header"]["msg_type"] == "stream")


async def start(state, name):
    """start with an environment, connect"""
    state["http"] = http = aiohttp.ClientSession(headers=HEADERS)
    state["closers"] = [http.close]
    body = {"name": "python3", "env": {"KERNEL_DRIVER": "yes", "AWS_SECRET_ACCESS_KEY": "never"}}
    async with http.post(f"{URL}/api/kernels", json=body) as r:
        model = await r.json()
        check(name, r.status == 201 and r.headers["Location"].endswith(f"/api/kernels/{model['id']}"), r.status)
    state["k"] = await Kernel(http, model).connect()
    check("v1 is spoken", state["k"].ws.protocol == PROTOCOL)


async def environment(state, name):
    """only KERNEL_ variables reach the kernel"""
    out = text(await state["k"].execute(
        "import os\nprint(os.environ.get('KERNEL_DRIVER'), 'AWS_SECRET_ACCESS_KEY' in os.environ, os.environ.get('KERNEL_GATEWAY'))"))
    check(name, out == "yes False 1\n", out)


async def kernel_info(state, name):
    """kernel_info on shell and on control"""
    k = state["k"]
    for channel in ("shell", "control"):
        got = await k.messages(await k.request("kernel_info_request", {}, channel))
        reply = [m for m in got if m["header"]["msg_type"] == "kernel_info_reply"]
        check(f"{name}: {channel}", reply and reply[0]["channel"] == channel and reply[0]["content"]["status"] == "ok")


async def silent(state, name):
    """user expressions of a silent cell"""
    got = await state["k"].execute("", silent=True, user_expressions={"x": "3*3"})
    reply = got[-1] if got[-1]["channel"] == "shell" else [m for m in got if m["channel"] == "shell"][0]
    check(name, reply["content"]["user_expressions"]["x"]["data"]["text/plain"] == "9")


async def stdin(state, name):
    """input over the stdin channel"""
    k = state["k"]
    msg_id = await k.request("execute_request", {"code": "print(input('> ') * 2)", "silent": False, "allow_stdin": True})
    while True:
        m = unpack((await within(15, "input_request", k.ws.receive())).data)
        if m["channel"] == "stdin":
            break
    reply = k.session.msg("input_reply", {"value": "ab", "status": "ok"}, parent=m["header"])
    await k.ws.send_bytes(pack("stdin", reply))
    check(name, text(await k.messages(msg_id)) == "abab\n" and m["content"]["prompt"] == "> ")


async def large(state, name):
    """an output message of 20 MB arrives whole"""
    got = await state["k"].execute("from IPython.display import display\ndisplay({'text/plain': 'z' * 20_000_000}, raw=True)")
    data = [m["content"]["data"]["text/plain"] for m in got if m["header"]["msg_type"] == "display_data"]
    check(name, data and len(data[0]) == 20_000_000)


async def bad_messages(state, name):
    """bad frames are answered or dropped, the connection lives"""
    k = state["k"]
    await k.ws.send_bytes(b"\0" * 7)
    await k.ws.send_bytes(b"\xff" * 64)
    await k.ws.send_str("{not json")
    await k.ws.send_bytes(pack("no-such-channel", k.session.msg("execute_request", {"code": "1"})))
    got = await k.execute("print('alive')")
    check(name, text(got) == "alive\n")
    msg = k.session.msg("execute_request", {"code": "1"})
    await k.ws.send_bytes(pack("shell", msg).replace(b'"code"', b'"code:', 1))  # no JSON any more
    reply = [m for m in await k.messages(msg["header"]["msg_id"]) if m["channel"] == "shell"][0]
    check("a refused request gets an error reply", reply["content"]["status"] == "error", reply["content"].get("ename"))


async def dead(state, name):
    """a deleted kernel says dead, then the handshake is refused"""
    k = state["k"]
    async with state["http"].delete(f"{URL}/api/kernels/{k.id}") as r:
        deleted = r.status
    states, code = [], None
    while True:
        m = await within(15, "the end of the socket", k.ws.receive())
        if m.type != aiohttp.WSMsgType.BINARY:
            code = k.ws.close_code
            break
        states.append(unpack(m.data)["content"].get("execution_state"))
    check(name, deleted == 204 and states[-1] == "dead" and code not in (1000, 1001), f"{deleted} {states[-1:]} {code}")
    try:
        await k.connect()
        status = 101
    except aiohttp.WSServerHandshakeError as e:
        status = e.status
    check("then 404", status == 404, status)


run([start, environment, kernel_info, silent, stdin, large, bad_messages, dead])

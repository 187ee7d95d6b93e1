"""A chat front-end's code interpreter, as Open WebUI does it: a kernel a run, started without a
body, a bare legacy WebSocket with the token in the query, one execute_request, then DELETE.

   openwebui.py URL TOKEN
"""
import json
import uuid

import aiohttp
import websockets

from check import arguments, check, run, within

URL, TOKEN = arguments()
WS = "ws" + URL[4:]


def request(code):
    """What it sends: an empty date, no buffers, a session of its own."""
    return {
        "header": {"msg_id": uuid.uuid4().hex, "username": "user", "session": uuid.uuid4().hex, "date": "",
                   "msg_type": "execute_request", "version": "5.3"},
        "parent_header": {}, "metadata": {}, "channel": "shell",
        "content": {"code": code, "silent": False, "store_history": True, "user_expressions": {},
                    "allow_stdin": False, "stop_on_error": True},
    }


async def interpret(code):
    async with aiohttp.ClientSession() as http:
        async with http.post(f"{URL}/api/kernels", params={"token": TOKEN}) as r:
            assert r.status == 201, r.status
            kernel = (await r.json())["id"]
        out = {"stdout": "", "stderr": "", "result": [], "types": [], "kernel": kernel}
        try:
            async with websockets.connect(f"{WS}/api/kernels/{kernel}/channels?token={TOKEN}") as ws:
                message = request(code)
                await ws.send(json.dumps(message))
                await collect(ws, message["header"]["msg_id"], out)
        finally:
            async with http.delete(f"{URL}/api/kernels/{kernel}", params={"token": TOKEN}) as r:
                out["deleted"] = r.status
    return out


async def collect(ws, msg_id, out):
    while True:
        m = json.loads(await within(15, "the end of the cell", ws.recv()))
        if m.get("parent_header", {}).get("msg_id") != msg_id:
            continue
        out["types"].append(m["msg_type"])
        content = m["content"]
        if m["msg_type"] == "stream":
            out[content["name"]] += content["text"]
        elif m["msg_type"] in ("execute_result", "display_data"):
            out["result"].append(content["data"])
        elif m["msg_type"] == "error":
            out["stderr"] += "\n".join(content["traceback"])
        elif m["msg_type"] == "status" and content["execution_state"] == "idle":
            return


async def prints(_, name):
    """output of a run"""
    out = await interpret("print('hello')\n6*7")
    check(name, out["stdout"] == "hello\n" and out["result"][0]["text/plain"] == "42", " ".join(out["types"]))
    check("its kernel is deleted", out["deleted"] == 204)


async def picture(_, name):
    """a figure"""
    out = await interpret("import matplotlib.pyplot as plt\nplt.plot([1, 3, 2])\nplt.show()")
    check(name, any("image/png" in data for data in out["result"]), " ".join(out["types"]))


async def error(_, name):
    """an error's traceback"""
    out = await interpret("undefined_name")
    check(name, "NameError" in out["stderr"])


async def fresh(_, name):
    """each run starts empty"""
    await interpret("left_over = 1")
    out = await interpret("print('left_over' in globals())")
    check(name, out["stdout"] == "False\n", out["stdout"])


run([prints, picture, error, fresh])

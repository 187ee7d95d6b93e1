"""A Jupyter client over the gateway's WebSocket, in both wire forms, and nothing that hides a message."""
import json
import struct
import time
import uuid

import websocket

V1 = "v1.kernel.websocket.jupyter.org"


def encode_v1(channel, msg, buffers=()):
    parts = [channel.encode()] + [json.dumps(msg[k]).encode() for k in ("header", "parent_header", "metadata", "content")]
    parts += list(buffers)
    offsets = [8 * (len(parts) + 2)]
    for p in parts:
        offsets.append(offsets[-1] + len(p))
    return struct.pack("<%dQ" % (len(offsets) + 1), len(offsets), *offsets) + b"".join(parts)


def decode_v1(raw):
    n, = struct.unpack_from("<Q", raw)
    off = struct.unpack_from("<%dQ" % n, raw, 8)
    parts = [raw[off[i]:off[i + 1]] for i in range(n - 1)]
    names = ("header", "parent_header", "metadata", "content")
    msg = {k: json.loads(p) for k, p in zip(names, parts[1:5])}
    msg.update(channel=parts[0].decode(), msg_type=msg["header"]["msg_type"], buffers=parts[5:])
    return msg


class Closed(ConnectionError):
    """The gateway closed the socket; .code is None when it gave no code."""

    def __init__(self, payload):
        super().__init__("closed by the gateway: %r" % payload)
        self.code = struct.unpack(">H", payload[:2])[0] if len(payload) >= 2 else None


class Socket:
    def __init__(self, gateway, kernel, token, session=None, v1=True, timeout=30, query=True):
        self.session = session or uuid.uuid4().hex
        url = "ws://127.0.0.1:%d/api/kernels/%s/channels?token=%s" % (gateway.port, kernel, token)
        if query:
            url += "&session_id=" + self.session
        self.ws = websocket.create_connection(url, timeout=timeout, subprotocols=[V1] if v1 else None)
        self.v1 = v1
        assert self.ws.subprotocol == (V1 if v1 else None)

    def send(self, mtype, content, channel="shell", parent=None):
        header = {"msg_id": uuid.uuid4().hex, "msg_type": mtype, "session": self.session, "username": "tester",
                  "date": "2026-01-01T00:00:00.000000Z", "version": "5.3"}
        msg = {"header": header, "parent_header": parent or {}, "metadata": {}, "content": content}
        if self.v1:
            self.ws.send_binary(encode_v1(channel, msg))
        else:
            self.ws.send(json.dumps({**msg, "channel": channel, "buffers": []}))
        return header["msg_id"]

    def recv(self, timeout=30):
        self.ws.settimeout(timeout)
        op, raw = self.ws.recv_data()
        if op == websocket.ABNF.OPCODE_CLOSE:
            raise Closed(raw)
        if op == websocket.ABNF.OPCODE_BINARY and self.v1:
            return decode_v1(raw)
        return json.loads(raw)

    def execute(self, code, timeout=60, **content):
        mid = self.send("execute_request", {"code": code, "silent": False, "store_history": True,
                                            "user_expressions": {}, "allow_stdin": False, "stop_on_error": True,
                                            **content})
        return self.until_done(mid, timeout)

    def until_done(self, mid, timeout=60):
        """All messages of a request, up to its reply and its idle, whichever is later."""
        got, reply, idle = [], False, False
        end = time.monotonic() + timeout
        while not (reply and idle):
            left = end - time.monotonic()
            assert left > 0, "no end of %s within %s s; got %s" % (mid, timeout, [m["msg_type"] for m in got])
            m = self.recv(left)
            if m["parent_header"].get("msg_id") != mid:
                continue
            got.append(m)
            reply = reply or m["msg_type"].endswith("_reply")
            idle = idle or (m["msg_type"] == "status" and m["content"]["execution_state"] == "idle")
        return got

    def close(self):
        self.ws.close()

    def drop(self):
        """As a network that went away: no closing handshake."""
        self.ws.sock.close()


def stdout(messages):
    return "".join(m["content"]["text"] for m in messages
                   if m["msg_type"] == "stream" and m["content"]["name"] == "stdout")


def reply(messages):
    return next(m["content"] for m in messages if m["msg_type"].endswith("_reply"))

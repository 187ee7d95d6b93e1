"""One guest, restored from a template, without gateway, bridge and jail, and its agent's protocol from Python.

For the tests of this folder and for trying things by hand:
    m = Machine("build/bench/vmm_restore", template_folder); m.start(); m.agent.call("ping"); m.stop()
"""
import hashlib
import hmac
import json
import os
import subprocess
import time
import uuid

import zmq


class Agent:
    """The bridge's end of PROTOCOL.md section 2."""

    def __init__(self, port, key=b"\0" * 32):
        self.sock = zmq.Context.instance().socket(zmq.DEALER)
        self.sock.linger = 0
        self.sock.connect(f"tcp://127.0.0.1:{port}")
        self.key, self.n, self.rid, self.pushes = key, 0, 0, []

    def send(self, op, payload=b"", **fields):
        self.rid += 1
        self.n += 1
        header = json.dumps({"op": op, "rid": self.rid, "n": self.n, **fields}).encode()
        self.sock.send_multipart([hmac.digest(self.key, header + payload, "sha256"), header, payload])
        return self.rid

    def receive(self, timeout):
        if not self.sock.poll(timeout * 1000):
            raise TimeoutError
        signature, header, payload = self.sock.recv_multipart()
        assert hmac.digest(self.key, header + payload, "sha256") == signature
        return json.loads(header), payload

    def call(self, op, payload=b"", timeout=60, **fields):
        """The answer's header; its payload, if any, under "payload"."""
        rid = self.send(op, payload, **fields)
        return self.answer(rid, timeout)

    def answer(self, rid, timeout=60):
        while True:
            header, payload = self.receive(timeout)
            if header.get("re") == rid:
                return {**header, "payload": payload}
            self.pushes.append((header, payload))

    def push(self, wanted, timeout=60):
        while True:
            for p in self.pushes:
                if wanted(p[0]):
                    self.pushes.remove(p)
                    return p
            self.pushes.append(self.receive(timeout))

    def personalise(self, hostname="guest-1"):
        key = os.urandom(32)
        rid = self.send("personalise", os.urandom(64), key=key.hex(), time_us=time.time_ns() // 1000,
                        hostname=hostname, machine_id=uuid.uuid4().hex)
        self.key, self.n = key, 0
        return self.answer(rid)

    def command(self, stdin=b"", **fields):
        """exit event, stdout, stderr."""
        answer = self.call("command", stdin, **fields)
        assert "pid" in answer, answer
        out = {"stdout": b"", "stderr": b""}
        while True:
            header, payload = self.push(lambda h: h.get("pid") == answer["pid"], 120)
            if header["ev"] == "exit":
                return header, out["stdout"], out["stderr"]
            out[header["stream"]] += payload

    def put(self, path, data):
        opened = self.call("write_open", path=path)
        if "error" in opened:
            return opened
        for at in range(0, len(data), 1 << 18):
            assert "error" not in self.call("write", data[at : at + (1 << 18)], handle=opened["handle"])
        return self.call("write_commit", handle=opened["handle"])


class Machine:
    def __init__(self, restorer, template):
        self.command = [restorer, "--attend", template]
        self.process = self.agent = self.port = None

    def start(self):
        self.process = subprocess.Popen(self.command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        said = self.process.stdout.readline()
        if not said:
            raise RuntimeError("the guest was not restored, see above")
        self.port = json.loads(said)["agent_port"]
        self.agent = Agent(self.port)

    def stop(self):
        """The exit code of what held the guest: 0 when all went well to the end."""
        self.process.communicate()
        return self.process.returncode


def sha256(data):
    return hashlib.sha256(data).hexdigest()

"""The fake guest agent: PROTOCOL.md section 2 over an in-memory tree, and lies on demand."""
import base64
import fnmatch
import hashlib
import hmac
import json
import os
import posixpath
import queue
import threading
import time

import zmq

HOME = "/home/user"


def named(field, text):
    """A name for JSON: bytes that are not UTF-8 (surrogates here) as U+FFFD, and exactly in hexadecimal."""
    raw = text.encode("utf-8", "surrogateescape")
    try:
        return {field: raw.decode()}
    except UnicodeDecodeError:
        return {field: raw.decode("utf-8", "replace"), field + "_raw_hex": raw.hex()}


class Refused(Exception):
    def __init__(self, status, reason, message):
        self.error = {"status": status, "reason": reason, "message": message}


class Tree:
    """Files by absolute path; folders are entries whose data is None."""

    def __init__(self):
        self.lock = threading.Lock()
        self.files = {}
        self.changed = {}
        self.ignore = None
        for d in ("/", "/home", HOME, "/tmp"):
            self.files[d] = (None, time.time_ns())

    def put(self, path, data):
        path = posixpath.normpath(path)
        with self.lock:
            parent = posixpath.dirname(path)
            while parent not in self.files:
                self.files[parent] = (None, time.time_ns())
                parent = posixpath.dirname(parent)
            created = path not in self.files
            self.files[path] = (data, time.time_ns())
            self.changed.setdefault(path, "created" if created else "changed")
            return created

    def get(self, path):
        path = posixpath.normpath(path)
        if path.startswith(("/proc", "/sys", "/dev")):
            raise Refused(403, "forbidden", "this path is not served")
        if path not in self.files:
            raise Refused(404, "no_such_file", "no such file or folder")
        return path, *self.files[path]

    def stat(self, path):
        path, data, mtime = self.get(path)
        mime = {".csv": "text/csv", ".txt": "text/plain", ".png": "image/png"}.get(posixpath.splitext(path)[1])
        return {"type": "dir" if data is None else "file", "size": len(data or b""), "mtime_ns": mtime,
                "mode": 0o755 if data is None else 0o644, "etag": "%x-%x" % (mtime, len(data or b"")),
                "mime": mime or "application/octet-stream"}

    def ignored(self, path):
        return any(fnmatch.fnmatchcase(part, pattern) for part in path.split("/")[:-1] for pattern in self.ignore or ())

    def changes(self):
        with self.lock:
            files = [{**named("path", p), "size": len(self.files[p][0]), "mtime_ns": self.files[p][1], "change": c,
                      "mime": "image/png" if p.endswith(".png") else "text/plain", "sha256": hashlib.sha256(self.files[p][0]).hexdigest(),
                      **({"sha256": None, "partial": True} if p.endswith(".open") else {})}  # as if it was being written
                     for p, c in sorted(self.changed.items()) if p in self.files and not self.ignored(p)]
            self.changed.clear()
        return {"files": files[:200], "count": len(files), "scan_truncated": False}


class Agent(threading.Thread):
    def __init__(self, machine, port):
        super().__init__(daemon=True)
        self.machine, self.port = machine, port
        self.key = bytes(32)
        self.n_in = self.n_out = 0
        self.peer = None
        self.tree = Tree()
        self.pushes = queue.Queue()
        self.lies = set(machine.faults)
        self.handles = {}
        self.said = {}  # operation -> what is answered to it whatever was asked: say:OP:JSON
        self.kernel_env = {}
        self.limits = {}
        self.commands = iter(range(5000, 1 << 30))

    def frozen(self):
        with self.tree.lock:
            files = {p: [None if d is None else base64.b64encode(d).decode(), t] for p, (d, t) in self.tree.files.items()}
        return {"key": self.key.hex(), "n_in": self.n_in, "n_out": self.n_out, "env": self.kernel_env, "files": files}

    def thaw(self, past):
        self.key = bytes.fromhex(past["key"])
        self.n_in, self.n_out, self.kernel_env = past["n_in"], past["n_out"], past["env"]
        self.tree.files = {p: (None if d is None else base64.b64decode(d), t) for p, (d, t) in past["files"].items()}

    def misbehave(self, what):
        """A lie by its name, or say:OP:JSON (its `_payload`: that many bytes go with it), or push:TIMES:JSON."""
        word, _, rest = what.partition(":")
        if word in ("say", "push"):
            subject, _, text = rest.partition(":")
            if word == "say":
                self.said[subject] = json.loads(text)
            for _ in range(int(subject) if word == "push" else 0):
                header = json.loads(text)
                self.push(header, bytes(header.pop("_payload", 0)))
            return
        self.lies.add(what)
        if what == "garbage":
            self.pushes.put(None)

    def push(self, header, payload=b""):
        self.pushes.put((header, payload))

    def run(self):
        sock = zmq.Context.instance().socket(zmq.ROUTER)
        sock.setsockopt(zmq.ROUTER_HANDOVER, 1)
        sock.bind("tcp://127.0.0.1:%d" % self.port)
        while True:
            while not self.pushes.empty() and self.peer:
                item = self.pushes.get()
                if item is None:
                    for frames in ([b""], [b"x" * 32], [b"s" * 32, b"{]"], [os.urandom(32), os.urandom(1000), b"p"],
                                   [b"a"] * 100):
                        sock.send_multipart([self.peer, *frames])
                else:
                    self.send(sock, *item)
            if sock.poll(10):
                self.request(sock, sock.recv_multipart())

    def mac(self, header, payload):
        return hmac.new(self.key, header + payload, hashlib.sha256).digest()

    def send(self, sock, header, payload=b""):
        self.n_out += 1
        raw = json.dumps({**header, "n": 1 if "replay" in self.lies else self.n_out}).encode()
        sig = bytes(32) if "bad_sig" in self.lies else self.mac(raw, payload)
        sock.send_multipart([self.peer, sig, raw, payload])

    def request(self, sock, frames):
        if len(frames) < 3:
            return
        payload = frames[3] if len(frames) > 3 else b""
        if not hmac.compare_digest(self.mac(frames[2], payload), frames[1]):
            return
        header = json.loads(frames[2])
        if header["n"] <= self.n_in and header["op"] != "personalise":
            return
        self.n_in, self.peer = header["n"], frames[0]
        if "silent" in self.lies or ("silent-" + header["op"]) in self.lies:
            return
        op = header["op"]
        for field in [f for f in header if f.endswith("_raw_hex")]:
            header[field.removesuffix("_raw_hex")] = bytes.fromhex(header[field]).decode("utf-8", "surrogateescape")
        try:
            if ("fail-" + op) in self.lies:
                raise Refused(500, "told_to_fail", "the fake was told to fail")
            if op in self.said:
                answer = dict(self.said[op])
                data = bytes(answer.pop("_payload", 0))
            else:
                answer, data = getattr(self, "op_" + op)(header, payload)
        except Refused as e:
            answer, data = {"error": e.error}, b""
        slow = next((int(lie[5:]) for lie in self.lies if lie.startswith("slow:")), 0)  # slow:MS of `changes`
        if slow and op == "changes":
            timer = threading.Timer(slow / 1000, self.push, ({"re": header["rid"], **answer}, data))
            timer.daemon = True
            timer.start()
            return
        rid = header["rid"] + 1000 if "wrong_re" in self.lies else header["rid"]
        if "huge" in self.lies:
            answer["x"] = "y" * (3 << 20)
        self.send(sock, {"re": rid, **answer}, data)

    # --- operations -------------------------------------------------------------------------------

    def op_hello(self, h, payload):
        return {"version": 1, "kernel_pid": self.machine.kernel.pid, "boot_id": "00000000-0000-4000-8000-000000000001"}, b""

    def op_personalise(self, h, payload):
        if len(payload) != 64 or len(h["machine_id"]) != 32 or not h["hostname"]:
            raise Refused(400, "bad_personalise", "entropy, machine_id or hostname is wrong")
        self.key = bytes.fromhex(h["key"])
        return {"ok": True}, b""

    def op_ping(self, h, payload):
        return {"ok": True}, b""

    op_set_time = op_ping

    def op_kernel_start(self, h, payload):
        from kernel import Kernel
        old = self.machine.kernel
        if not old.dead:
            old.dead = True
            time.sleep(0.3)
        self.kernel_env = h.get("env") or {}
        self.machine.kernel = Kernel(self.machine, self.machine.ports, h["key"].encode())
        slow = getattr(self.machine, "slow_kernels", [])
        if slow:
            self.machine.kernel.slow_start = slow.pop()
        self.machine.kernel.start()
        return {"pid": self.machine.kernel.pid}, b""

    def op_kernel_signal(self, h, payload):
        kernel = self.machine.kernel
        if h["signal"] == "INT":
            kernel.interrupt("signal")
        else:
            kernel.die(signum=9 if h["signal"] == "KILL" else 15)
        return {"ok": True}, b""

    def op_watch(self, h, payload):
        if "no_watch" in self.lies:
            raise Refused(400, "unknown_op", "the agent knows no such operation")
        self.tree.ignore = h.get("ignore")
        self.tree.changed.clear()
        return {"ok": True}, b""

    def op_changes(self, h, payload):
        if "changes_lie" in self.lies:
            return {"files": [{"path": "../../etc/passwd", "size": -1, "mtime_ns": "x", "change": 7, "mime": None}] * 300,
                    "count": "many"}, b""
        found = self.tree.changes()
        told = [lie for lie in self.lies if lie.startswith("usage:")]  # usage:NAME=N&NAME=N of the next look
        if told:
            self.lies.discard(told[0])
            found["usage"] = {k: int(v) for k, v in (p.split("=") for p in told[0][6:].split("&"))}
        return found, b""

    def op_usage(self, h, payload):
        return {"cpu_ms": 1234, "memory_bytes": 50 << 20, "peak_memory_bytes": 60 << 20, "disk_bytes": 1 << 20,
                "disk_free_bytes": 1 << 30}, b""

    def op_limits(self, h, payload):
        if "no-limits" in self.lies:  # an agent of before there were any
            raise Refused(400, "unknown_op", "the agent knows no such operation")
        self.limits = {k: h[k] for k in ("pids", "open_files", "disk_bytes") if k in h}
        return {"ok": True}, b""

    def op_stat(self, h, payload):
        return {"stat": self.tree.stat(h["path"])}, b""

    def op_list(self, h, payload):
        path, data, _ = self.tree.get(h["path"])
        if data is not None:
            raise Refused(400, "not_a_folder", "not a folder")
        prefix = path.rstrip("/") + "/"
        names = sorted(p[len(prefix):] for p in self.tree.files
                       if p.startswith(prefix) and p != prefix and "/" not in p[len(prefix):])
        limit = h.get("limit") or 10000
        entries = [{**named("name", n), **{k: v for k, v in self.tree.stat(prefix + n).items() if k in ("type", "size", "mtime_ns")}}
                   for n in names[:limit]]
        return {"entries": entries, "truncated": len(names) > limit}, b""

    def op_read(self, h, payload):
        path, data, _ = self.tree.get(h["path"])
        if data is None:
            raise Refused(400, "is_a_folder", "a folder")
        stat = self.tree.stat(path)
        if h.get("etag") and h["etag"] != stat["etag"]:
            raise Refused(409, "file_changed", "the file changed")
        chunk = data[h["offset"]:h["offset"] + h["length"]]
        return {"stat": stat, "eof": h["offset"] + len(chunk) >= len(data)}, chunk

    def op_write_open(self, h, payload):
        if len(self.handles) >= 16:
            raise Refused(429, "too_many_files", "16 files are open for writing")
        handle = max(self.handles, default=0) + 1
        self.handles[handle] = [h["path"], bytearray()]
        return {"handle": handle}, b""

    def op_write(self, h, payload):
        self.handles[h["handle"]][1] += payload
        return {"ok": True}, b""

    def op_write_commit(self, h, payload):
        path, data = self.handles.pop(h["handle"])
        created = self.tree.put(path, bytes(data))
        self.tree.changed.pop(posixpath.normpath(path), None)  # what a client wrote is no artifact
        return {"stat": self.tree.stat(path), "created": created}, b""

    def op_write_abort(self, h, payload):
        self.handles.pop(h["handle"], None)
        return {"ok": True}, b""

    def op_remove(self, h, payload):
        path, data, _ = self.tree.get(h["path"])
        below = [p for p in self.tree.files if p.startswith(path.rstrip("/") + "/")]
        if below and not h.get("recursive"):
            raise Refused(409, "not_empty", "the folder is not empty")
        for p in [path, *below]:
            del self.tree.files[p]
        return {"ok": True}, b""

    def op_mkdir(self, h, payload):
        path = posixpath.normpath(h["path"])
        self.tree.files.setdefault(path, (None, time.time_ns()))
        return {"stat": self.tree.stat(path)}, b""

    def op_move(self, h, payload):
        path, data, mtime = self.tree.get(h["from"])
        del self.tree.files[path]
        self.tree.files[posixpath.normpath(h["to"])] = (data, mtime)
        return {"stat": self.tree.stat(h["to"])}, b""

    def op_command(self, h, payload):
        """echo WORDS, exit N and cat (stdin back) are understood; sleep N waits for its time-out."""
        pid = next(self.commands)
        words = h.get("argv") or (h.get("cmd") or "").split()

        def run():
            code, timed_out = 0, False
            if words[:1] == ["/usr/bin/python3"] and len(words) == 6:
                if "shrink:hang" in self.lies:
                    return
                code, out = self.shrink(words[4], int(words[5]))
                for i in range(0, len(out), 60000):
                    self.push({"ev": "out", "pid": pid, "stream": "stdout"}, out[i:i + 60000])
                self.push({"ev": "exit", "pid": pid, "code": code, "timed_out": False})
                return
            if words[:1] == ["echo"]:
                self.push({"ev": "out", "pid": pid, "stream": "stdout"}, (" ".join(words[1:]) + "\n").encode())
            elif words[:1] == ["cat"]:
                self.push({"ev": "out", "pid": pid, "stream": "stdout"}, payload)
            elif words[:1] == ["exit"]:
                code = int(words[1])
            elif words[:1] == ["sleep"]:
                limit = (h.get("timeout_ms") or 30000) / 1000
                timed_out = float(words[1]) > limit
                time.sleep(min(float(words[1]), limit))
                code = 124 if timed_out else 0
            else:
                self.push({"ev": "out", "pid": pid, "stream": "stderr"}, b"not found\n")
                code = 127
            self.push({"ev": "exit", "pid": pid, "code": code, "timed_out": timed_out})

        threading.Thread(target=run, daemon=True).start()
        return {"pid": pid}, b""

    def shrink(self, path, edge):
        """What the gateway's program for pictures would print: here a smaller header is a smaller picture."""
        packed, at, out = self.tree.files.pop(path)[0], 0, b""
        while at < len(packed):
            n = int.from_bytes(packed[at:at + 4], "big")
            picture = packed[at + 4:at + 4 + n]
            w, h = (int.from_bytes(picture[i:i + 4], "big") for i in (16, 20))
            w, h = (max(1, v * edge // max(w, h)) for v in (w, h))
            if "shrink:larger" in self.lies:
                w = edge + 1
            small = picture[:16] + w.to_bytes(4, "big") + h.to_bytes(4, "big") + picture[24:]
            if "shrink:other" in self.lies:  # a JPEG instead
                small = b"\xff\xd8\xff\xc0\x00\x11\x08\x00\x08\x00\x08\x03"
            out += len(small).to_bytes(4, "big") + small
            at += 4 + n
        if "shrink:short" in self.lies:
            out = out[:-1]
        if "shrink:flood" in self.lies:
            out = b"\0" * (30 << 20)
        return int("shrink:fails" in self.lies), out

    def op_command_kill(self, h, payload):
        self.push({"ev": "exit", "pid": h["pid"], "signal": 9, "timed_out": False})
        return {"ok": True}, b""

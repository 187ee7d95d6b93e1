"""A Python client of the bridge protocol (docs/PROTOCOL.md section 1), and a way to start a bridge
without a gateway: for tests and measurements of the bridge alone.

    b = Bridge(cellkeep, template_dir)        # raises NotReady with the bridge's own words
    c = b.connect()
    cell = c.run("1+1")                       # the finished cell as a dict
    b.end()
"""
import fcntl
import json
import os
import shutil
import socket
import struct
import subprocess
import tempfile
import time
import uuid

F_ADD_SEALS = 1033
SEALS = 0x1 | 0x2 | 0x4 | 0x8  # seal, shrink, grow, write


class NotReady(Exception):
    pass


class BridgeError(Exception):
    def __init__(self, error):
        super().__init__("%(status)s %(reason)s: %(message)s" % error)
        self.status, self.reason, self.message = error["status"], error["reason"], error["message"]


def encode(header, *parts):
    parts = [json.dumps(header).encode(), *parts]
    body = struct.pack("<I", len(parts)) + b"".join(struct.pack("<I", len(p)) for p in parts) + b"".join(parts)
    return struct.pack("<I", len(body)) + body


def template_ram(template_dir):
    """The template's memory as a sealed memfd, as the gateway hands it to its bridges."""
    fd = os.memfd_create("ram", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    with open(os.path.join(template_dir, "ram"), "rb") as f:
        size = os.fstat(f.fileno()).st_size
        os.ftruncate(fd, size)
        at = 0
        while at < size:  # holes stay holes
            try:
                at = os.lseek(f.fileno(), at, os.SEEK_DATA)
            except OSError:
                break
            end = os.lseek(f.fileno(), at, os.SEEK_HOLE)
            while at < end:
                data = os.pread(f.fileno(), min(1 << 22, end - at), at)
                os.pwrite(fd, data, at)
                at += len(data)
    fcntl.fcntl(fd, F_ADD_SEALS, SEALS)
    return fd


class Bridge:
    """One `cellkeep bridge` with a session folder of its own. config adds to or overrides its settings; with
    folder (that of a paused session) it is the same session again."""

    def __init__(self, binary, template_dir, image_dir="", qemu="", timeout=90, ram_fd=None, folder=None, id=None,
                 **config):
        self.id = id or str(uuid.uuid4())
        self.dir, self.own_folder = folder or tempfile.mkdtemp(prefix="ckb"), folder is None
        self.socket = os.path.join(self.dir, "bridge.sock")
        self.log_path = "%s.%d.log" % (self.dir, time.monotonic_ns())
        self.ended, self.text = False, ""
        settings = {"id": self.id, "dir": self.dir, "template_dir": template_dir, "image_dir": image_dir, "qemu": qemu,
                    "pool": False, "limits": {}, **config}
        ram = template_ram(template_dir) if ram_fd is None else ram_fd
        status_r, status_w = os.pipe()
        # The child's numbers are 0 to 4; ours are moved out of their way first.
        high = [fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 50) for fd in (ram, status_w)]

        def descriptors():
            os.setsid()
            os.dup2(high[0], 3)
            os.dup2(high[1], 4)

        start = time.monotonic()
        with open(self.log_path, "ab") as log:
            self.proc = subprocess.Popen([binary, "bridge"], stdin=subprocess.PIPE, stdout=log, stderr=log,
                                         preexec_fn=descriptors, close_fds=False, env={}, cwd="/")
        for fd in high + [status_w] + ([ram] if ram_fd is None else []):
            os.close(fd)
        self.proc.stdin.write(json.dumps(settings).encode())
        self.proc.stdin.close()
        os.set_blocking(status_r, False)
        line = b""
        while not line.endswith(b"\n") and time.monotonic() < start + timeout:
            try:
                data = os.read(status_r, 4096)
                if not data:
                    break
                line += data
            except BlockingIOError:
                time.sleep(0.001)
        os.close(status_r)
        self.ready_s = time.monotonic() - start
        self.status = line.decode().strip()
        if self.status != "ready":
            self.end()
            raise NotReady("%s\n%s" % (self.status or "no status line", self.text[-2000:]))

    def log(self):
        if not self.ended:
            with open(self.log_path, errors="replace") as f:
                self.text = f.read()
        return self.text

    def connect(self):
        return Conn(self.socket)

    def wait_end(self, timeout=20):
        """Of a bridge that ends by itself, as after a pause: its exit code. The folder stays."""
        code = self.proc.wait(timeout)
        self.log()
        return code

    def end(self):
        """SIGTERM, then SIGKILL; removes a folder of its own, keeps the log's text. Returns the exit code."""
        if self.proc.poll() is None:
            self.proc.terminate()
            try:
                self.proc.wait(15)
            except subprocess.TimeoutExpired:
                self.proc.kill()
        code = self.proc.wait()
        self.log()
        if not self.ended:
            self.ended = True
            if self.own_folder:
                shutil.rmtree(self.dir, ignore_errors=True)
            os.unlink(self.log_path)
        return code


def give_layer(source, target, layer):
    """What the gateway does for a fork: hard links of a layer, and of the disks that it lies on, in another folder."""
    origin, copy = os.path.join(source, "layers"), os.path.join(target, "layers", layer)
    os.makedirs(copy)
    for name in os.listdir(os.path.join(origin, layer)):
        os.link(os.path.join(origin, layer, name), os.path.join(copy, name))
    with open(os.path.join(copy, "layer.json")) as f:
        below = json.load(f).get("below", [])
    for other in below:
        if not os.path.exists(os.path.join(copy, other + ".qcow2")):
            os.link(os.path.join(origin, other, "disk.qcow2"), os.path.join(copy, other + ".qcow2"))


def seal_layer(folder, layer):
    """What the gateway does when a layer is there: nobody changes it any more."""
    d = os.path.join(folder, "layers", layer)
    for name in os.listdir(d):
        os.chown(os.path.join(d, name), 0, 0)
        os.chmod(os.path.join(d, name), 0o444)
    os.chown(d, 0, 0)
    os.chmod(d, 0o755)


class Conn:
    """One connection. Frames that call() passes over are kept for next()."""

    def __init__(self, path, timeout=60):
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(timeout)
        self.sock.connect(path)
        self.buf = bytearray()
        self.rid = 0
        self.kept = []

    def close(self):
        self.sock.close()

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.close()

    def send(self, header, *parts):
        self.sock.sendall(encode(header, *parts))

    def op(self, op, *parts, **fields):
        """Sends an operation with a fresh rid, which it returns."""
        self.rid += 1
        self.send({"op": op, "rid": self.rid, **fields}, *parts)
        return self.rid

    def _need(self, n):
        while len(self.buf) < n:
            data = self.sock.recv(1 << 20)
            if not data:
                raise EOFError("the bridge closed the connection")
            self.buf += data

    def _read(self):
        self._need(4)
        n = struct.unpack_from("<I", self.buf)[0]
        self._need(4 + n)
        body = bytes(self.buf[4:4 + n])
        del self.buf[:4 + n]
        count = struct.unpack_from("<I", body)[0]
        lens = struct.unpack_from("<%dI" % count, body, 4)
        at, parts = 4 + 4 * count, []
        for length in lens:
            parts.append(body[at:at + length])
            at += length
        return json.loads(parts[0]), parts[1:]

    def next(self, timeout=None):
        """The next frame: (header, parts). socket.timeout when none comes."""
        if self.kept:
            return self.kept.pop(0)
        if timeout is not None:
            self.sock.settimeout(timeout)
        return self._read()

    def answer(self, rid):
        """The next frame that answers rid; BridgeError when it is an error."""
        for i, (h, p) in enumerate(self.kept):
            if h.get("re") == rid:
                del self.kept[i]
                break
        else:
            while True:
                h, p = self._read()
                if h.get("re") == rid:
                    break
                self.kept.append((h, p))
        if "error" in h:
            raise BridgeError(h["error"])
        return h, p

    def call(self, op, *parts, **fields):
        return self.answer(self.op(op, *parts, **fields))

    def info(self):
        return self.call("info")[0]["info"]

    def events(self, until, timeout=60):
        """Events up to the first for which until(header) is true. Answers are kept for answer()."""
        self.sock.settimeout(timeout)
        out, answers = [], []
        try:
            while True:
                h, p = self.next()
                (out if "ev" in h else answers).append((h, p))
                if "ev" in h and until(h):
                    return out
        finally:
            self.kept = answers + self.kept

    def execute(self, code, **fields):
        cell = str(uuid.uuid4())
        h, _ = self.call("execute", code.encode() if isinstance(code, str) else code, cell=cell, timeout_ms=0, **fields) \
            if "timeout_ms" not in fields else self.call("execute", code.encode(), cell=cell, **fields)
        return cell, h["seq"]

    def run(self, code, timeout=120, events=None, **fields):
        """Runs a cell and returns it finished; events, a list, receives what came on the way."""
        cell, seq = self.execute(code, **fields)
        self.call("attach", **{"from": seq, "mode": "cell", "cell": cell})
        got = self.events(lambda h: h.get("ev") == "cell", timeout)
        if events is not None:
            events.extend(got)
        return json.loads(got[-1][1][0])

    def message(self, ch, msg_type, content, session, msg_id=None, metadata=None, parent=None):
        """Forwards a Jupyter message; returns its msg_id."""
        msg_id = msg_id or uuid.uuid4().hex
        header = {"msg_id": msg_id, "session": session, "username": "t", "date": "2026-01-01T00:00:00.000000Z",
                  "msg_type": msg_type, "version": "5.3"}
        self.send({"op": "send", "ch": ch}, *(json.dumps(x).encode() for x in (header, parent or {}, metadata or {}, content)))
        return msg_id

    def read_file(self, path, offset=0, length=-1, **fields):
        rid = self.op("file_read", path=path, offset=offset, length=length, **fields)
        head, _ = self.answer(rid)
        data = bytearray()
        while True:
            h, p = self.answer(rid)
            data += p[0]
            if h.get("last"):
                return head["stat"], bytes(data)

    def write_file(self, path, data, chunk=256 * 1024, **fields):
        rid = self.op("file_write", path=path, **fields)
        self.answer(rid)
        for at in range(0, len(data), chunk):
            self.send({"op": "data", "rid": rid}, data[at:at + chunk])
        self.send({"op": "data_end", "rid": rid})
        return self.answer(rid)[0]

    def command(self, stdin=b"", **fields):
        rid = self.op("command", *([stdin] if stdin else []), **fields)
        out = {"stdout": bytearray(), "stderr": bytearray()}
        while True:
            h, p = self.answer(rid)
            if "exit" in h:
                return h, bytes(out["stdout"]), bytes(out["stderr"])
            out[h["out"]] += p[0]

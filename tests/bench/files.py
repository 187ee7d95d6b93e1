#!/usr/bin/python3
"""Files in and out of a guest: script/bench files [MB]. Prints one table.

The bare link is measured in a guest of its own, without gateway and bridge: a few lines of Python there
send and take zeroes over TCP through QEMU's user-mode network, as fast as they can. The same bytes then go
through the file API (a sparse file of zeroes out, zeroes in), and what gateway and bridge need meanwhile
is read from /proc.
"""
import json
import os
import socket
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.dirname(HERE), os.path.join(os.path.dirname(os.path.dirname(HERE)), "guest", "tests")]

from doors import BENCH, show  # noqa: E402
from harness import procs  # noqa: E402
from harness.gateway import Gateway, binary  # noqa: E402
from machine import Agent, Machine  # noqa: E402

MIB = 1 << 20
PIECE = b"\0" * (256 * 1024)

# Takes the kernel's port, whose kernel has been ended: first it sends, then it takes.
PLAIN = """
import socket, sys
n, piece = int(sys.argv[1]), bytes(262144)
s = socket.create_server(("0.0.0.0", 5555))
c, _ = s.accept()
for _ in range(n // len(piece)): c.sendall(piece)
c.close()
c, _ = s.accept()
room, left = bytearray(262144), n
while left: left -= c.recv_into(room) or sys.exit(1)
c.sendall(b"x")
"""


class Linked(Machine):
    """With the port of its kernel as well."""

    def start(self):
        self.process = subprocess.Popen(self.command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        said = json.loads(self.process.stdout.readline() or sys.exit("the guest was not restored, see above"))
        self.agent, self.shell_port = Agent(said["agent_port"]), said["shell_port"]


def link(size):
    """Bytes a second out of and into a guest."""
    template = subprocess.run([binary(), "template", "build"], stdout=subprocess.PIPE, check=True, text=True)
    m = Linked(os.path.join(BENCH, "vmm_restore"), template.stdout.splitlines()[-1])
    m.start()
    try:
        m.agent.call("hello")
        m.agent.personalise()
        m.agent.call("kernel_signal", signal="KILL")
        m.agent.push(lambda h: h.get("ev") == "kernel_exit")
        answer = m.agent.call("command", argv=["python3", "-c", PLAIN, str(size)], timeout_ms=900000)
        assert "pid" in answer, answer
        out = out_of(connect(m.shell_port), size)
        c = connect(m.shell_port)
        begun = time.monotonic()
        for _ in range(size // len(PIECE)):
            c.sendall(PIECE)
        assert c.recv(1) == b"x"
        return out, size / (time.monotonic() - begun)
    finally:
        m.stop()


def connect(port):
    """A connection that the guest has accepted: QEMU accepts at once, whether somebody listens or not."""
    for _ in range(300):
        time.sleep(1)
        try:
            c = socket.create_connection(("127.0.0.1", port), 300)
            c.settimeout(2)
            try:
                if c.recv(1, socket.MSG_PEEK):
                    c.settimeout(300)
                    return c
            except TimeoutError:  # it waits for us
                c.settimeout(300)
                return c
        except OSError:
            pass
    raise SystemExit("the guest does not listen")


def out_of(c, size):
    begun, left = time.monotonic(), size
    room = bytearray(len(PIECE))
    while left:
        n = c.recv_into(room)
        assert n, "the connection ended early"
        left -= n
    return size / (time.monotonic() - begun)


class Watched:
    """Memory of gateway and bridge: the most that was seen above what they began with."""

    def __init__(self, gateway, sid):
        self.pids = {"gateway": gateway.pid, "bridge": gateway.bridge_pid(sid)}
        self.begun = {k: procs.rss_bytes(p) for k, p in self.pids.items()}
        self.grown = dict.fromkeys(self.pids, 0)

    def look(self):
        for k, p in self.pids.items():
            self.grown[k] = max(self.grown[k], procs.rss_bytes(p) - self.begun[k])


def through_the_api(gateway, size):
    api = gateway.client(timeout=900)
    sid = api.create()
    sparse = api.post("/v1/sessions/%s/commands" % sid, {"cmd": "truncate -s %d sparse" % size}).json()
    assert sparse["exit_code"] == 0, sparse
    watched = Watched(gateway, sid)
    c = api.connection(900)
    begun, left = time.monotonic(), size
    c.request("GET", api.file_path(sid, "/home/user/sparse"), headers=api.headers())
    r = c.getresponse()
    assert r.status == 200 and int(r.headers["Content-Length"]) == size
    for i in range(0, size, len(PIECE)):
        left -= len(r.read(len(PIECE)))
        if i % (16 * MIB) == 0:
            watched.look()
    assert left == 0
    out = size / (time.monotonic() - begun)

    def pieces():
        for i in range(size // len(PIECE)):
            yield PIECE
            if i % 64 == 0:
                watched.look()

    begun = time.monotonic()
    c.request("PUT", api.file_path(sid, "/home/user/up"), pieces(), {**api.headers(), "Content-Length": str(size)})
    r = c.getresponse()
    assert r.status == 201, r.read()
    return out, size / (time.monotonic() - begun), watched.grown


def main(argv):
    size = int(argv[1]) * MIB if len(argv) > 1 else 2048 * MIB
    plain = link(min(size, 256 * MIB))
    gateway = Gateway("--pool-size", "1", "--on-exit", "kill").start(900)
    try:
        out, up, grown = through_the_api(gateway, size)
    finally:
        gateway.end()
    show("%d MiB, MiB a second" % (size // MIB), [
        ("", "out of the guest", "into it"),
        ("TCP through the same link", "%16.1f" % (plain[0] / MIB), "%7.1f" % (plain[1] / MIB)),
        ("file API", "%16.1f" % (out / MIB), "%7.1f" % (up / MIB)),
        ("ratio", "%15.2fx" % (out / plain[0]), "%6.2fx" % (up / plain[1]))])
    print("\nmemory grew by %s; %d CPUs, load %.1f"
          % (", ".join("%.1f MiB (%s)" % (v / MIB, k) for k, v in grown.items()), os.cpu_count(), os.getloadavg()[0]))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv))

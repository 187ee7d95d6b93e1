#!/usr/bin/python3
"""The cell API without the time of kernel and guest: script/bench api [quick]. Prints one table.

A kernel and an agent that do nothing (fastkernel.c, fastagent.c) stand in the fake QEMU behind a real
bridge and a real gateway; the client (apiclient.c) costs next to nothing. "ours" is what is left when the
round trips straight to that kernel and to that agent are taken away. The second part polls many sessions
while one of them prints without end.
"""
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from doors import BENCH, Direct, client, free_ports, middle, show  # noqa: E402
from harness import procs  # noqa: E402
from harness.gateway import TOKEN, Gateway  # noqa: E402
from integration.conftest import Fake  # noqa: E402

MIB = 1 << 20


def ask(*args):
    r = subprocess.run([os.path.join(BENCH, "apiclient"), *map(str, args)], capture_output=True, text=True, timeout=600)
    if r.returncode:
        raise SystemExit("apiclient %s: %s%s" % (args[0], r.stdout, r.stderr))
    return json.loads(r.stdout)


class World:
    def __init__(self, sessions):
        self.fake = Fake()
        for name in ("fastkernel", "fastagent"):
            target = os.path.join(self.fake.cache, "fake", name)
            shutil.copy(os.path.join(BENCH, name), target)
            os.chmod(target, 0o755)
        self.gateway = Gateway(*self.fake.options(), "--pool-size", "2", "--on-exit", "kill", "--max-sessions", "0",
                               "--log-level", "error").start()
        self.api = self.gateway.client(timeout=120)
        self.sessions = [self.api.create() for _ in range(sessions)]

    def door(self, kind, n, session=None):
        return ask(kind, "127.0.0.1", self.gateway.port, TOKEN, session or self.sessions[0], n)

    def end(self):
        self.gateway.end()
        shutil.rmtree(self.fake.cache, ignore_errors=True)


def alone(folder, rounds, n):
    """Kernel, agent and the three doors, in turns, so that a busy minute of the machine hits all."""
    kernel = Direct(folder)
    port = free_ports(1)[0]
    agent = subprocess.Popen([os.path.join(BENCH, "fastagent"), str(port)])
    world = World(1)
    got = {k: [] for k in ("kernel", "agent", "json", "sse", "ws")}
    try:
        for _ in range(rounds):
            got["kernel"].append(client("rtt", *kernel.args(), n))
            got["agent"].append(ask("agent", port, n))
            for kind in ("json", "sse", "ws"):
                got[kind].append(world.door(kind, n))
    finally:
        world.end()
        kernel.end()
        agent.kill()
        agent.wait()
    return {k: (middle([g["p50_us"] for g in v]), middle([g["p99_us"] for g in v])) for k, v in got.items()}


def polling(sessions, n, rate, seconds):
    """Latency of one session's answers while all sessions are polled and one prints without end."""
    world = World(sessions)
    stop = threading.Event()
    polled = []

    def poll(mine):
        c = world.api.connection(60)
        while not stop.is_set():
            for sid in mine:
                begun = time.monotonic()
                c.request("GET", "/v1/sessions/" + sid, headers=world.api.headers())
                c.getresponse().read()
                polled.append(time.monotonic() - begun)
                stop.wait(4 / rate)  # there are four of us
        c.close()

    def busy():
        while not stop.is_set():
            for event in world.api.events("POST", "/v1/sessions/%s/cells" % world.sessions[-1],
                                          {"code": "stream:20000:1000"}):
                printed[0] += len(event.data)
                if stop.is_set():
                    break

    printed = [0]
    pollers = [threading.Thread(target=poll, args=(world.sessions[i::4],), daemon=True) for i in range(4)]
    try:
        quiet = world.door("json", n), get(world, n)
        for t in pollers:
            t.start()
        time.sleep(seconds)
        polled.clear()
        polls = world.door("json", n), get(world, n)
        threading.Thread(target=busy, daemon=True).start()
        time.sleep(seconds)
        loud = world.door("json", n), get(world, n)
        return quiet, polls, loud, len(polled), printed[0], procs.rss_bytes(world.gateway.pid)
    finally:
        stop.set()
        for t in pollers:
            t.join(5)
        world.end()


def get(world, n):
    return ask("get", "127.0.0.1", world.gateway.port, TOKEN, "/v1/sessions/" + world.sessions[0], n)


def main(argv):
    quick = "quick" in argv
    folder = tempfile.mkdtemp(prefix="a", dir=os.environ.get("CELLKEEP_TEST_TMP"))
    try:
        rtt = alone(folder, 3 if quick else 7, 300 if quick else 2000)
        guest = rtt["kernel"][0] + rtt["agent"][0]
        show("1+1, microseconds", [
            ("", "     p50", "     p99", "ours p50"),
            ("kernel alone", "%8d" % rtt["kernel"][0], "%8d" % rtt["kernel"][1]),
            ("agent alone (changed files)", "%8d" % rtt["agent"][0], "%8d" % rtt["agent"][1]),
            *[("cell API, " + k.upper(), "%8d" % rtt[k][0], "%8d" % rtt[k][1], "%8d" % max(0, rtt[k][0] - guest))
              for k in ("json", "sse", "ws")]], "ours at most 300 p50")
        many = 20 if quick else 200
        quiet, polls, loud, polled, printed, rss = polling(many, 200 if quick else 1000, 200, 2 if quick else 5)
        show("%d sessions, microseconds" % many, [
            ("", "1+1 JSON p50", "     p99", "GET session p50", "     p99"),
            *[(name, "%12d" % c["p50_us"], "%8d" % c["p99_us"], "%15d" % g["p50_us"], "%8d" % g["p99_us"])
              for name, (c, g) in (("nobody else", quiet), ("all of them polled, 200 a second", polls),
                                   ("and one prints without end", loud))]])
        print("\n%d polls answered, %.0f MiB printed meanwhile, gateway %.1f MiB; %d CPUs, load %.1f"
              % (polled, printed / MIB, rss / MIB, os.cpu_count(), os.getloadavg()[0]))
        return 0
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv))

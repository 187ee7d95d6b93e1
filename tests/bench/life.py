#!/usr/bin/python3
"""The life of sessions end to end: script/bench life [runs] [forks]. Prints a table for a session with a pandas
DataFrame, alone (some 25 MB of memory that differ from the template) and with 150 MB more, beside the goals: with
everything started on demand (--spare 0) and with a spare machine (the default), in turns.

Times are taken by the client, over HTTP, unless a line says otherwise: the stall of a checkpoint is what the
bridge measured from QEMU's stop to its continuation, "to running" ends when the bridge wrote that the VM runs, and
processor time is /proc's of the clones' QEMUs.
"""
import calendar
import os
import re
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from harness import procs  # noqa: E402
from harness.gateway import Gateway, wait_for  # noqa: E402
from harness.life import done, folder  # noqa: E402

SETUP = """
import os, pandas as pd
df = pd.DataFrame({'a': range(100_000), 'b': [str(i) for i in range(100_000)]})
held, noise = bytearray(%d << 20), os.urandom(1 << 20)
for at in range(0, len(held), 1 << 20):
    held[at:at + (1 << 20)] = noise
"""
SIZES = ((0, "a DataFrame"), (150, "and 150 MB more"))
GOALS = {"stall": "20 at 10 MB", "pause": "50", "running": "30", 20: "2000", 100: "10000"}
SIDES = (("on demand", ("--spare", "0")), ("with a spare", ()))


def median(values):
    values = sorted(values)
    return values[len(values) // 2]


def ms(begun):
    return (time.time() - begun) * 1000


def cpu_s(pid):
    with open("/proc/%d/stat" % pid) as f:
        fields = f.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def bridge_log(gw, sid):
    with open(folder(gw, sid, "bridge.log"), errors="replace") as f:
        return f.read()


def stamp(line):
    day, fraction = line.split("Z")[0].split(".")
    return calendar.timegm(time.strptime(day, "%Y-%m-%dT%H:%M:%S")) + int(fraction) / 1e6


def running_at(gw, sid):
    """When the VM that the session has now began to run."""
    return stamp([line for line in bridge_log(gw, sid).splitlines() if " step=running " in line][-1])


def layers(gw, sid):
    """(stall in ms, bytes of RAM stored) of each layer that the session's bridges made."""
    found = re.findall(r" layer id=\S+ layer=\S+ bytes=(\d+) stall_us=(\d+)", bridge_log(gw, sid))
    return [(int(us) / 1000, int(n)) for n, us in found]


def cell(api, sid, code="1+1"):
    c = api.cell(sid, code)
    assert c["status"] == "ok", c
    return c


class Side:
    """A gateway with one session, and what was measured of it."""

    def __init__(self, options):
        self.gw = Gateway("--pool-size", "0", "--on-exit", "kill", "--max-sessions", "0", *options)
        self.gw.start(900)
        self.api = self.gw.client(timeout=600)
        self.sid, self.rows = None, {}

    def begin(self, mb):
        self.rows = {}
        self.sid = self.api.create()
        cell(self.api, self.sid, SETUP % mb)

    def add(self, name, value, unit="ms", goal=""):
        self.rows.setdefault(name, (unit, goal, []))[2].append(value)

    def ready(self):
        """As many spares as there should be, and the session at rest."""
        def all_there():
            n = dict(re.findall(r"^cellkeep_spare_(ready|size) (\d+)", self.api.get("/metrics").body.decode(), re.M))
            return n["ready"] == n["size"] and self.api.session(self.sid)["state"] in ("idle", "paused")
        wait_for("a spare, and rest", 60, all_there)


def bench_create(side):
    side.ready()
    begun = time.time()
    sid = side.api.create()
    side.add("create without a pool: until it is answered", ms(begun))
    side.add("create without a pool: to running", (running_at(side.gw, sid) - begun) * 1000)
    side.api.delete("/v1/sessions/" + sid)


def bench_checkpoint(side):
    side.ready()
    cell(side.api, side.sid, "df['a'] += 1")
    begun = time.time()
    done(side.api, side.sid, "checkpoints", {"name": "c"}, 201)
    whole = ms(begun)
    stall, stored = layers(side.gw, side.sid)[-1]
    side.add("checkpoint: stall of the session", stall, goal=GOALS["stall"])
    side.add("checkpoint: until it is on disk", whole)
    side.add("checkpoint: RAM stored", stored / 1e6, "MB")
    side.api.delete("/v1/sessions/%s/checkpoints/c" % side.sid)


def bench_pause(side):
    side.ready()
    begun = time.time()
    done(side.api, side.sid, "pause")
    side.add("pause", ms(begun), goal=GOALS["pause"])
    side.ready()
    begun = time.time()
    done(side.api, side.sid, "resume", timeout=120)
    answered = ms(begun)
    side.add("resume: to running", (running_at(side.gw, side.sid) - begun) * 1000, goal=GOALS["running"])
    side.add("resume: until it is answered", answered)
    cell(side.api, side.sid)
    side.add("resume: to the answer of 1+1", ms(begun))


def bench_forks(side, count):
    side.ready()
    name = "fork of %d: " % count
    begun = time.time()
    forks = [s["id"] for s in done(side.api, side.sid, "fork", {"count": count}, 201, timeout=600)]
    whole = ms(begun)
    at = [(running_at(side.gw, f) - begun) * 1000 for f in forks]
    stored = max(stamp(line) for line in bridge_log(side.gw, side.sid).splitlines() if " layer id=" in line)
    side.add(name + "first one running", min(at))
    side.add(name + "its layer stored -> running", min(at) - (stored - begun) * 1000, goal=GOALS["running"] if count == 1 else "")
    if count > 1:
        side.add(name + "all running", max(at))
    side.add(name + "all personalised, answered", whole, goal=GOALS.get(count, ""))
    side.add(name + "processor time of each", sum(cpu_s(side.gw.qemu_pid(f)) for f in forks) / count, "s")
    side.add(name + "memory of its own, each", procs.private_bytes(side.gw.qemu_pid(forks[0])) / 1e6, "MB")
    assert cell(side.api, forks[-1], "print(len(df))")["stdout"] == "100000\n"
    for f in forks:
        side.api.delete("/v1/sessions/" + f)


def show(title, sides):
    rows = [(title, *[n for name, _ in SIDES for n in (name, "worst")], "unit", "goal")]
    for name, (unit, goal, _) in sides[0].rows.items():
        numbers = [v for s in sides for v in (median(s.rows[name][2]), max(s.rows[name][2]))]
        rows.append((name, *["%.1f" % n for n in numbers], unit, goal))
    widths = [max(len(r[i]) for r in rows) for i in range(len(rows[0]))]
    for r in rows:
        print("  ".join([r[0].ljust(widths[0]), *[v.rjust(w) for v, w in zip(r[1:], widths[1:])]]).rstrip())
    print(flush=True)


def bench_size(sides, mb, title, runs, forks):
    for side in sides:
        side.begin(mb)
    for bench, times in ((bench_create, runs), (bench_checkpoint, runs), (bench_pause, runs),
                         (lambda s: bench_forks(s, 1), runs), (lambda s: bench_forks(s, forks), max(1, runs // 5))):
        for _ in range(times):
            for side in sides:
                bench(side)
    show(title, sides)
    for side in sides:
        side.api.delete("/v1/sessions/" + side.sid)


def main(argv):
    runs = int(argv[1]) if len(argv) > 1 else 5
    forks = int(argv[2]) if len(argv) > 2 else 20
    sides = []
    try:
        for _, options in SIDES:
            sides.append(Side(options))
        for mb, title in SIZES:
            bench_size(sides, mb, title, runs, forks)
        print("%s, %d CPUs, load %.1f (all programs of the machine)" % (
            sides[0].api.get("/healthz").body.decode()[:200], os.cpu_count(), os.getloadavg()[0]))
        return 0
    finally:
        for side in sides:
            side.gw.end()


if __name__ == "__main__":
    sys.exit(main(sys.argv))

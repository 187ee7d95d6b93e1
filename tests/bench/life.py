#!/usr/bin/python3
"""The life of sessions end to end: script/bench life [runs] [forks]. Prints a table for a session with a pandas
DataFrame, alone (some 25 MB of memory that differ from the template) and with 150 MB more, beside the goals.

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


class Table:
    def __init__(self, title):
        self.rows = [(title, "median", "worst", "unit", "goal")]

    def add(self, name, values, unit="ms", goal=""):
        self.rows.append((name, "%.1f" % median(values), "%.1f" % max(values), unit, goal))

    def show(self):
        widths = [max(len(r[i]) for r in self.rows) for i in range(5)]
        for r in self.rows:
            print("  ".join([r[0].ljust(widths[0]), *[r[i].rjust(widths[i]) for i in range(1, 5)]]).rstrip())
        print(flush=True)


def bench_checkpoints(gw, api, sid, t, runs):
    whole = []
    for i in range(runs):
        cell(api, sid, "df['a'] += 1")
        begun = time.time()
        done(api, sid, "checkpoints", {"name": "c%d" % i}, 201)
        whole.append(ms(begun))
    made = layers(gw, sid)[-runs:]
    t.add("checkpoint: stall of the session", [stall for stall, _ in made], goal=GOALS["stall"])
    t.add("checkpoint: until it is on disk", whole)
    t.add("checkpoint: RAM stored", [n / 1e6 for _, n in made], "MB")
    for i in range(runs):
        api.delete("/v1/sessions/%s/checkpoints/c%d" % (sid, i))


def bench_pauses(gw, api, sid, t, runs):
    pauses, running, answer, first = [], [], [], []
    for _ in range(runs):
        wait_for("rest", 30, lambda: api.session(sid)["state"] == "idle")
        begun = time.time()
        done(api, sid, "pause")
        pauses.append(ms(begun))
        begun = time.time()
        done(api, sid, "resume", timeout=120)
        answer.append(ms(begun))
        running.append((running_at(gw, sid) - begun) * 1000)
        cell(api, sid)
        first.append(ms(begun))
    t.add("pause", pauses, goal=GOALS["pause"])
    t.add("resume: to running", running, goal=GOALS["running"])
    t.add("resume: until it is answered", answer)
    t.add("resume: to the answer of 1+1", first)


def bench_forks(gw, api, sid, t, count, runs):
    whole, first_running, all_running, processor, private = [], [], [], [], []
    for _ in range(runs):
        begun = time.time()
        forks = [s["id"] for s in done(api, sid, "fork", {"count": count}, 201, timeout=600)]
        whole.append(ms(begun))
        at = [(running_at(gw, f) - begun) * 1000 for f in forks]
        first_running.append(min(at))
        all_running.append(max(at))
        processor.append(sum(cpu_s(gw.qemu_pid(f)) for f in forks) / count)
        private.append(procs.private_bytes(gw.qemu_pid(forks[0])) / 1e6)
        assert cell(api, forks[-1], "print(len(df))")["stdout"] == "100000\n"
        for f in forks:
            api.delete("/v1/sessions/" + f)
    name = "fork of %d: " % count
    t.add(name + "first one running", first_running, goal=GOALS["running"] if count == 1 else "")
    if count > 1:
        t.add(name + "all running", all_running)
    t.add(name + "all personalised, answered", whole, goal=GOALS.get(count, ""))
    t.add(name + "processor time of each", processor, "s")
    t.add(name + "memory of its own, each", private, "MB")


def bench_size(gw, mb, title, runs, forks):
    api = gw.client(timeout=600)
    sid = api.create()
    cell(api, sid, SETUP % mb)
    t = Table(title)
    bench_checkpoints(gw, api, sid, t, runs)
    bench_pauses(gw, api, sid, t, runs)
    bench_forks(gw, api, sid, t, 1, runs)
    bench_forks(gw, api, sid, t, forks, max(1, runs // 5))
    t.show()
    api.delete("/v1/sessions/" + sid)


def main(argv):
    runs = int(argv[1]) if len(argv) > 1 else 5
    forks = int(argv[2]) if len(argv) > 2 else 20
    gw = Gateway("--pool-size", "0", "--on-exit", "kill", "--max-sessions", "0")
    try:
        gw.start(900)
        for mb, title in SIZES:
            bench_size(gw, mb, title, runs, forks)
        print("%s, %d CPUs, load %.1f (all programs of the machine)" % (
            gw.client().get("/healthz").body.decode()[:200], os.cpu_count(), os.getloadavg()[0]))
        return 0
    finally:
        gw.end()


if __name__ == "__main__":
    sys.exit(main(sys.argv))

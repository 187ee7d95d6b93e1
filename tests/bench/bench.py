#!/usr/bin/python3
"""Benchmarks of a gateway with real microVMs: script/bench [runs]. Prints one table.

Every number is measured from outside, over HTTP and through /proc, on the machine as it is; compare
only numbers of one machine and one run. Ratios are printed where two things are held against each
other.
"""
import os
import subprocess
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from harness import procs  # noqa: E402
from harness.gateway import TOKEN, Gateway, binary, wait_for  # noqa: E402
from harness.jupyter import Socket  # noqa: E402

MB = 1 << 20


def percentile(values, p):
    values = sorted(values)
    return values[min(len(values) - 1, int(len(values) * p / 100))]


def timed(f):
    begun = time.perf_counter()
    f()
    return (time.perf_counter() - begun) * 1000


class Table:
    def __init__(self):
        self.rows = []

    def times(self, name, values):
        self.rows.append((name, "%.1f" % percentile(values, 50), "%.1f" % percentile(values, 99), "ms", len(values)))
        return percentile(values, 50)

    def one(self, name, value, unit, runs=1):
        self.rows.append((name, value, "", unit, runs))

    def ratio(self, name, a, b):
        self.rows.append((name, "%.2f" % (a / b) if b else "-", "", "x", ""))

    def show(self):
        head = ("", "p50", "p99", "unit", "runs")
        rows = [head, *[tuple(map(str, r)) for r in self.rows]]
        widths = [max(len(r[i]) for r in rows) for i in range(5)]
        for r in rows:
            print("  ".join([r[0].ljust(widths[0]), *[r[i].rjust(widths[i]) for i in range(1, 5)]]).rstrip())


def pool_ready(gw):
    """Until a machine stands ready, restored and personalised."""
    api = gw.client()
    wait_for("the pool", 180, lambda: (r := api.get("/readyz")).status == 200 and r.json()["pool_ready"])
    time.sleep(0.5)  # and is as idle as one that stood there for a while


def bench_create(gw, t, runs):
    """Create to first reply, each from a pool that is full again."""
    api = gw.client(timeout=180)
    create, first = [], []
    for _ in range(runs):
        pool_ready(gw)
        begun = time.perf_counter()
        sid = api.create()
        create.append((time.perf_counter() - begun) * 1000)
        assert api.cell(sid, "1+1")["result"]["text/plain"] == "2"
        first.append((time.perf_counter() - begun) * 1000)
        api.delete("/v1/sessions/" + sid)
    t.times("create a session (from the pool)", create)
    t.times("create -> first reply of 1+1", first)


def bench_warm(gw, t, runs):
    api = gw.client(timeout=180)
    sid = api.create()
    for _ in range(5):
        api.cell(sid, "1+1")
    sock = Socket(gw, sid, TOKEN, timeout=60)
    for _ in range(5):
        sock.execute("1+1")
    json = t.times("1+1 warm, cell API, JSON", [timed(lambda: api.cell(sid, "1+1")) for _ in range(runs)])
    sse = t.times("1+1 warm, cell API, SSE", [timed(lambda: list(api.events(
        "POST", "/v1/sessions/%s/cells" % sid, {"code": "1+1"}))) for _ in range(runs)])
    ws = t.times("1+1 warm, Jupyter WebSocket", [timed(lambda: sock.execute("1+1")) for _ in range(runs)])
    t.ratio("  JSON / WebSocket", json, ws)
    t.ratio("  SSE / JSON", sse, json)
    native = native_kernel(runs)
    if native:
        p50 = t.times("1+1 warm, ipykernel on the host, no gateway", native)
        t.ratio("  WebSocket / host", ws, p50)
    else:
        t.one("1+1 warm, ipykernel on the host", "not installed", "")
    t.times("PUT + GET of 1 MiB", [timed(lambda: (api.put_file(sid, "/home/user/f", bytes(MB)),
                                                 api.get_file(sid, "/home/user/f"))) for _ in range(5)])
    size = 20_000_000
    took = timed(lambda: api.cell(sid, "for i in range(%d): print('x' * 99)" % (size // 100)))
    t.one("20 MB of print output", "%.1f" % (size / took / 1000), "MB/s")
    sock.close()
    return sid


def native_kernel(runs):
    """The same round trip to a kernel of this host, when one is installed for Debian's Python."""
    try:
        from jupyter_client import KernelManager
        os.environ["PYDEVD_DISABLE_FILE_VALIDATION"] = "1"  # debugpy's advice is not of interest here
        km = KernelManager(kernel_cmd=["/usr/bin/python3", "-m", "ipykernel_launcher", "-f", "{connection_file}"])
        if subprocess.run(["/usr/bin/python3", "-c", "import ipykernel"], capture_output=True).returncode:
            return None
        km.start_kernel()
        kc = km.client()
        kc.start_channels()
        kc.wait_for_ready(60)
        try:
            for _ in range(5):
                kc.execute_interactive("1+1", output_hook=lambda m: None)
            return [timed(lambda: kc.execute_interactive("1+1", output_hook=lambda m: None)) for _ in range(runs)]
        finally:
            kc.stop_channels()
            km.shutdown_kernel(now=True)
    except Exception as e:  # a comparison that cannot be made is not a failed benchmark
        print("bench: no native kernel: %s" % e, file=sys.stderr)
        return None


def bench_memory(gw, t, sid):
    bridge, qemu = gw.bridge_pid(sid), gw.qemu_pid(sid)
    t.one("gateway, resident", "%.1f" % (procs.rss_bytes(gw.pid) / MB), "MiB")
    t.one("gateway, peak resident", "%.1f" % (peak(gw.pid) / MB), "MiB")
    t.one("bridge, resident", "%.1f" % (procs.rss_bytes(bridge) / MB), "MiB")
    t.one("bridge, peak resident", "%.1f" % (peak(bridge) / MB), "MiB")
    t.one("QEMU of the used session, private", "%.1f" % (procs.private_bytes(qemu) / MB), "MiB")
    pool_ready(gw)
    fresh = gw.client(timeout=180).create()
    time.sleep(3)
    t.one("QEMU of an idle fresh session, private", "%.1f" % (procs.private_bytes(gw.qemu_pid(fresh)) / MB), "MiB")


def peak(pid):
    with open("/proc/%d/status" % pid) as f:
        for line in f:
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    return 0


def bench_restart(gw, t, sid, runs):
    cold, adopted = [], []
    for _ in range(runs):
        gw.kill()
        begun = time.perf_counter()
        gw.start(60)
        cold.append((time.perf_counter() - begun) * 1000)
        assert gw.client(timeout=180).cell(sid, "1+1")["status"] == "ok"
        adopted.append((time.perf_counter() - begun) * 1000)
    t.times("gateway killed -> ready again", cold)
    t.times("gateway killed -> reply of an adopted session", adopted)


def main(argv):
    runs = int(argv[1]) if len(argv) > 1 else 20
    t = Table()
    gw = Gateway("--pool-size", "1")
    begun = time.perf_counter()
    try:
        gw.start(900)
        t.one("start -> ready (image and template there)", "%.0f" % ((time.perf_counter() - begun) * 1000), "ms")
        bench_create(gw, t, runs)
        sid = bench_warm(gw, t, max(runs, 20) * 2)
        bench_memory(gw, t, sid)
        bench_restart(gw, t, sid, 5)
        version = subprocess.run([binary(), "--version"], capture_output=True, text=True).stdout.strip()
        print("\n%s, %s, %d CPUs, load %s" % (version or "cellkeep", gw.client().get("/healthz").body.decode()[:200],
                                            os.cpu_count(), os.getloadavg()[0]))
        t.show()
        return 0
    finally:
        gw.end()


if __name__ == "__main__":
    sys.exit(main(sys.argv))

#!/usr/bin/python3
"""The Jupyter door against Debian's jupyter-server: script/bench doors [quick]. Prints one table.

The same kernel (fastkernel.c) and the same client (doorclient.c) in one run. For jupyter-server the
kernel is a kernelspec; for cellkeep it stands behind a real bridge and a real gateway, in place of the
guest's kernel in the fake QEMU. "added" is what a round trip takes longer than straight to the kernel.
"""
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
import uuid

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from harness import procs  # noqa: E402
from harness.gateway import ROOT, TOKEN, Gateway, binary, wait_for  # noqa: E402
from integration.conftest import Fake  # noqa: E402

BENCH = os.path.join(os.path.dirname(binary()), "bench")
KIB = 1024


def cpu_seconds(pid):
    with open("/proc/%d/stat" % pid) as f:
        fields = f.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def client(*args, timeout=600):
    r = subprocess.run([os.path.join(BENCH, "doorclient"), *map(str, args)], capture_output=True, text=True, timeout=timeout)
    if r.returncode:
        raise SystemExit("doorclient %s: %s%s" % (args, r.stdout, r.stderr))
    return json.loads(r.stdout)


def free_ports(n):
    held = [socket.socket() for _ in range(n)]
    for s in held:
        s.bind(("127.0.0.1", 0))
    ports = [s.getsockname()[1] for s in held]
    for s in held:
        s.close()
    return ports


class Direct:
    """Nothing between the client and the kernel."""
    name = "no server"

    def __init__(self, folder):
        names = ("shell_port", "iopub_port", "stdin_port", "control_port", "hb_port")
        self.file = os.path.join(folder, "direct.json")
        with open(self.file, "w") as f:
            json.dump({**dict(zip(names, free_ports(5))), "key": uuid.uuid4().hex, "ip": "127.0.0.1", "transport": "tcp"}, f)
        self.process = subprocess.Popen([os.path.join(BENCH, "fastkernel"), self.file])

    def args(self):
        return ("direct", self.file)

    def end(self):
        self.process.kill()
        self.process.wait()


class Cellkeep:
    name = "cellkeep"

    def __init__(self):
        self.fake = Fake()
        target = os.path.join(self.fake.cache, "fake", "fastkernel")
        shutil.copy(os.path.join(BENCH, "fastkernel"), target)
        os.chmod(target, 0o755)
        self.gateway = Gateway(*self.fake.options(), "--pool-size", "0", "--on-exit", "kill", "--max-sessions", "0",
                               "--log-level", "error").start()
        self.kernel = self.gateway.client().create()

    def path(self, kernel=None, session="bench"):
        return "/api/kernels/%s/channels?token=%s" % (kernel or self.kernel, TOKEN)

    def args(self):
        return ("ws", "127.0.0.1", self.gateway.port, self.path() + "&session_id=" + uuid.uuid4().hex)

    def processes(self, kernels):
        return [self.gateway.pid, *(self.gateway.bridge_pid(k) for k in kernels)]

    def more_kernels(self, n):
        return [self.gateway.client().create() for _ in range(n)]

    def end(self):
        self.gateway.end()
        shutil.rmtree(self.fake.cache, ignore_errors=True)


class JupyterServer:
    name = "jupyter-server"

    def __init__(self, folder):
        self.folder = folder
        spec = os.path.join(folder, "data", "kernels", "fast")
        os.makedirs(spec)
        with open(os.path.join(spec, "kernel.json"), "w") as f:
            json.dump({"argv": [os.path.join(BENCH, "fastkernel"), "{connection_file}"], "display_name": "fast",
                       "language": "python"}, f)
        self.port = free_ports(1)[0]
        self.log = open(os.path.join(folder, "server.log"), "wb")
        env = {"PATH": os.environ["PATH"], "HOME": folder, "LANG": "C.UTF-8", "JUPYTER_DATA_DIR": os.path.join(folder, "data"),
               "JUPYTER_RUNTIME_DIR": os.path.join(folder, "run")}
        self.process = subprocess.Popen(
            ["jupyter-server", "--allow-root", "--no-browser", "--ServerApp.ip=127.0.0.1", "--ServerApp.port=%d" % self.port,
             "--ServerApp.token=" + TOKEN, "--ServerApp.password=", "--ServerApp.iopub_msg_rate_limit=0",
             "--ServerApp.iopub_data_rate_limit=0", "--ServerApp.log_level=ERROR"],
            cwd=folder, env=env, stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log)
        self.kernel = wait_for("jupyter-server", 60, self.start_kernel, every=0.5)

    def start_kernel(self):
        request = urllib.request.Request("http://127.0.0.1:%d/api/kernels?token=%s" % (self.port, TOKEN),
                                         b'{"name":"fast"}', {"Content-Type": "application/json"})
        try:
            return json.load(urllib.request.urlopen(request, timeout=30))["id"]
        except OSError:
            return None

    def path(self, kernel=None):
        return "/api/kernels/%s/channels?token=%s" % (kernel or self.kernel, TOKEN)

    def args(self):
        return ("ws", "127.0.0.1", self.port, self.path() + "&session_id=" + uuid.uuid4().hex)

    def processes(self, kernels):
        return [self.process.pid]

    def more_kernels(self, n):
        return [self.start_kernel() for _ in range(n)]

    def end(self):
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.log.close()


def interleaved(doors, rounds, *args):
    """The better half of several rounds that take turns, so that a busy minute of the machine hits all."""
    got = {d.name: [] for d in doors}
    for _ in range(rounds):
        for d in doors:
            got[d.name].append(client(args[0], *d.args(), *args[1:]))
    return got


def middle(values):
    return sorted(values)[len(values) // 2]


def latency(doors, rounds, n):
    got = interleaved(doors, rounds, "rtt", n)
    return {name: (middle([g["p50_us"] for g in gs]), middle([g["p99_us"] for g in gs])) for name, gs in got.items()}


def streams(doors, rounds, n, size):
    got = interleaved(doors, rounds, "stream", n, size)
    return {name: middle([g["per_second"] for g in gs]) for name, gs in got.items()}


def idle(door, n, kernels, seconds):
    """Memory a socket and processor time of n idle WebSockets spread over so many kernels."""
    ids = door.more_kernels(kernels)
    pids = door.processes(ids)
    time.sleep(1)
    before = sum(procs.rss_bytes(p) for p in pids)
    port = door.gateway.port if isinstance(door, Cellkeep) else door.port
    holder = subprocess.Popen([os.path.join(BENCH, "doorclient"), "idle", "127.0.0.1", str(port), str(seconds + 60), str(n),
                               *(door.path(k) for k in ids)], stdout=subprocess.PIPE, text=True)
    try:
        begun = time.monotonic()
        if not holder.stdout.readline():
            raise SystemExit("%s: not all of %d WebSockets could be opened" % (door.name, n))
        opened = time.monotonic() - begun
        time.sleep(5)
        memory = sum(procs.rss_bytes(p) for p in pids) - before
        gateway = procs.rss_bytes(pids[0])
        cpu = sum(cpu_seconds(p) for p in pids)
        time.sleep(seconds)
        cpu = (sum(cpu_seconds(p) for p in pids) - cpu) / seconds
        rtt = client("rtt", *door.args(), 300)
        if holder.poll() is not None:
            raise SystemExit("%s: not all of %d WebSockets stayed open" % (door.name, n))
        return {"each": memory / n, "cpu": cpu * 100, "opened": opened, "rtt": rtt["p50_us"], "first": gateway}
    finally:
        holder.kill()
        holder.wait()


def show(title, rows, goal=""):
    print("\n%s%s" % (title, goal and "   (goal: %s)" % goal))
    width = max(len(r[0]) for r in rows)
    for name, *values in rows:
        print("  %s  %s" % (name.ljust(width), "  ".join(values)))
    sys.stdout.flush()


def main(argv):
    quick = "quick" in argv
    folder = tempfile.mkdtemp(prefix="d", dir=os.environ.get("CELLKEEP_TEST_TMP"))
    doors = []
    try:
        for make in (lambda: Direct(folder), Cellkeep, lambda: JupyterServer(folder)):
            doors.append(make())
        direct, ours, theirs = doors
        rounds, n = (3, 300) if quick else (7, 2000)
        rtt = latency(doors, rounds, n)
        base = rtt[direct.name]
        added = {d.name: tuple(max(1, v - b) for v, b in zip(rtt[d.name], base)) for d in (ours, theirs)}
        show("execute round trip, microseconds", [
            ("", "     p50", "     p99", "added p50", "added p99"), *[
                (d.name, "%8d" % rtt[d.name][0], "%8d" % rtt[d.name][1],
                 *("%9d" % v for v in added.get(d.name, ()))) for d in doors],
            ("ratio of what is added", "", "", "%16.1fx" % (added[theirs.name][0] / added[ours.name][0]),
             "%7.1fx" % (added[theirs.name][1] / added[ours.name][1]))], "10 times less, at most 200 added")
        for size in (10, 1000):
            s = streams(doors, rounds, 2000 if quick else 20000, size)
            show("stream messages of %d bytes a second" % size, [
                *[(d.name, "%9.0f" % s[d.name]) for d in doors],
                ("ratio", "%8.1fx" % (s[ours.name] / s[theirs.name]))], "10 times more")
        ws = 1000 if quick else 10000
        a = idle(ours, ws, 2 if quick else 12, 5 if quick else 35)
        b = idle(theirs, 100 if quick else 300, 2, 5 if quick else 35)
        show("%d idle WebSockets (jupyter-server: %d)" % (ws, 100 if quick else 300), [
            ("", "KiB each", "processor", "round trip meanwhile, us"),
            *[(d.name, "%8.1f" % (x["each"] / KIB), "%7.2f %%" % x["cpu"], "%d" % x["rtt"]) for d, x in ((ours, a), (theirs, b))],
            ("ratio of memory", "%7.1fx" % (b["each"] / a["each"]))], "20 KiB each, next to no processor time")
        print("\n%d CPUs, load %.1f; gateway and bridges together hold the WebSockets of cellkeep"
              % (os.cpu_count(), os.getloadavg()[0]))
        return 0
    finally:
        for d in reversed(doors):
            d.end()
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    assert ROOT
    sys.exit(main(sys.argv))

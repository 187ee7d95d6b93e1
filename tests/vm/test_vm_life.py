"""The life of sessions: a gateway that dies in the middle of a cell, deletion, the jail, doctor."""
import json
import os
import subprocess
import threading
import time

from harness import procs
from harness.gateway import TOKEN, binary, scratch, wait_for
from harness.jupyter import Socket, reply, stdout

COUNT = "import time\nfor i in range(40):\n    print(i, flush=True)\n    time.sleep(0.1)"
NUMBERS = "".join("%d\n" % i for i in range(40))


def test_a_gateway_killed_in_the_middle_of_a_cell_loses_nothing(start):
    state = scratch("k")
    first = start("--pool-size", "0", state=state)
    sid = first.client(timeout=150).create()
    sock = Socket(first, sid, TOKEN, timeout=60)
    sock.execute("kept = 7", timeout=60)
    mid = sock.send("execute_request", {"code": COUNT, "silent": False})
    seen = {}
    while sum(m["msg_type"] == "stream" for m in seen.values()) < 5:
        m = sock.recv(30)
        seen[m["header"]["msg_id"]] = m
    first.kill()
    time.sleep(1)
    second = start("--pool-size", "0", "--on-exit", "kill", state=state)
    again = Socket(second, sid, TOKEN, session=sock.session, timeout=60)
    for m in again.until_done(mid, 60):
        seen[m["header"]["msg_id"]] = m
    mine = [m for m in seen.values() if m["parent_header"].get("msg_id") == mid]
    assert stdout(mine) == NUMBERS and reply(mine)["status"] == "ok"
    assert second.client(timeout=150).cell(sid, "print(kept)")["stdout"] == "7\n"
    again.close()
    assert second.stop(60) == 0
    assert second.leftovers() == {}


def test_deleting_a_session_leaves_nothing(gateway, api):
    sid = api.create()
    api.cell(sid, "open('x', 'w').write('y')")
    mine = {p: procs.start_of(p) for p in procs.descendants({gateway.bridge_pid(sid)})}
    assert len(mine) >= 2
    assert api.delete("/v1/sessions/" + sid).status == 204
    assert procs.wait_gone(mine, 10) == {}
    wait_for("the folder is gone", 5, lambda: not os.path.exists(os.path.join(gateway.state, "sessions", sid)))


def test_on_exit_kill_leaves_nothing(start):
    gw = start("--pool-size", "1", "--on-exit", "kill")
    api = gw.client(timeout=150)
    api.cell(api.create(), "1")
    assert gw.stop(60) == 0
    assert gw.leftovers() == {}
    assert os.listdir(os.path.join(gw.state, "sessions")) == []


def test_a_restart_with_everything_there_is_quick(start):
    begun = time.monotonic()
    gw = start("--pool-size", "1", "--on-exit", "kill")
    assert time.monotonic() - begun < 15
    gw.stop(60)


def test_qemu_runs_without_privileges_and_with_nothing_of_the_host(gateway, api, shared):
    pid = gateway.qemu_pid(shared)
    with open("/proc/%d/status" % pid) as f:
        status = dict(line.split(":\t", 1) for line in f if ":\t" in line)
    assert int(status["CapEff"], 16) == 0 and int(status["CapBnd"], 16) == 0 and status["NoNewPrivs"].strip() == "1"
    assert status["Seccomp"].strip() == "2"
    with open("/proc/%d/environ" % pid, "rb") as f:
        assert f.read() == b""
    fds = os.listdir("/proc/%d/fd" % pid)
    assert len(fds) < 40
    if os.getuid() == 0:
        assert status["Uid"].split()[0] != "0"
        with open("/proc/%d/net/route" % pid) as f:
            assert len(f.readlines()) <= 1, "QEMU has a route out of its network namespace"
        assert os.stat("/proc/%d/ns/net" % pid).st_ino != os.stat("/proc/self/ns/net").st_ino


def test_idle_memory_is_shared_with_the_template(gateway, api, session):
    api.cell(session, "1+1")
    pid = gateway.qemu_pid(session)
    assert procs.private_bytes(pid) < 250 << 20, "an idle session has copied the template's memory"


def test_two_sessions_run_side_by_side(api):
    a, b = api.create(), api.create()
    out = {}
    ts = [threading.Thread(target=lambda s=s, n=n: out.__setitem__(n, api.cell(s, "print(%r)" % n)["stdout"]))
          for s, n in ((a, "a"), (b, "b"))]
    [t.start() for t in ts]
    [t.join(120) for t in ts]
    assert out == {"a": "a\n", "b": "b\n"}
    for s in (a, b):
        api.delete("/v1/sessions/" + s)


def test_doctor_says_what_matters():
    r = subprocess.run([binary(), "doctor"], capture_output=True, text=True, timeout=120, stdin=subprocess.DEVNULL)
    text = r.stdout.lower()
    for word in ("accelerator", "qemu", "image", "template", "jail", "limits", "free"):
        assert word in text, (word, r.stdout)
    assert r.returncode == 0, r.stdout


def test_health_names_the_accelerator(api):
    h = api.get("/healthz").json()
    assert "tcg" in json.dumps(h) or "kvm" in json.dumps(h), h


def test_the_command_line_client_runs_code(gateway):
    r = subprocess.run([binary(), "run", "-c", "print(6*7)", "--url", "http://127.0.0.1:%d" % gateway.port, "--token", TOKEN],
                       capture_output=True, text=True, timeout=150, stdin=subprocess.DEVNULL)
    assert r.returncode == 0 and r.stdout == "42\n", (r.returncode, r.stdout, r.stderr)
    r = subprocess.run([binary(), "run", "-c", "1/0", "--url", "http://127.0.0.1:%d" % gateway.port, "--token", TOKEN],
                       capture_output=True, text=True, timeout=150, stdin=subprocess.DEVNULL)
    assert r.returncode == 1 and "ZeroDivisionError" in r.stderr + r.stdout


def test_the_gateway_gives_the_memory_of_large_bodies_back(gateway, shared):
    """None of these reaches the guest: they are taken in, parsed and refused."""
    api = gateway.client(timeout=150)

    def resident():
        with open("/proc/%d/status" % gateway.pid) as f:
            return next(int(line.split()[1]) for line in f if line.startswith("VmRSS")) // 1024

    before = resident()
    for body in [b'{"nope":1,"code":"' + b"x" * 30_000_000 + b'"}', b'{"code":[' + b"1," * 10_000_000 + b"1]}"] * 3:
        assert api.post("/v1/sessions/%s/cells" % shared, body).status == 400
    assert api.request("PUT", api.file_path(shared, "/proc/nope"), b"y" * 40_000_000).status >= 400
    wait_for("less than 16 MiB are kept of 240", 10, lambda: resident() < before + 16)

"""Limits in a real machine: what a cell that runs into one gets, what the next session does not notice."""
import os

import pytest

from harness.life import done, pause

MIB = 1 << 20


@pytest.fixture(scope="module")
def small(gateway):
    """One session with little of everything."""
    api = gateway.client(timeout=150)
    sid = api.create(limits={"disk_mb": 100, "pids": 64, "open_files": 300, "cpu_weight": 50})
    yield sid
    api.delete("/v1/sessions/" + sid)


def test_a_full_disk_is_told_by_cell_command_and_upload(api, small):
    c = api.cell(small, "open('/home/user/big', 'wb').write(bytes(150 << 20))")
    assert c["status"] == "error" and "No space left" in c["error"]["evalue"] and c["limits_hit"] == ["disk_mb"], c
    assert 90 * MIB < c["usage"]["disk_bytes"] <= 100 * MIB
    assert api.session(small)["usage"]["disk_bytes"] == c["usage"]["disk_bytes"]
    r = api.post("/v1/sessions/%s/commands" % small, {"cmd": "head -c 9000000 /dev/zero > more"}).json()
    assert r["exit_code"] == 1 and r["limits_hit"] == ["disk_mb"], r
    r = api.request("PUT", api.file_path(small, "/home/user/up"), os.urandom(9 * MIB))
    assert r.status == 507 and r.json()["reason"] == "disk_full"
    c = api.cell(small, "import os\nos.remove('/home/user/big')\nopen('/home/user/f', 'wb').write(bytes(9 << 20))")
    assert c["status"] == "ok" and "limits_hit" not in c


def test_processes_are_refused_and_the_kernel_goes_on(api, small):
    c = api.cell(small, """
import subprocess
begun = []
try:
    for _ in range(100):
        begun.append(subprocess.Popen(['sleep', '60']))
except OSError as e:
    print(type(e).__name__, len(begun) < 64)
for p in begun:
    p.kill(); p.wait()
""", timeout=140)
    assert c["stdout"] == "BlockingIOError True\n" and c["limits_hit"] == ["pids"], c
    c = api.cell(small, "print(subprocess.run(['echo', 'fine'], capture_output=True).stdout)")
    assert c["stdout"] == "b'fine\\n'\n" and "limits_hit" not in c
    r = api.post("/v1/sessions/%s/commands" % small,
                 {"cmd": "for i in $(seq 200); do sleep 30 & done; echo all", "timeout_s": 60}).json()
    assert r["limits_hit"] == ["pids"] and "all" not in r["stdout"], r


def test_open_files_are_bounded_in_kernels_and_commands(api, small):
    code = "import resource\nprint(resource.getrlimit(resource.RLIMIT_NOFILE))"
    assert api.cell(small, code)["stdout"] == "(300, 300)\n"
    c = api.cell(small, "fs = [open('/dev/null') for _ in range(400)]")
    assert c["status"] == "error" and "Too many open files" in c["error"]["evalue"]
    r = api.post("/v1/sessions/%s/commands" % small, {"cmd": "ulimit -Hn"}).json()
    assert r["stdout"] == "300\n"


def test_limits_hold_for_a_fresh_kernel_and_after_a_pause(api, small):
    code = ("import resource\nprint(resource.getrlimit(resource.RLIMIT_NOFILE)[1], open('/sys/fs/cgroup/user/pids.max').read(), "
            "__import__('shutil').disk_usage('/').free < 100 << 20)")
    assert api.post("/v1/sessions/%s/restart" % small, {}, timeout=150).status == 200
    assert api.cell(small, code)["stdout"].split() == ["300", "256", "True"]
    pause(api, small)
    done(api, small, "resume")
    assert api.cell(small, code)["stdout"].split() == ["300", "256", "True"]


def share_of(pid):
    """The weight of the process' own control group, as a part of the usual one; of its niceness where it has none."""
    with open("/proc/%d/cgroup" % pid) as f:
        groups = [line.strip().split(":", 2)[1:] for line in f]
    for controllers, path in groups:
        for root, name, usual in (("/sys/fs/cgroup/cpu", "cpu.shares", 1024), ("/sys/fs/cgroup", "cpu.weight", 100)):
            file = os.path.join(root + path, name)
            if "cellkeep-" in path and controllers.split(",")[0] == ("cpu" if usual == 1024 else "") and os.path.exists(file):
                with open(file) as f:
                    return int(f.read()) / usual
    return 1 / 1.25 ** (os.getpriority(os.PRIO_PROCESS, pid) - os.getpriority(os.PRIO_PROCESS, 0))


def test_the_share_of_the_processors_is_set_on_the_host(gateway, api, small, session):
    """Also for a session that was paused and came back in another process."""
    assert share_of(gateway.qemu_pid(small)) == pytest.approx(0.5, rel=0.1)
    assert share_of(gateway.qemu_pid(session)) == 1
    pause(api, small)
    done(api, small, "resume")
    assert share_of(gateway.qemu_pid(small)) == pytest.approx(0.5, rel=0.1)


def test_the_host_counts_what_a_session_uses(api, session):
    """Not by a guest's clock: on a loaded host it counts time in which it did not run."""
    def used(code):
        before = api.session(session)["usage"]
        c = api.cell(session, code, timeout=140)
        after = api.session(session)["usage"]
        assert c["status"] == "ok" and after["wall_ms"] >= before["wall_ms"]
        return after["vm_cpu_ms"] - before["vm_cpu_ms"], after
    rest, _ = used("import time\ntime.sleep(2)")
    work, after = used("n = sum(i * i for i in range(4_000_000))")
    assert 0 <= rest < work, "who sleeps uses nothing"
    assert after["cells"] == {"ok": 2} and after["cell_wall_ms"] >= 2000


def test_another_session_has_what_is_usual(api, session):
    c = api.cell(session, "import resource, shutil\nprint(resource.getrlimit(resource.RLIMIT_NOFILE)[1], "
                          "shutil.disk_usage('/').free > 1 << 30)")
    assert c["stdout"] == "65536 True\n"

"""The agent in a real guest, asked directly: what the gateway's own tests cannot reach or cannot tell apart.

One guest for all, restored from the template of the build under test (made first when there is none).
"""
import os
import subprocess
import time

import pytest

from machine import Agent, Machine, sha256

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.path.join(ROOT, os.environ.get("CELLKEEP_BUILD", "build"))


def template():
    made = subprocess.run([BUILD + "/cellkeep", "template", "build"], stdout=subprocess.PIPE, check=True, text=True)
    return made.stdout.splitlines()[-1]


@pytest.fixture(scope="session")
def machine():
    m = Machine(BUILD + "/bench/vmm_restore", template())
    m.start()
    try:
        assert m.agent.call("hello")["kernel_pid"] > 1
        assert m.agent.personalise("guest-1")["ok"] is True
        yield m
    finally:
        code = m.stop()
    assert code == 0


@pytest.fixture
def agent(machine):
    machine.agent.pushes.clear()
    return machine.agent


def shell(agent, cmd, **kw):
    end, out, err = agent.command(cmd=cmd, **kw)
    assert end.get("code") == 0, (end, out, err)
    return out.decode()


# --- who is heard ---------------------------------------------------------------------------------


def test_the_old_key_is_not_heard_any_more(machine, agent):
    stranger = Agent(machine.port)
    stranger.n = 1 << 60
    stranger.send("ping")
    with pytest.raises(TimeoutError):
        stranger.receive(2)
    assert agent.call("ping")["ok"] is True


def test_a_replayed_message_is_not_heard(agent):
    agent.call("ping")
    agent.n -= 1
    agent.send("ping")
    with pytest.raises(TimeoutError):
        agent.receive(2)


def test_garbage_does_not_disturb(agent):
    for frames in ([b""], [b"x", b"y"], [b"x" * 32, b"{}"], [b"x" * 32] * 9, [b"x" * 32, b"y" * 200000, b""]):
        agent.sock.send_multipart(frames)
    assert agent.call("ping")["ok"] is True
    assert agent.call("no_such_thing")["error"]["reason"] == "unknown_op"


def test_personalising_gave_the_machine_its_names(agent):
    assert shell(agent, "uname -n; cat /etc/hostname; getent hosts guest-1").split()[:2] == ["guest-1", "guest-1"]
    assert len(shell(agent, "cat /etc/machine-id").strip()) == 32
    assert abs(float(shell(agent, "date +%s.%N")) - time.time()) < 30


# --- files ----------------------------------------------------------------------------------------


def test_an_upload_appears_whole_and_belongs_to_the_user(agent):
    data = os.urandom(700000)
    done = agent.put("/home/user/new/folder/data.bin", data)
    assert done["created"] is True and done["stat"]["size"] == len(data) and done["stat"]["mode"] == 0o644
    assert shell(agent, "stat -c %U:%G new/folder/data.bin; sha256sum new/folder/data.bin").split()[:2] == [
        "user:user", sha256(data)]
    shell(agent, "chmod 600 new/folder/data.bin")
    again = agent.put("/home/user/new/folder/data.bin", b"x")
    assert again["created"] is False and again["stat"]["mode"] == 0o600


def test_an_unfinished_upload_is_seen_by_nobody_and_leaves_nothing(agent):
    shell(agent, "mkdir up")
    agent.call("changes")
    handle = agent.call("write_open", path="/home/user/up/f")["handle"]
    agent.call("write", b"abc", handle=handle)
    assert agent.call("list", path="/home/user/up")["entries"] == []
    assert agent.call("changes")["count"] == 0
    assert agent.call("write_abort", handle=handle)["ok"] is True
    assert shell(agent, "ls -A up") == ""
    assert agent.call("write", b"abc", handle=handle)["error"]["reason"] == "no_such_upload"


@pytest.mark.parametrize("path, status", [
    ("/proc/self/environ", 403), ("/proc/1/mem", 403), ("/dev/zero", 403), ("/sys/kernel/notes", 403),
    ("/run/cellkeep/zygote.py", 403), ("/etc/shadow", 403), ("/home/user/../../etc/shadow", 403),
    ("/no/such/file", 404), ("/home/user", 409), ("relative", 400)])
def test_what_is_not_served(agent, path, status):
    error = agent.call("read", path=path)["error"]
    assert error["status"] == status
    if path.startswith(("/proc", "/dev", "/sys", "/run")):
        assert "only the session's own files are served" in error["message"]


def test_a_fifo_and_links_out_of_the_disk_do_not_hold_the_agent(agent):
    shell(agent, "mkfifo pipe; ln -s /proc/self/environ out; ln -s /dev/zero zero; ln -s loop loop")
    started = time.monotonic()
    assert agent.call("read", path="/home/user/pipe")["error"]["reason"] == "not_a_file"
    for name in ("out", "zero", "loop"):
        assert agent.call("read", path="/home/user/" + name)["error"]["status"] == 403
    assert time.monotonic() - started < 10
    shell(agent, "rm pipe out zero loop")


def test_reading_in_pieces_notices_a_change(agent):
    agent.put("/home/user/pieces", b"0123456789")
    first = agent.call("read", path="/home/user/pieces", offset=2, length=3)
    assert (first["payload"], first["eof"]) == (b"234", False)
    rest = agent.call("read", path="/home/user/pieces", offset=5, length=100, etag=first["stat"]["etag"])
    assert (rest["payload"], rest["eof"]) == (b"56789", True)
    agent.put("/home/user/pieces", b"0123456789")
    late = agent.call("read", path="/home/user/pieces", offset=5, length=100, etag=first["stat"]["etag"])
    assert late["error"]["reason"] == "file_changed"


def test_names_that_are_not_utf8(agent):
    agent.call("changes")
    shell(agent, "mkdir odd; printf x > $(printf 'odd/a\\377b')")
    entry = agent.call("list", path="/home/user/odd")["entries"][0]
    assert entry["name"] == "a\ufffdb" and bytes.fromhex(entry["name_raw_hex"]) == b"a\xffb"
    raw = {"path": "?", "path_raw_hex": b"/home/user/odd/a\xffb".hex()}
    assert agent.call("stat", **raw)["stat"]["size"] == 1
    assert agent.call("read", offset=0, length=10, **raw)["payload"] == b"x"
    change = agent.call("changes")["files"][0]
    assert change["path"] == "/home/user/odd/a\ufffdb"
    assert bytes.fromhex(change["path_raw_hex"]) == b"/home/user/odd/a\xffb"
    assert agent.call("remove", path="/home/user/odd")["error"]["reason"] == "not_empty"
    assert agent.call("remove", path="/home/user/odd", recursive=True)["ok"] is True


def test_moving_does_not_overwrite_unasked(agent):
    agent.put("/home/user/a1", b"1")
    agent.put("/home/user/a2", b"2")
    move = {"from": "/home/user/a1", "to": "/home/user/a2"}
    assert agent.call("move", **move)["error"]["reason"] == "exists"
    assert agent.call("move", overwrite=True, **move)["stat"]["size"] == 1
    assert agent.call("read", path="/home/user/a2")["payload"] == b"1"
    assert agent.call("remove", path="/home/user", recursive=True)["error"]["status"] == 403


def test_what_the_template_left_behind_is_the_users(agent):
    assert shell(agent, "find /home/user /tmp ! -user user ! -path /tmp").strip() == ""
    assert "fontlist" in shell(agent, "ls ~/.cache/matplotlib")


# --- the network ----------------------------------------------------------------------------------


NETWORK = """
import errno, socket
def tell(what, kind, to, proto=0, connect=False, data=b"x"):
    s = socket.socket(socket.AF_INET, kind, proto)
    s.settimeout(20)
    try:
        if connect or kind == socket.SOCK_STREAM:
            s.connect(to)
            s.send(data)
        else:
            s.sendto(data, to)
        print(what, "sent")
    except OSError as e:
        print(what, errno.errorcode.get(e.errno, e))
UDP, TCP, PING = socket.SOCK_DGRAM, socket.SOCK_STREAM, bytes([8, 0, 0, 0, 0, 0, 0, 1])
for ip in ("10.0.2.2", "10.0.2.3", "8.8.8.8", "255.255.255.255"):
    tell("udp", UDP, (ip, 53)); tell("connected-udp", UDP, (ip, 53), connect=True)
    tell("ping", UDP, (ip, 0), proto=socket.IPPROTO_ICMP, data=PING)
    tell("udp-lite", UDP, (ip, 53), proto=136)
    tell("tcp", TCP, (ip, 53))
for ip in ("127.0.0.1", "10.0.2.15"):
    tell("udp", UDP, (ip, 53)); tell("ping", UDP, (ip, 0), proto=socket.IPPROTO_ICMP, data=PING)
    tell("tcp", TCP, (ip, 53))
"""


def test_what_goes_nowhere_is_told_at_once_and_the_guest_itself_is_reached(agent):
    agent.put("/home/user/network.py", NETWORK.encode())
    told = shell(agent, "python3 network.py").splitlines()
    nowhere = ["udp ENETUNREACH", "connected-udp ENETUNREACH", "ping ENETUNREACH", "udp-lite ENETUNREACH"]
    assert told == [*nowhere, "tcp ECONNREFUSED", *3 * [*nowhere, "tcp ENETUNREACH"],
                    *2 * ["udp sent", "ping sent", "tcp ECONNREFUSED"]]


# --- changes --------------------------------------------------------------------------------------


def test_each_change_is_told_once_with_type_and_hash(agent):
    agent.call("changes")
    shell(agent, "printf 'a,b\\n1,2\\n' > t.csv; mkdir -p .cache __pycache__ .git; touch .cache/x __pycache__/y .git/z")
    files = agent.call("changes")["files"]
    assert [(f["path"], f["change"], f["mime"], f["sha256"]) for f in files] == [
        ("/home/user/t.csv", "created", "text/csv", sha256(b"a,b\n1,2\n"))]
    assert agent.call("changes")["count"] == 0
    shell(agent, "echo 3,4 >> t.csv")
    assert [f["change"] for f in agent.call("changes")["files"]] == ["changed"]
    shell(agent, "rm t.csv")
    assert agent.call("changes")["count"] == 0


def test_folders_are_left_out_by_pattern(agent):
    def paths():
        return sorted(f["path"][len("/home/user/"):] for f in agent.call("changes")["files"])

    shell(agent, "mkdir -p x.d y .cache; touch x.d/0")
    assert agent.call("watch", ignore=["*.d"])["ok"] is True
    shell(agent, "touch x.d/1 .cache/2 y/3")
    assert paths() == [".cache/2", "y/3"]
    assert agent.call("watch", ignore=["*.d/"])["error"]["reason"] == "bad_field"
    shell(agent, "touch x.d/4 y/5")
    assert paths() == ["y/5"]  # what was refused changed nothing
    assert agent.call("watch", ignore=[])["ok"] is True
    assert paths() == []  # what was there before is no news
    shell(agent, "touch x.d/6 .cache/7")
    assert paths() == [".cache/7", "x.d/6"]
    assert agent.call("watch")["ok"] is True
    shell(agent, "touch x.d/8 .cache/9; rm -r y")
    assert paths() == ["x.d/8"]
    shell(agent, "rm -r x.d")


# --- commands -------------------------------------------------------------------------------------


def test_a_command_is_an_ordinary_user_without_privileges(agent):
    text = shell(agent, "id -u; pwd; nice; cat /proc/self/oom_score_adj; grep -E 'CapEff|CapPrm|NoNew' /proc/self/status")
    assert text.split()[:4] == ["1000", "/home/user", "0", "500"]
    assert text.split()[4:] == ["CapPrm:", "0" * 16, "CapEff:", "0" * 16, "NoNewPrivs:", "1"]


def test_input_output_and_code(agent):
    end, out, err = agent.command(b"hello" * 50000, cmd="cat; echo no >&2; exit 3")
    assert (end["code"], out, err) == (3, b"hello" * 50000, b"no\n")
    assert agent.call("command", argv=["/nope"])["error"]["reason"] == "no_such_program"
    assert agent.call("command", cmd="x", cwd="/nope")["error"]["reason"] == "bad_cwd"
    assert agent.call("command", cmd="x", env={"A B": "1"})["error"]["reason"] == "bad_env"


def test_a_flood_of_output_arrives_whole(agent):
    end, out, _ = agent.command(cmd="seq 400000")
    assert end["code"] == 0 and out == "".join(f"{i}\n" for i in range(1, 400001)).encode()


def test_a_timeout_takes_everything_the_command_started(agent):
    end, _, _ = agent.command(cmd="setsid sleep 7777 & sleep 7777", timeout_ms=1500)
    assert end["timed_out"] is True and end["signal"] == 9
    time.sleep(0.5)
    assert shell(agent, "pgrep -fc 'sleep 777[7]' || true").strip() == "0"


def test_a_background_child_does_not_hold_the_end(agent):
    started = time.monotonic()
    end, out, _ = agent.command(cmd="sleep 60 & echo now")
    assert end["code"] == 0 and out == b"now\n" and time.monotonic() - started < 20


def test_seventeen_commands_are_one_too_many(agent):
    pids = [agent.call("command", cmd="sleep 600")["pid"] for _ in range(16)]
    assert agent.call("command", cmd="true")["error"]["status"] == 429
    for pid in pids:
        assert agent.call("command_kill", pid=pid)["ok"] is True
        assert agent.push(lambda h, pid=pid: h.get("ev") == "exit" and h["pid"] == pid)[0]["signal"] == 9


# --- the kernel's life ----------------------------------------------------------------------------


def start(agent, **kw):
    return agent.call("kernel_start", key="k", cwd="/home/user", env={}, **kw)


def test_a_killed_kernel_is_told_and_a_new_one_starts(agent):
    pid = start(agent)["pid"]
    shell(agent, f"kill -SEGV {pid}")
    end = agent.push(lambda h: h.get("ev") == "kernel_exit" and h["pid"] == pid)[0]
    assert (end["signal"], end["oom"]) == (11, False)
    assert agent.call("hello")["kernel_pid"] == 0
    assert agent.call("kernel_signal", signal="INT")["error"]["reason"] == "no_kernel"
    assert start(agent)["pid"] > pid


def test_the_user_cannot_end_what_kernels_are_forked_from(agent):
    pid = start(agent)["pid"]
    agent.command(cmd="pkill -9 python3; kill -9 -1")
    agent.push(lambda h: h.get("ev") == "kernel_exit" and h["pid"] == pid)
    started = time.monotonic()
    assert start(agent)["pid"] > pid
    assert time.monotonic() - started < 10


def test_a_kernel_that_is_started_over_another_ends_it(agent):
    first = start(agent)["pid"]
    second = start(agent)["pid"]
    assert agent.push(lambda h: h.get("ev") == "kernel_exit" and h["pid"] == first)[0]["signal"] == 9
    assert agent.call("hello")["kernel_pid"] == second


def test_bad_starts_are_refused_with_the_reason(agent):
    assert agent.call("kernel_start", key="", cwd="/", env={})["error"]["reason"] == "bad_field"
    assert agent.call("kernel_start", key="k", cwd="x", env={})["error"]["reason"] == "bad_field"
    assert agent.call("kernel_start", key="k", cwd="/", env={"A": 1})["error"]["reason"] == "bad_env"


USER_MIB = 180  # what README.md promises to the code of a session of 512 MB


def test_the_user_has_the_memory_that_was_promised(agent):
    start(agent)
    shell(agent, f"python3 -c 'x = bytearray(b\"1\") * ({USER_MIB} << 20)'")


def test_the_page_cache_is_not_the_users_memory(agent):
    start(agent)
    shell(agent, "head -c 300M /dev/zero > big; cat big | wc -c; rm big", timeout_ms=120000)
    shell(agent, f"python3 -c 'x = bytearray(b\"1\") * ({USER_MIB} << 20)'")


def test_the_user_meets_the_users_limit_before_the_machine_is_full(agent):
    start(agent)

    def events():
        return dict(line.split() for line in shell(agent, "cat /sys/fs/cgroup/user/memory.events").splitlines())

    before = events()
    end, _, _ = agent.command(cmd="python3 -c 'x = [bytearray(b\"1\") * (1 << 20) for _ in range(4000)]'")
    assert end["signal"] == 9
    after = events()
    assert int(after["oom"]) > int(before["oom"]) and int(after["oom_kill"]) == int(before["oom_kill"]) + 1


def test_shared_memory_goes_with_its_kernel_and_files_stay(agent):
    start(agent)
    fill = "mkdir -p /dev/shm/a/b; head -c 50M /dev/zero > /dev/shm/a/b/c; echo kept > /tmp/kept; ipcmk -M 1000000"
    shell(agent, fill)
    assert shell(agent, "grep -c . /proc/sysvipc/shm").strip() == "1"  # the heading: nobody is attached
    used = agent.call("usage")["memory_bytes"]
    start(agent)
    assert shell(agent, "ls -A /dev/shm; stat -c %a /dev/shm; cat /tmp/kept").split() == ["1777", "kept"]
    assert agent.call("usage")["memory_bytes"] < used - (40 << 20)
    # a process that outlives the kernel keeps what it has mapped
    holder = agent.call("command", cmd="exec 9> /dev/shm/mine; echo x >&9; sleep 3; echo y >&9 && cat /proc/self/fd/9")
    start(agent)
    end, _ = agent.push(lambda h: h.get("ev") == "exit" and h["pid"] == holder["pid"])
    assert end["code"] == 0


def test_the_agent_answers_while_memory_runs_out(agent):
    start(agent)
    rid = agent.send("command", cmd="python3 -c 'x=[bytearray(b\"1\")*(1<<20) for _ in range(4000)]'")
    pid = agent.answer(rid)["pid"]
    slowest = 0
    while not any(h.get("pid") == pid and h.get("ev") == "exit" for h, _ in agent.pushes):
        started = time.monotonic()
        agent.call("ping")
        slowest = max(slowest, time.monotonic() - started)
        time.sleep(0.2)
    assert agent.push(lambda h: h.get("ev") == "exit" and h["pid"] == pid)[0]["signal"] == 9
    assert slowest < 5


# --- limits of the session --------------------------------------------------------------------------


def test_the_limit_of_the_disk_holds_at_once_and_can_be_lifted(agent):
    used = agent.call("usage")["disk_bytes"]
    assert agent.call("limits", disk_bytes=used + (40 << 20))["ok"] is True
    assert agent.call("usage")["disk_free_bytes"] <= 40 << 20
    end, _, err = agent.command(cmd="head -c 60000000 /dev/zero > /home/user/big")
    assert end["code"] == 1 and b"No space left" in err
    handle = agent.call("write_open", path="/home/user/more")["handle"]  # the file operations, too
    written = [agent.call("write", os.urandom(1 << 18), handle=handle) for _ in range(8)]
    assert [w["error"]["reason"] for w in written if "error" in w][:1] == ["disk_full"]
    full = agent.call("changes")["usage"]
    assert full["disk_free_bytes"] < 1 << 20 and full["disk_bytes"] > used + (38 << 20)
    assert agent.call("limits", disk_bytes=0)["ok"] is True
    shell(agent, "head -c 60000000 /dev/zero > /home/user/big; rm /home/user/big")
    assert agent.call("usage")["disk_free_bytes"] > 1 << 30


def test_limits_of_open_files_and_processes_hold_for_what_starts_from_then_on(agent):
    try:
        assert agent.call("limits", pids=32, open_files=300)["ok"] is True
        assert shell(agent, "ulimit -n; ulimit -Hn").split() == ["300", "300"]
        end, out, _ = agent.command(cmd="for i in $(seq 70); do sleep 20 & done; echo begun")
        assert end["pids_refused"] > 0 and b"begun" not in out  # twice as many for a command: 64
        assert agent.call("kernel_start", key="k")["pid"] > 0  # comes up with the smallest
        kernel = agent.call("hello")["kernel_pid"]
        assert shell(agent, "grep files /proc/%d/limits" % kernel).split()[3:5] == ["300", "300"]
        assert agent.call("limits", open_files=400)["ok"] is True
        assert shell(agent, "grep files /proc/%d/limits" % kernel).split()[3:5] == ["400", "400"]
    finally:
        agent.call("limits", pids=256, open_files=65536)


@pytest.mark.parametrize("bad", [{"pids": 8}, {"pids": 100000}, {"open_files": 10}, {"disk_bytes": 4096},
                                 {"disk_bytes": -1}, {"pids": "many"}])
def test_limits_that_make_no_sense_change_nothing(agent, bad):
    before = shell(agent, "ulimit -n; cat /sys/fs/cgroup/user/pids.max")
    assert agent.call("limits", **bad)["error"]["status"] == 400
    assert shell(agent, "ulimit -n; cat /sys/fs/cgroup/user/pids.max") == before

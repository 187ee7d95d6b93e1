"""The life of a session at its bridge (docs/PROTOCOL.md section 7): real QEMU, real ipykernel, no gateway. What the
gateway does with folders is done here by hand."""
import json
import os
import shutil
import subprocess
import tempfile
import time
import uuid

import pytest

from harness import procs
from harness.gateway import binary, wait_for
from vm.bridge_client import Bridge, BridgeError, NotReady, give_layer, seal_layer, template_ram


class Template:
    def __init__(self):
        r = subprocess.run([binary(), "template", "build", "--json"], capture_output=True, text=True, timeout=900,
                           stdin=subprocess.DEVNULL)
        assert r.returncode == 0, r.stderr
        self.info = json.loads(r.stdout)
        self.ram = template_ram(self.info["dir"])
        self.made, self.folders = [], []

    def bridge(self, **config):
        b = Bridge(binary(), self.info["dir"], self.info["image_dir"], ram_fd=self.ram, **config)
        self.made.append(b)
        return b

    def session(self, **claim):
        b = self.bridge(pool=True)
        with b.connect() as c:
            c.call("claim", name="t", kernel_env=claim.pop("env", {}), limits={}, **claim)
        return b

    def resume(self, old, layer):
        b = self.bridge(id=old.id, folder=old.dir, restore={"layer": layer, "mode": "resume"})
        return b

    def fork(self, source, layer):
        sid = str(uuid.uuid4())
        folder = tempfile.mkdtemp(prefix="ckb")
        self.folders.append(folder)
        give_layer(source.dir, folder, layer)
        return self.bridge(id=sid, folder=folder, restore={"layer": layer, "mode": "fork"})

    def end(self):
        for b in self.made:
            b.end()
        self.made = []
        for d in self.folders:
            shutil.rmtree(d, ignore_errors=True)


@pytest.fixture(scope="module")
def template():
    t = Template()
    yield t
    t.end()
    os.close(t.ram)


@pytest.fixture
def vm(template):
    yield template
    template.end()


def out(c, code, **fields):
    cell = c.run(code, **fields)
    assert cell["status"] == "ok", cell
    return cell["stdout"]


def pause(b, layer=None):
    """Pauses the session and returns the layer and the answer; the bridge is gone then."""
    layer = layer or str(uuid.uuid4())
    with b.connect() as c:
        answer = c.call("pause", layer=layer)[0]
    assert b.wait_end() == 0, b.log()[-3000:]
    seal_layer(b.dir, layer)
    return layer, answer


def checkpoint(b, c):
    layer = str(uuid.uuid4())
    answer = c.call("checkpoint", layer=layer)[0]
    seal_layer(b.dir, layer)
    return layer, answer


def events(c, frm=0, until=None):
    """All events that are there, from a sequence number."""
    last = c.info()["last_seq"]
    c.call("attach", **{"from": frm, "mode": "all"})
    return c.events(lambda h: h["seq"] >= last)


def numbers(evs):
    return [h["seq"] for h, _ in evs if h["ev"] != "gap"]


MAKE = """
import random, threading
random.seed(42)
first = random.random()
kept = {"a": [1, 2, 3]}
def numbers():
    for i in range(1000):
        yield i
gen = numbers(); next(gen); next(gen)
f = open('notes.txt', 'w'); f.write('written, not closed'); f.flush()
lock = threading.Lock()
"""

LOOK = """
import random
print(kept, next(gen), random.random(), lock.locked(), open('notes.txt').read(), f.closed)
"""


def test_a_paused_session_comes_back_as_it_was(vm):
    b = vm.session(env={"GREETING": "hello"})
    with b.connect() as c:
        cell, _ = c.execute(MAKE)
        c.call("attach", **{"from": 0, "mode": "cell", "cell": cell})
        c.events(lambda h: h.get("ev") == "cell")
        c.call("attach", **{"from": "now", "mode": "jupyter", "consumer": "someone"})
        before = events(c)
        info = c.info()
    mine = {p: procs.start_of(p) for p in procs.descendants({b.proc.pid}) | {b.proc.pid}}
    layer, answer = pause(b)
    assert procs.wait_gone(mine, 5) == {}
    assert sorted(os.listdir(os.path.join(b.dir, "layers"))) == [layer]
    with open(os.path.join(b.dir, "paused.json")) as f:
        assert json.load(f) == {"version": 1, "id": b.id, "layer": layer}
    assert os.path.exists(os.path.join(b.dir, "history"))
    assert answer["bytes"] > 1 << 20 and answer["stall_us"] > 0
    assert not os.path.exists(b.socket)

    again = vm.resume(b, layer)
    assert not os.path.exists(os.path.join(b.dir, "paused.json"))
    assert not os.path.exists(os.path.join(b.dir, "history"))
    with again.connect() as c:
        now = c.info()
        assert (now["state"], now["id"]) == ("idle", b.id)
        assert now["kernel"]["pid"] == info["kernel"]["pid"]
        assert now["kernel"]["execution_count"] == info["kernel"]["execution_count"]
        # the log goes on where it was
        evs = events(c)
        assert numbers(evs)[:len(numbers(before))] == numbers(before)
        assert numbers(evs)[-1] == now["last_seq"] and not any(h["ev"] == "gap" for h, _ in evs)
        states = [h["state"] for h, _ in evs if h["ev"] == "state"]
        assert states[-3:] == ["paused", "starting", "idle"], states
        # the finished cell is known
        h, parts = c.call("cell", cell=cell)
        assert h["status"] == "ok" and json.loads(parts[0])["id"] == cell
        r = __import__("random").Random(42)
        r.random()
        assert out(c, LOOK) == "{'a': [1, 2, 3]} 2 %r False written, not closed False\n" % r.random()
        # a fresh kernel of it gets the environment
        c.call("restart")
        assert out(c, "import os; print(os.environ['GREETING'])") == "hello\n"


def test_time_is_right_after_a_pause_and_no_timer_is_overdue(vm):
    b = vm.session()
    with b.connect() as c:
        out(c, """
import threading, time
ticks = []
def tick():
    while True:
        time.sleep(0.5); ticks.append(time.monotonic())
threading.Thread(target=tick, daemon=True).start()
begun = time.monotonic()
""")
    layer, _ = pause(b)
    time.sleep(8)
    again = vm.resume(b, layer)
    with again.connect() as c:
        got = out(c, "import time; print(time.time(), time.monotonic() - begun, len(ticks))")
        wall, passed, ticks = got.split()
        # the cell's time is between its start and now; under emulation that is some tenths of a second
        lag = time.time() - float(wall)
        assert -0.1 < lag < 5, lag
        assert float(passed) < 8, "the guest's clock went on while it was paused"
        # the least of several looks, so that a loaded machine does not count
        lags = []
        for _ in range(8):
            t0 = time.time()
            guest = float(out(c, "import time; print(time.time())"))
            t1 = time.time()
            lags.append(max(t0 - guest, guest - t1, 0))
        assert min(lags) < 0.1, lags


def test_a_session_can_be_paused_again_and_again(vm):
    b = vm.session()
    with b.connect() as c:
        out(c, "n = 0")
    for i in range(1, 4):
        layer, _ = pause(b)
        b = vm.resume(b, layer)
        with b.connect() as c:
            assert out(c, "n += 1; open('f%d' % n, 'w').write(str(n)); print(n)") == "%d\n" % i
    with b.connect() as c:
        assert out(c, "import os; print([open('f%d' % i).read() for i in (1, 2, 3)])") == "['1', '2', '3']\n"


def test_only_a_session_at_rest_is_paused(vm):
    b = vm.session()
    with b.connect() as c, b.connect() as other:
        cell, _ = c.execute("import time\nprint('x', flush=True)\ntime.sleep(60)")
        c.call("attach", **{"from": 0, "mode": "cell", "cell": cell})
        c.events(lambda h: h.get("mt") == "stream")
        with pytest.raises(BridgeError) as e:
            other.call("pause", layer=str(uuid.uuid4()))
        assert (e.value.status, e.value.reason) == (409, "session_busy")
        c.call("cancel", cell=cell)
        c.events(lambda h: h.get("ev") == "cell")
        rid = other.op("command", cmd="sleep 30")
        time.sleep(1)
        with pytest.raises(BridgeError) as e:
            c.call("pause", layer=str(uuid.uuid4()))
        assert (e.value.status, e.value.reason) == (409, "session_busy")
        assert rid
    wait_for("the command has ended with its connection", 20, lambda: b.connect().info()["state"] == "idle")
    with b.connect() as c:
        # half of a frame on another connection is a message on its way
        with b.connect() as half:
            half.sock.sendall(b"\x40\x00\x00\x00\x01")
            time.sleep(0.2)
            with pytest.raises(BridgeError) as e:
                c.call("pause", layer=str(uuid.uuid4()))
            assert e.value.reason == "session_busy"
        time.sleep(0.2)
        # what was written before the pause was asked for is not lost: the pause gives way to it
        mid = b.connect()
        mid.message("shell", "execute_request", {"code": "early = 1", "silent": False}, "s1")
        with pytest.raises(BridgeError) as e:
            c.call("pause", layer=str(uuid.uuid4()))
        assert e.value.reason == "session_busy"
        wait_for("the message was executed", 30, lambda: c.info()["state"] == "idle")
        assert out(c, "print(early)") == "1\n"
        assert os.listdir(b.dir).count("paused.json") == 0
    pause(b)


def test_rollback_brings_back_variables_and_files(vm):
    b = vm.session()
    with b.connect() as c, b.connect() as reader:
        out(c, "x = 'old'; open('file', 'w').write('old'); import random; random.seed(1); random.random()")
        info = c.info()
        layer, answer = checkpoint(b, c)
        assert answer["layer"] == layer and answer["stall_us"] > 0
        value = out(c, "x = 'new'; open('file', 'w').write('new'); open('more', 'w').write('m'); print(random.random())")
        reader.call("attach", **{"from": "now", "mode": "all"})
        cell, _ = c.execute("import time; time.sleep(100)")
        queued, _ = c.execute("1+1")
        reader.events(lambda h: h.get("ev") == "cell_start" and h["cell"] == cell)
        with pytest.raises(BridgeError) as e:
            c.call("rollback", layer=str(uuid.uuid4()))
        assert e.value.status in (404, 422, 500)
        assert c.info()["state"] == "busy", "a layer that is not there costs nothing"
        assert c.call("rollback", layer=layer)[0]["ok"] is True
        evs = reader.events(lambda h: h.get("ev") == "state" and h["state"] == "idle")
        ends = {h["cell"]: (h["status"], json.loads(p[0])["detail"]) for h, p in evs if h["ev"] == "cell"}
        assert {k: v[0] for k, v in ends.items()} == {cell: "cancelled", queued: "cancelled"}
        assert "rolled back to " + layer in ends[queued][1]
        assert ("starting", "rolled back to " + layer) in [(h["state"], h.get("reason")) for h, _ in evs if h["ev"] == "state"]
        now = c.info()
        assert now["id"] == info["id"] and now["kernel"]["pid"] == info["kernel"]["pid"]
        assert now["qemu_pid"] != info["qemu_pid"] and now["last_seq"] > info["last_seq"]
        assert out(c, "import os; print(x, open('file').read(), os.path.exists('more'))") == "old old False\n"
        assert out(c, "print(random.random())") == value, "the user's generator was not kept"
        # and once more, to the same layer and on from there
        out(c, "x = 'newer'")
        c.call("rollback", layer=layer)
        assert out(c, "print(x)") == "old\n"
        second, _ = checkpoint(b, c)
        out(c, "x = 'newest'")
        c.call("rollback", layer=second)
        assert out(c, "print(x)") == "old\n"
        assert procs.descendants({b.proc.pid}) - {b.proc.pid} == {c.info()["qemu_pid"]}


WHO = """
import random, uuid, secrets, os, socket
import numpy
print(random.random(), numpy.random.rand(), uuid.uuid4(), uuid.uuid1(), secrets.token_hex(), os.urandom(8).hex(),
      open('/etc/machine-id').read().strip(), socket.gethostname(), uuid.getnode(), random.getrandbits(64), sep='\\n')
"""


def test_forks_have_the_variables_and_their_own_randomness_and_names(vm):
    b = vm.session()
    with b.connect() as c:
        out(c, "import random, numpy, uuid; random.seed(7); numpy.random.seed(7); uuid.getnode(); shared = list(range(5)); "
               "open('shared.txt', 'w').write('s')")
        layer, _ = checkpoint(b, c)
        out(c, "shared = None; open('shared.txt', 'w').write('t')")
        source = out(c, WHO).split("\n")
        keys, seen = set(), [source]
        for _ in range(2):
            f = vm.fork(b, layer)
            with f.connect() as fc:
                assert out(fc, "print(shared, open('shared.txt').read())") == "[0, 1, 2, 3, 4] s\n"
                seen.append(out(fc, WHO).split("\n"))
                h, _ = fc.call("info")
                assert h["info"]["id"] == f.id and h["info"]["first_seq"] == 1
                keys.add(out(fc, "from ipykernel.kernelapp import IPKernelApp; k = IPKernelApp.instance(); "
                                 "print(k.session.key, k.session.session)"))
        assert len(keys) == 2
        for column in zip(*seen):
            if column[0]:
                assert len(set(column)) == len(seen), column
        assert out(c, "print(shared)") == "None\n"


def test_a_busy_kernel_goes_on_in_the_fork_and_its_output_is_whole(vm):
    b = vm.session()
    with b.connect() as c, b.connect() as other:
        code = "import time\nfor i in range(60):\n    print(i, flush=True)\n    time.sleep(0.1)\ndone = True"
        cell, _ = c.execute(code)
        c.call("attach", **{"from": 0, "mode": "cell", "cell": cell})
        seen = 0
        while seen < 5:
            seen += sum(h.get("mt") == "stream" for h, _ in c.events(lambda h: h.get("mt") == "stream"))
        layer, answer = checkpoint(b, other)
        f = vm.fork(b, layer)
        with f.connect() as fc:
            assert fc.info()["state"] == "busy"
            # a cell of the fork waits until what was running has ended
            assert out(fc, "print(done)") == "True\n"
            assert fc.info()["state"] == "idle"
            evs = events(fc)
            lines = streamed(evs, cell).split()
            assert lines and lines == [str(i) for i in range(int(lines[0]), 60)], lines
            assert int(lines[0]) <= 30
        # and the source's cell has noticed nothing
        got = c.events(lambda h: h.get("ev") == "cell", 60)
        final = json.loads(got[-1][1][0])
        assert final["status"] == "ok" and final["stdout"] == "".join("%d\n" % i for i in range(60))


def streamed(evs, parent):
    return "".join(json.loads(p[3])["text"] for h, p in evs
                   if h["ev"] == "msg" and h["mt"] == "stream" and h["pid"] == parent)


def test_output_of_a_thread_is_neither_lost_nor_doubled_by_a_pause(vm):
    b = vm.session()
    with b.connect() as c:
        cell, _ = c.execute("""
import threading, time
def run():
    for i in range(200):
        print(i, flush=True)
        time.sleep(0.05)
threading.Thread(target=run).start()
""")
        c.call("attach", **{"from": 0, "mode": "cell", "cell": cell})
        c.events(lambda h: h.get("ev") == "cell")
    for _ in range(2):
        time.sleep(1.5)
        layer, _answer = pause(b)
        b = vm.resume(b, layer)
    with b.connect() as c:
        wait_for("the thread has ended", 60, lambda: streamed(events(c), cell).endswith("199\n"))
        assert streamed(events(c), cell) == "".join("%d\n" % i for i in range(200))


def test_a_kernel_that_waits_for_stdin_is_interrupted_in_the_fork(vm):
    b = vm.session()
    with b.connect() as c, b.connect() as other:
        cell, _ = c.execute("answer = input('? ')", allow_stdin=True)
        c.call("attach", **{"from": 0, "mode": "cell", "cell": cell})
        c.events(lambda h: h.get("ev") == "input")
        layer, _ = checkpoint(b, other)
        f = vm.fork(b, layer)
        with f.connect() as fc:
            assert out(fc, "print('answer' in dir())", timeout=60) == "False\n"
        c.call("stdin", cell=cell, value="yes")
        c.events(lambda h: h.get("ev") == "cell")
        assert out(c, "print(answer)") == "yes\n"


def test_a_restore_that_does_not_confirm_is_destroyed_and_may_be_tried_again(vm):
    b = vm.session()
    with b.connect() as c:
        out(c, "x = 5")
    layer, _ = pause(b)
    path = os.path.join(b.dir, "layers", layer, "session.json")
    with open(path) as f:
        good = json.load(f)
    for wrong in ({**good, "agent_key": "00" * 32}, {**good, "kernel_key": "nonsense"}):
        with open(path, "w") as f:
            json.dump(wrong, f)
        with pytest.raises(NotReady) as e:
            vm.resume(b, layer)
        assert "did not answer in time" in str(e.value)
        assert not [p for p in procs.mentioning(b.dir) if p != os.getpid()], "something of it still runs"
        assert os.path.exists(os.path.join(b.dir, "paused.json"))
    with open(path, "w") as f:
        json.dump(good, f)
    with vm.resume(b, layer).connect() as c:
        assert out(c, "print(x)") == "5\n"


def test_a_layer_that_cannot_be_restored_is_refused_and_stays(vm):
    b = vm.session()
    layer, _ = pause(b)
    state = os.path.join(b.dir, "layers", layer, "state")
    with open(state, "r+b") as f:
        f.seek(100)
        byte = f.read(1)
        f.seek(100)
        f.write(bytes([byte[0] ^ 1]))
    with pytest.raises(NotReady) as e:
        vm.resume(b, layer)
    assert "layer" in str(e.value)
    assert os.path.exists(os.path.join(b.dir, "paused.json")) and os.path.exists(os.path.join(b.dir, "history"))


def test_two_bridges_do_not_share_a_folder(vm):
    b = vm.session()
    with pytest.raises(NotReady) as e:
        vm.bridge(id=b.id, folder=b.dir)
    assert "folder_in_use" in str(e.value)
    with b.connect() as c:
        assert out(c, "print(1)") == "1\n"

"""Clones that must share nothing but their past: many forks and fresh sessions side by side, the clock and the
timers after a pause, and memory and disk that are of one moment whatever is taken of them.

CELLKEEP_TEST_CLONES (default 4) forks and as many fresh sessions; 20 are what the limit of a plain run would not
allow under emulation."""
import concurrent.futures
import json
import os
import time

from harness.gateway import wait_for
from harness.life import done, folder, pause

CLONES = int(os.environ.get("CELLKEEP_TEST_CLONES", "4"))

# A past that clones inherit: generators that were seeded and used, uuid1's memory, a TLS generator that has started.
PAST = """
import random, secrets, socket, ssl, os, tempfile, time, uuid
import numpy
import pandas as pd
df = pd.DataFrame({'a': range(1000)})
random.seed(1); numpy.random.seed(1)
random.random(), numpy.random.rand(), uuid.uuid1(), uuid.uuid4(), ssl.RAND_bytes(8), tempfile.mktemp()
"""
MARKS = """
import random, secrets, socket, ssl, os, tempfile, uuid
import numpy, json
print(json.dumps({
    'random': random.random(), 'numpy': float(numpy.random.rand()), 'uuid4': str(uuid.uuid4()),
    'uuid1': str(uuid.uuid1()), 'node': uuid.getnode(), 'secrets': secrets.token_hex(), 'urandom': os.urandom(16).hex(),
    'tls': ssl.RAND_bytes(16).hex(), 'tempfile': tempfile.mktemp(), 'machine-id': open('/etc/machine-id').read(),
    'hostname': socket.gethostname(), 'key': get_ipython().kernel.session.key.decode(),
    'kernel session': get_ipython().kernel.session.session, 'kernel': get_ipython().kernel.ident}))
"""


def each(work, items):
    with concurrent.futures.ThreadPoolExecutor(len(items)) as pool:
        return list(pool.map(work, items))


def marks(api, sid):
    cell = api.cell(sid, MARKS)
    assert cell["status"] == "ok", cell
    return json.loads(cell["stdout"])


def assert_all_differ(seen):
    for what in seen[0]:
        values = [m[what] for m in seen]
        assert len(set(values)) == len(values), "%s of two of %d is the same: %s" % (what, len(values), sorted(values, key=str))


def test_forks_and_fresh_sessions_share_no_randomness_and_no_name(start):
    gw = start("--pool-size", "0", "--on-exit", "kill", "--max-sessions", "0")
    api = gw.client(timeout=280)
    source = api.create()
    assert api.cell(source, PAST)["status"] == "ok"
    before = marks(api, source)
    with concurrent.futures.ThreadPoolExecutor(1) as beside:
        forking = beside.submit(done, api, source, "fork", {"count": CLONES}, 201, timeout=280)
        fresh = each(lambda _: api.create(), range(CLONES))
        forks = [s["id"] for s in forking.result()]
    assert len(forks) == CLONES
    seen = each(lambda sid: marks(api, sid), [source, *forks, *fresh])
    # Who the source is did not change by being forked; what it draws goes on.
    for name in ("machine-id", "hostname", "key", "kernel", "node"):
        assert seen[0][name] == before[name], name
    assert_all_differ(seen)
    # Twice from one moment: two forks of one layer, which have the same past to the last bit.
    pause(api, source)
    again = done(api, source, "fork", {"count": 2}, 201, timeout=200)
    assert_all_differ([marks(api, s["id"]) for s in again] + seen[1:])
    assert api.cell(again[0]["id"], "print(len(df))")["stdout"] == "1000\n"


# --- time ------------------------------------------------------------------------------------------------

TICKS = """
import ctypes, os, struct, threading, time
libc = ctypes.CDLL(None, use_errno=True)
ticks = {}  # how often each timer of 50 ms came, those that were overdue included

def timerfd(clock):
    fd = libc.timerfd_create(clock, 0)
    libc.timerfd_settime(fd, 0, struct.pack('qqqq', 0, 50_000_000, 0, 50_000_000), None)
    while True:
        n, = struct.unpack('Q', os.read(fd, 8))
        ticks[clock] = ticks.get(clock, 0) + n

def catches_up():
    due = time.monotonic()
    while True:
        due += 0.05
        time.sleep(max(0, due - time.monotonic()))
        ticks['loop'] = ticks.get('loop', 0) + 1

for clock in (1, 7):  # monotonic, boottime
    threading.Thread(target=timerfd, args=(clock,), daemon=True).start()
threading.Thread(target=catches_up, daemon=True).start()
"""
LOOK = "import json; print(json.dumps([time.monotonic(), time.clock_gettime(time.CLOCK_BOOTTIME), time.perf_counter(), ticks]))"


def clock_error(api, sid):
    """Seconds between the guest's clock and ours that no delay of a round trip explains."""
    least = []
    for _ in range(6):
        begun = time.time()
        there = float(api.cell(sid, "print(time.time())")["stdout"])
        ended = time.time()
        least.append(max(0, begun - there, there - ended))
    return max(least)


def test_after_a_pause_the_clock_is_right_and_no_timer_is_overdue(api, session):
    assert api.cell(session, TICKS)["status"] == "ok"
    wait_for("timers run", 30, lambda: api.cell(session, "print(len(ticks))")["stdout"] == "3\n")
    begun = time.monotonic()
    *clocks, ticks = json.loads(api.cell(session, LOOK)["stdout"])
    pause(api, session)
    asleep = 12
    time.sleep(asleep)
    fork, = done(api, session, "fork", {}, 201)
    for sid in (session, fork["id"]):
        assert clock_error(api, sid) < 0.1
        *later, more = json.loads(api.cell(sid, LOOK)["stdout"])
        awake = time.monotonic() - begun - asleep  # at most
        for before, after in zip(clocks, later):
            assert 0 <= after - before < awake, "a clock for timers has counted the pause"
        for timer, n in ticks.items():
            assert more[timer] > n and (more[timer] - n) * 0.05 < awake + 1, (timer, n, more[timer], awake)
        wait_for("timers run on", 30, lambda: json.loads(api.cell(sid, LOOK)["stdout"])[-1]["loop"] > more["loop"] + 5)
    api.delete("/v1/sessions/" + fork["id"])


# --- memory and disk of one moment --------------------------------------------------------------------------

LOOP = """
import os, threading, time, zlib
lock, seen, count, ballast = threading.Lock(), {}, 0, bytearray(4 << 20)
for i in range(0, len(ballast), 4096):
    ballast[i:i + 8] = (i * 2654435761 + 1).to_bytes(8, 'little')
total = zlib.crc32(ballast)
f = os.open('/home/user/loop', os.O_RDWR | os.O_CREAT)

def write():
    global count
    while True:
        with lock:
            data, at = (b'%8d' % count) * 512, count % 256 * 4096
            os.pwrite(f, data, at)
            os.fsync(f)
            seen[at] = zlib.crc32(data)
            count += 1
        time.sleep(0.03)  # several machines do this at a time

def verify():
    with lock:
        os.posix_fadvise(f, 0, 0, os.POSIX_FADV_DONTNEED)
        bad = [at for at, s in seen.items() if zlib.crc32(os.pread(f, 4096, at)) != s]
        print('ok' if not bad and zlib.crc32(ballast) == total else 'wrong %s' % bad, count)

threading.Thread(target=write, daemon=True).start()
"""


def verified(api, sid):
    cell = api.cell(sid, "verify()")
    word, n = cell["stdout"].split()[:2] if cell["status"] == "ok" else (cell, 0)
    assert word == "ok", (sid, cell)
    return int(n)


def deepest(gw, sid):
    """The most disks that lie over each other in any layer of the session. What has no layer.json is a disk that is
    shared with another session, and one of those below."""
    layers, most = folder(gw, sid, "layers"), 0
    for name in os.listdir(layers):
        path = os.path.join(layers, name, "layer.json")
        if not name.endswith(".tmp") and os.path.exists(path):
            with open(path) as f:
                most = max(most, 1 + len(json.load(f)["below"]))
    return most


def test_every_clone_has_the_memory_and_the_disk_of_one_moment(gateway, api, session):
    def fork(sid, count):
        return [s["id"] for s in done(api, sid, "fork", {"count": count}, 201, timeout=200)]

    def check_and_delete(clones):
        for sid in clones:
            first = verified(api, sid)
            wait_for("the clone writes on", 60, lambda: verified(api, sid) > first)
            assert api.delete("/v1/sessions/" + sid).status == 204

    assert api.cell(session, LOOP)["status"] == "ok"
    wait_for("writes", 60, lambda: verified(api, session) > 20)
    points, depths = [], []
    for i in range(10):
        count = verified(api, session)
        points.append((done(api, session, "checkpoints", {"name": "p%d" % i}, 201)["id"], count))
        depths.append(deepest(gateway, session))
        if i == 2:
            clone, other = fork(session, 2)
            again = fork(clone, 1)  # a clone of a clone
            check_and_delete([clone, other, *again])
        if i == 7:
            check_and_delete(fork(session, 1))
    assert 1 <= depths[0] and max(depths) <= 8, depths
    # Back to the last, a middle and the first moment.
    for which in (9, 5, 0):
        done(api, session, "rollback", {"checkpoint": points[which][0]})
        assert verified(api, session) >= points[which][1]
    pause(api, session)
    verified(api, session)
    last = fork(session, 1)
    assert 1 <= deepest(gateway, last[0]) <= 8
    check_and_delete(last)

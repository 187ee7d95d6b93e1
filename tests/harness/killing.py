"""Load on a gateway that is killed again and again, and what of it must be whole in the end.

`Load` runs clients in threads: Jupyter clients that run cells with output, witnesses that follow sessions' events,
clients of the cell API, and one that pauses, checkpoints and forks at random. All of them live on while the gateway
dies and another takes its place. `check()` then holds what each of them was handed against what the sessions' logs
have: every message once (a Jupyter client may be handed one twice after a kill, under one msg_id), every session
alive with its variables, and no process or folder of anything else.
"""
import contextlib
import http.client
import json
import os
import random
import threading
import time
import traceback

import websocket

from harness import procs
from harness.gateway import TOKEN, wait_for
from harness.jupyter import Socket, stdout
from harness.life import verb

BROKEN = (OSError, http.client.HTTPException, websocket.WebSocketException, ValueError)
LINES = 12
WANT = "".join("%d\n" % i for i in range(LINES))


class Speech:
    """How a guest is told to do things: real Python."""
    put = "x = %r"
    get = "print(x)"
    count = "import time\nfor i in range(%d):\n    print(i, flush=True)\n    time.sleep(0.02)" % LINES


class FakeSpeech(Speech):
    put = "set:x:%s"
    get = "get:x"
    count = "count:%d:10" % LINES


class Load:
    def __init__(self, gateway, speech, sessions=4, pool=0, spare=0, seed=1):
        self.gw, self.speech, self.rng = gateway, speech, random.Random(seed)
        self.pool, self.spare = pool, spare
        self.over = threading.Event()
        self.calm = threading.Event()  # nobody pauses or forks any more
        self.wrong = []
        self.asked = {}  # Jupyter request -> its messages by msg_id
        self.want = {}  # and what it prints
        self.events = {}  # session -> {number: data} as its witness was handed them
        self.counts = {"cells": 0, "messages": 0, "twice": 0, "events": 0, "pauses": 0, "checkpoints": 0, "forks": 0, "unknown": 0}
        self.names = {}
        api = gateway.client()
        for i in range(sessions):
            sid = api.create(name="load-%d" % i)
            api.cell(sid, speech.put % sid)
            self.names[sid] = "load-%d" % i
        self.threads = []

    def api(self):
        return self.gw.client(timeout=90)

    def begin(self):
        for sid in self.names:
            self.events[sid] = {}
            for work in (self.jupyter, self.cells, self.witness):
                self.go(work, sid)
        self.go(self.life)

    def go(self, work, *args):
        def run():
            try:
                work(*args)
            except Exception:
                self.wrong.append(traceback.format_exc())
        t = threading.Thread(target=run, daemon=True)
        t.start()
        self.threads.append(t)

    def end(self, seconds=120):
        self.calm.set()
        self.over.set()
        for t in self.threads:
            t.join(seconds)
        assert not [t for t in self.threads if t.is_alive()], "a client hangs"

    # --- the clients ----------------------------------------------------------------------------------

    def jupyter(self, sid):
        """One session id for ever. Whether a request got through that was sent as the connection broke nobody can
        tell; but a later one is answered after it, so that then all of it is there or nothing."""
        sock, rng = None, random.Random(sid)
        while not self.over.is_set():
            try:
                sock = sock or Socket(self.gw, sid, TOKEN, session="client-of-" + sid, timeout=30)
                self.request(sock, self.speech.count, WANT)
                time.sleep(rng.random() * 0.6)
            except BROKEN:
                sock = None
                time.sleep(0.05)
        end = time.monotonic() + 90
        while True:
            try:
                sock = sock or Socket(self.gw, sid, TOKEN, session="client-of-" + sid, timeout=30)
                return self.request(sock, self.speech.get, sid + "\n")
            except BROKEN:
                sock = None
                assert time.monotonic() < end, "the session does not answer"

    def request(self, sock, code, want):
        mid = sock.send("execute_request", {"code": code, "silent": False})
        got = self.asked[mid] = {}
        self.want[mid] = want
        end = time.monotonic() + 60
        while not ended(got.values()):
            m = sock.recv(max(0.1, end - time.monotonic()))
            of = self.asked.get(m["parent_header"].get("msg_id"))
            if of is not None:  # of this request, or of one before a kill
                self.counts["messages"] += 1
                self.counts["twice"] += m["header"]["msg_id"] in of
                of[m["header"]["msg_id"]] = m

    def cells(self, sid):
        """A cell that was answered has all of its output; one whose answer was cut off is in the session's book."""
        rng = random.Random("cells of " + sid)
        while not self.over.is_set():
            try:
                r = verb(self.api(), sid, "cells", {"code": self.speech.count})
            except BROKEN:
                time.sleep(0.05)
                continue
            if r.status == 200:
                c = r.json()
                self.counts["cells"] += 1
                if c["status"] != "ok" or c["stdout"] != WANT:
                    self.wrong.append("cell of %s: %s" % (sid, c))
            elif r.status not in (429, 503, 502, 504):
                self.wrong.append("cell of %s: %s" % (sid, r))
            time.sleep(rng.random() * 0.6)

    def witness(self, sid):
        """Follows the log with Last-Event-ID; every number at most once and in order."""
        last, seen = 0, self.events[sid]
        while not self.over.is_set():
            try:
                with contextlib.closing(self.api().events("GET", "/v1/sessions/%s/events" % sid, headers={
                        "Last-Event-ID": str(last)}, timeout=20)) as events:
                    for e in events:
                        if e.id is not None and e.kind != "failed":
                            if e.id <= last:
                                self.wrong.append("event %d of %s came after %d" % (e.id, sid, last))
                            last, seen[e.id] = e.id, e.data
                            self.counts["events"] += 1
                        if e.kind == "gap":
                            self.wrong.append("a gap in %s: %s" % (sid, e.data))
                        if self.over.is_set():
                            return
            except (*BROKEN, AssertionError):
                time.sleep(0.05)

    def life(self):
        """What is refused as busy is refused; what is answered holds."""
        while not self.calm.is_set():
            sid = self.rng.choice(list(self.names))
            what = self.rng.choice(["pause", "pause", "checkpoints", "fork"])
            try:
                r = verb(self.api(), sid, what, {"count": 2} if what == "fork" else {})
                if r.status in (200, 201):
                    self.counts[what.rstrip("s") + "s"] += 1
                elif r.status not in (409, 429, 502, 503, 504):
                    self.wrong.append("%s of %s: %s" % (what, sid, r))
                if what == "fork":
                    self.drop_forks()
                elif what == "checkpoints" and r.status == 201:
                    self.api().delete("/v1/sessions/%s/checkpoints/%s" % (sid, r.json()["id"]))
            except BROKEN:
                pass
            time.sleep(self.rng.random() * 0.2)

    def drop_forks(self):
        """Forks of a killed gateway are there all or none; nobody waits for them."""
        for s in self.api().get("/v1/sessions").json():
            if s["id"] not in self.names:
                self.api().delete("/v1/sessions/" + s["id"])

    def bridge_pid(self, sid):
        try:
            return self.gw.bridge_pid(sid)
        except (OSError, ValueError):  # not yet, or just removed
            return None

    # --- the end ---------------------------------------------------------------------------------------

    def check(self):
        assert not self.wrong, "%d: %s" % (len(self.wrong), "\n".join(map(str, self.wrong[:3])))
        api = self.api()
        wait_for("forks are deleted", 60, lambda: self.drop_forks() or set(self.names) == {
            s["id"] for s in api.get("/v1/sessions").json()})
        for sid in self.names:
            r = wait_for("an answer of " + sid, 60, lambda: (r := verb(api, sid, "cells", {"code": self.speech.get})).status == 200 and r)
            assert r.json()["stdout"] == sid + "\n", "a session lost its variables: %s" % r.json()
            self.check_witness(api, sid)
        self.check_requests()
        self.check_orphans(api)

    def check_witness(self, api, sid):
        """The log as it is now has nothing that the witness was not handed, and handed as it is."""
        seen = self.events[sid]
        assert seen, "the witness of %s saw nothing" % sid
        last, missing = max(seen), []
        for e in api.events("GET", "/v1/sessions/%s/events?from=1" % sid, timeout=60):
            if e.id > last:
                break
            if seen.get(e.id) != e.data:
                missing.append((e.id, seen.get(e.id), e.data))
        assert not missing, "%d events are missing or different: %s" % (len(missing), missing[:3])

    def check_requests(self):
        for mid, got in self.asked.items():
            if not got:
                self.counts["unknown"] += 1  # cut off before anybody had it
                continue
            assert ended(got.values()), (mid, [m["msg_type"] for m in got.values()])
            assert stdout(got.values()) == self.want[mid], "output is missing or out of order"

    def check_orphans(self, api):
        """Every process and every folder is a session's that is listed, or the pool's, or a spare's: those have no more
        folders than machines, and a machine of the pool may be one that an earlier gateway started."""
        def rooms():
            return set(os.listdir(os.path.join(self.gw.state, "sessions"))) - set(self.names)

        def strangers():
            running = {s["id"] for s in api.get("/v1/sessions").json() if s["state"] != "paused"}
            bridges = {self.bridge_pid(s) for s in running | (rooms() if self.pool else set())}
            ours = procs.descendants({self.gw.pid, *bridges} - {None})
            there = {p for p, start in self.gw.seen.items() if procs.start_of(p) == start} | inhabitants(self.gw.state)
            return {p: procs.cmdline(p)[:80] for p in there - ours}
        left = []
        wait_for("no folder of nobody", 30, lambda: len(rooms()) <= self.pool + self.spare)
        try:
            wait_for("no process of nobody", 30, lambda: (left.append(strangers()), not left[-1])[1])
        except AssertionError:
            raise AssertionError("processes of nobody: %s" % left[-1])
        half = [n for s in self.names for n in os.listdir(os.path.join(self.gw.state, "sessions", s)) if n.endswith(".tmp")]
        assert not half, half


def inhabitants(folder):
    """Processes that were started with that folder, or see it in their jail."""
    found = set(procs.mentioning(folder))
    for pid in procs.pids():
        try:
            with open("/proc/%d/mountinfo" % pid, errors="replace") as f:
                if folder + "/" in f.read() and procs.start_of(pid):
                    found.add(pid)
        except OSError:
            pass
    return found


def ended(messages):
    kinds = {m["msg_type"] for m in messages}
    idle = any(m["msg_type"] == "status" and m["content"]["execution_state"] == "idle" for m in messages)
    return "execute_reply" in kinds and idle


def kill_again_and_again(load, kills, longest):
    """Kills the gateway `kills` times, at moments that the seed chooses, at most 3 * longest seconds apart; the slowest
    start, in seconds."""
    slowest = 0
    for _ in range(kills):
        time.sleep(load.rng.random() * load.rng.choice([0.2, 1, 3]) * longest)
        load.gw.kill()
        begun = time.monotonic()
        load.gw.start(60)
        slowest = max(slowest, time.monotonic() - begun)
        if load.wrong:
            break
    return slowest


def report(load, kills, slowest):
    print("\n%d kills, slowest start %.2f s: %s" % (kills, slowest, json.dumps(load.counts)))

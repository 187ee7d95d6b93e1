"""A gateway process under test: started on a free port with its own state folder, and ended so that
nothing of it is left; what is left all the same is the test's failure."""
import os
import re
import shutil
import signal
import subprocess
import tempfile
import threading
import time

from harness import procs
from harness.client import Client

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
TOKEN = "test-token-0123456789abcdef"
READY = re.compile(r"cellkeep ready: (https?://([0-9.]+):(\d+)\S*)")


def binary():
    return os.path.join(ROOT, os.environ.get("CELLKEEP_BUILD", "build"), "cellkeep")


def sanitized():
    """True when the build under test has AddressSanitizer, which keeps freed memory for a while."""
    with open(binary(), "rb") as f:
        return b"__asan_init" in f.read()


def scratch(prefix="s"):
    """A new folder with a short path: unix sockets allow about 100 characters."""
    base = os.environ.get("CELLKEEP_TEST_TMP")
    d = tempfile.mkdtemp(prefix=prefix, dir=base)
    os.chmod(d, 0o755)
    return d


class NotReady(Exception):
    def __init__(self, code, stdout, stderr):
        super().__init__("cellkeep serve ended with %s: %s" % (code, stderr[-2000:]))
        self.code, self.stdout, self.stderr = code, stdout, stderr


class Gateway:
    def __init__(self, *options, state=None, env=None):
        self.state = state or scratch()
        self.own_state = state is None
        self.options = list(options)
        self.env = env or {}
        self.proc = None
        self.stderr_path = self.state.rstrip("/") + ".log"
        self.url = self.port = None
        self.seen = {}  # pid: start of everything that belonged to this gateway

    def command(self):
        return [binary(), "serve", "--host", "127.0.0.1", "--port", "0", "--state-dir", self.state, "--token", TOKEN,
                *self.options]

    def start(self, timeout=60):
        env = {"PATH": os.environ["PATH"], "HOME": os.environ.get("HOME", "/"), "HOST_SECRET": "host-secret-value",
               "ASAN_OPTIONS": "detect_leaks=1:abort_on_error=0", "UBSAN_OPTIONS": "print_stacktrace=1", **self.env}
        if "CELLKEEP_CACHE_DIR" in os.environ:
            env.setdefault("CELLKEEP_CACHE_DIR", os.environ["CELLKEEP_CACHE_DIR"])
        self.log = open(self.stderr_path, "ab")
        self.proc = subprocess.Popen(self.command(), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                     stderr=self.log, env=env)
        lines, ready = [], threading.Event()

        def read():
            for raw in self.proc.stdout:
                lines.append(raw.decode(errors="replace"))
                if READY.search(lines[-1]):
                    ready.set()
            ready.set()

        self.reader = threading.Thread(target=read, daemon=True)
        self.reader.start()
        if not ready.wait(timeout):
            self.proc.kill()
            self.proc.wait()
            raise NotReady("no ready line in %d s" % timeout, "".join(lines), self.stderr())
        found = READY.search("".join(lines))
        if not found:
            code = self.proc.wait(10)
            raise NotReady(code, "".join(lines), self.stderr())
        self.url, self.port = found.group(1), int(found.group(3))
        return self

    def stderr(self):
        with open(self.stderr_path, errors="replace") as f:
            return f.read()

    def client(self, **kw):
        return Client("127.0.0.1", self.port, TOKEN, **kw)

    @property
    def pid(self):
        return self.proc.pid

    def note_processes(self):
        """Remembers everything that belongs to this state folder, to check later that it is gone."""
        found = procs.descendants(set(procs.mentioning(self.state)) | ({self.pid} if self.proc else set()))
        self.seen.update({p: s for p in found if (s := procs.start_of(p))})
        return self.seen

    def bridge_pid(self, sid):
        import json
        with open(os.path.join(self.state, "sessions", sid, "bridge.json")) as f:
            return json.load(f)["pid"]

    def qemu_pid(self, sid):
        """The QEMU of a session: the child of its bridge whose command line has a -netdev."""
        for p in procs.descendants({self.bridge_pid(sid)}):
            if "-netdev" in procs.cmdline(p):
                return p
        raise AssertionError("no QEMU under the bridge of " + sid)

    def kill(self):
        """As a crash would: nothing is told to anyone."""
        self.note_processes()
        self.proc.kill()
        self.proc.wait()
        self.reader.join(5)
        self.log.close()

    def stop(self, timeout=30):
        """SIGTERM; returns the exit code."""
        self.note_processes()
        self.proc.send_signal(signal.SIGTERM)
        try:
            code = self.proc.wait(timeout)
        except subprocess.TimeoutExpired:
            self.proc.kill()
            self.proc.wait()
            code = "killed: no end %d s after SIGTERM" % timeout
        self.reader.join(5)
        self.log.close()
        return code

    def leftovers(self, seconds=5):
        return {p: procs.cmdline(p) for p in procs.wait_gone(self.seen, seconds)}

    def end(self):
        """Always safe to call: ends what still runs and removes the state folder."""
        if self.proc and self.proc.poll() is None:
            self.kill()
        from harness.sweep import owned
        left = {**owned(self.state), **{p: s for p, s in self.seen.items() if procs.start_of(p) == s}}
        for pid, start in left.items():
            procs.kill(pid, start)
        procs.wait_gone(left, 5)
        if self.own_state:
            shutil.rmtree(self.state, ignore_errors=True)

    def sanitizer_reports(self):
        """What ASan or UBSan said, in the gateway's log and in those of its bridges."""
        texts = [self.stderr()]
        for root, _d, files in os.walk(self.state):
            for name in files:
                if name.endswith(".log"):
                    with open(os.path.join(root, name), errors="replace") as f:
                        texts.append(f.read())
        return [line for t in texts for line in t.splitlines()
                if "ERROR: AddressSanitizer" in line or "runtime error:" in line or "ERROR: LeakSanitizer: det" in line]

    def __enter__(self):
        return self.start()

    def __exit__(self, *exc):
        self.end()


def wait_for(what, seconds, check, every=0.05):
    """Polls until check() is true; its value, or an AssertionError that says what was missing."""
    end = time.monotonic() + seconds
    while True:
        value = check()
        if value:
            return value
        if time.monotonic() > end:
            raise AssertionError("not within %s s: %s" % (seconds, what))
        time.sleep(every)

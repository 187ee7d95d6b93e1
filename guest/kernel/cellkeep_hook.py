"""The kernel of a cellkeep guest: ipykernel with thirteen changes.

* It can be *personalised*: a control request gives a clone its own key, identity and randomness.
* It survives being restored from a snapshot: what it published into the connection that is no more is
  published again to the one that is there now.
* Output is lossless and bounded: the publishing socket never drops, and who prints faster than the
  bridge reads waits (after a few MiB) instead of filling the guest's memory.
* Messages reach the publishing thread without a second event loop in between (fewer thread
  switches for every cell), and a flush waits for nothing.
* What child processes and C libraries write to descriptors 1 and 2 arrives within its cell, is
  decoded across chunk borders, and does not get lost when it is not UTF-8.
* What a thread prints belongs to the last cell, and not to the last question of a client (a completion,
  say), where nobody looks for it.
* An interrupt reaches a cell that awaits at once, and not when what it awaits comes.
* An interrupt is raised only where the answer to it is made: whenever it comes, a cell is answered.
* What was printed before a question of `input()` is sent before it.
* A kernel that was told to leave (`exit`, `quit`, a stopped loop) begins nothing any more, and says so
  with its exit code: what it had been given meanwhile can be given to the next one.
* A cell may do to sys.stdout and sys.stderr what it likes: it ends all the same.
* A traceback through a long file of a library does not wait until all of that file is parsed.
* History lives in memory; no connection file is written; completion does without jedi.

Runs as the guest's user. Holds no secret but the kernel's own message key.
"""

import codecs
import collections
import contextlib
import inspect
import os
import queue
import random
import select
import signal
import sys
import threading
import time
import uuid

import zmq
from executing import Source
from ipykernel import iostream
from ipykernel.ipkernel import IPythonKernel
from ipykernel.kernelapp import IPKernelApp
from jupyter_client.session import extract_header, new_id
from tornado import ioloop
from traitlets import Float
from traitlets.config import Config

PORTS = {"shell_port": 5555, "iopub_port": 5556, "stdin_port": 5557, "control_port": 5558, "hb_port": 5559}

CHUNK = 256 * 1024  # characters of one stream message
PENDING_MAX = 8 * 1024 * 1024  # bytes waiting for the publishing thread
SOCKET_MESSAGES = 64  # messages waiting in the socket
FLUSH_INTERVAL = 0.1  # seconds until a print without a flush is published

RECENT_MAX = 8 * 1024 * 1024  # bytes of published messages that are kept for a restore
RECENT_MESSAGES = 512
NEW_HOST_SECONDS = 20  # until the host that restored this kernel must listen
DELIMITER = b"<IDS|MSG>"
LEFT = 79  # exit code of a kernel that ended between two cells; PROTOCOL.md section 1
LONG_SOURCE = 1000  # lines
SETTLE_SECONDS = 1  # at most, for what was printed before a question
INTERRUPTED = {"status": "error", "ename": "KeyboardInterrupt", "evalue": "", "traceback": []}
RUNS_CODE = {"execute_request", "comm_open", "comm_msg", "comm_close", "apply_request"}


def stir(seed):
    """What no user ever seeds, for the security of connections: never the same twice, in any clone."""
    ssl = sys.modules.get("ssl")
    if ssl is not None:
        ssl.RAND_add(seed, len(seed))


def reseed(seed):
    """Makes every generator that libraries share start from `seed` (bytes) instead of the snapshot's state."""
    stir(seed)
    random.seed(seed)
    stretched = random.Random(seed)
    numpy_random = sys.modules.get("numpy.random")
    if numpy_random is not None:
        numpy_random.seed([stretched.getrandbits(32) for _ in range(16)])
    uuid._node = stretched.getrandbits(47) | (1 << 40)  # a random node: the multicast bit says so
    uuid._last_timestamp = None
    uuid._generate_time_safe = None  # libuuid would take the card's address, which all clones share
    tempfile = sys.modules.get("tempfile")
    if tempfile is not None:
        tempfile._name_sequence = None


def leave_long_sources_unparsed():
    """A traceback shows a few lines of each file, for which IPython's libraries parse and walk all of it: 25,000 lines for a
    wrong column of a pandas table, 17 s under emulation and 25 MB. What cannot be parsed they show by lines; so a long
    file is to them. Cells are short, and shown as ever."""
    parse = Source.__init__

    def init(self, filename, lines):
        long = len(lines) > LONG_SOURCE
        parse(self, filename, ["\0"] if long else lines)
        if long:
            self.text = "".join(lines)
            self.lines = [line.rstrip("\r\n") for line in lines]

    Source.__init__ = init


def new_authkey():
    """Not for a kernel with a past: children that run already know the old one."""
    process = sys.modules.get("multiprocessing.process")
    if process is not None:
        process.current_process().authkey = os.urandom(32)


class Publisher(iostream.IOPubThread):
    """Sends what the kernel publishes, from a thread of its own.

    Everything goes through one queue, in order: messages, and functions to run in the thread. At most
    PENDING_MAX bytes wait in it; producers then wait too, except for the threads named in `hasty`.

    A kernel that is restored from a snapshot goes on at once, into connections that exist no more. So the
    latest messages are kept, and `catch_up` sends again what the new host does not have.
    """

    def __init__(self, socket, sign):
        self.socket = socket
        self._sign = sign
        self._recent = collections.deque()  # (parts, bytes) of what was sent
        self._recent_bytes = 0
        self._sign_until = 0.0  # until then, what is sent may carry a signature of the key before
        self.background_socket = iostream.BackgroundSocket(self)
        self.hasty = set()
        self._queue = queue.SimpleQueue()
        self._room = threading.Condition()
        self._pending = 0
        self._due = {}  # stream -> when to flush it; touched by the thread alone
        self._forked = False
        os.register_at_fork(after_in_child=self._after_fork)
        self.thread = threading.Thread(target=self._main, name="IOPub", daemon=True)
        self.thread.pydev_do_not_trace = True
        self.thread.is_pydev_daemon_thread = True

    def _after_fork(self):
        self._forked = True

    def start(self):
        self.thread.start()
        self.hasty.add(self.thread.ident)

    def stop(self):
        if self.thread.is_alive() and not self._forked:
            self._queue.put(None)
            self.thread.join(5)

    def schedule(self, f):
        if self.thread.is_alive() and not self._forked:
            self._queue.put(f)
        else:
            f()

    def flush_later(self, stream):
        def note():
            self._due.setdefault(stream, time.monotonic() + FLUSH_INTERVAL)

        self._queue.put(note)

    def wait_for_room(self):
        if self._pending < PENDING_MAX or threading.get_ident() in self.hasty:
            return
        with self._room:
            while self._pending >= PENDING_MAX and self.thread.is_alive():
                self._room.wait(1)

    def enqueue(self, parts, copy=True):
        size = sum(p.nbytes if isinstance(p, memoryview) else len(p) for p in parts)
        with self._room:
            self._pending += size
        self._queue.put((parts, copy, size))

    def send_multipart(self, parts, flags=0, copy=True, track=False):
        if self._forked:
            return  # a fork has no thread; its prints go through descriptor 1
        self.wait_for_room()
        self.enqueue(parts, copy)

    def _timeout(self):
        return max(0.0, min(self._due.values()) - time.monotonic()) if self._due else None

    def _flush_due(self):
        now = time.monotonic()
        for stream in [s for s, due in self._due.items() if due <= now]:
            del self._due[stream]
            stream._publish()

    def _send(self, parts, copy, size):
        try:
            if self._sign_until and self.socket is not None:
                parts = self._signed_again(parts)
                if time.monotonic() > self._sign_until:
                    self._sign_until = 0.0
            if self.socket is not None:
                self.socket.send_multipart(parts, copy=copy)
            self._remember(parts, size)
        finally:
            with self._room:
                self._pending -= size
                self._room.notify_all()

    # --- after a restore --------------------------------------------------------------------------

    def _remember(self, parts, size):
        self._recent.append((parts, size))
        self._recent_bytes += size
        while self._recent and (self._recent_bytes > RECENT_MAX or len(self._recent) > RECENT_MESSAGES):
            self._recent_bytes -= self._recent.popleft()[1]

    def _signed_again(self, parts):
        at = parts.index(DELIMITER)
        return [*parts[: at + 1], self._sign(parts[at + 2 : at + 6]), *parts[at + 2 :]]

    def _after(self, seen):
        """What was sent after the message with that id; all there is when that is so long ago that it is gone."""
        if not seen:
            return []
        kept = [parts for parts, _ in self._recent]
        quoted = b'"%s"' % seen  # one id may begin another
        for i in range(len(kept) - 1, -1, -1):
            if quoted in bytes(kept[i][kept[i].index(DELIMITER) + 2]):
                return kept[i + 1 :]
        return kept

    def _wait_for_host(self, topic):
        """The new host subscribes to a topic that only it knows: then it hears everything."""
        end = time.monotonic() + NEW_HOST_SECONDS
        while (left := end - time.monotonic()) > 0:
            if self.socket.poll(max(1, int(left * 1000))) and self.socket.recv() == b"\x01" + topic:
                return

    def catch_up(self, topic, seen):
        """Called by the control thread before it changes the key: what was published until now carries the old
        signature, which nobody believes any more. What comes later waits in the queue. Returns what is to be called
        when the key has changed."""
        changed = threading.Event()

        def again():
            changed.wait(NEW_HOST_SECONDS)
            self._wait_for_host(topic)
            self._sign_until = time.monotonic() + 5
            for parts in self._after(seen):
                self.socket.send_multipart(self._signed_again(parts))

        self.schedule(again)
        return changed.set

    def settle(self, seconds):
        """Waits until what was enqueued before is in the socket; a host that does not read must not hold up the caller."""
        if self.thread.is_alive() and not self._forked:
            sent = threading.Event()
            self._queue.put(sent.set)
            sent.wait(seconds)

    def _main(self):
        while True:
            try:
                item = self._queue.get(timeout=self._timeout())
            except queue.Empty:
                self._flush_due()
                continue
            if item is None:
                return
            try:
                if callable(item):
                    item()
                else:
                    self._send(*item)
                if self._due:
                    self._flush_due()
            except Exception:  # one bad message must not silence the kernel
                continue


class _Direct:
    """Lets Session.send enqueue without waiting (the caller has waited, and holds a lock now)."""

    def __init__(self, publisher):
        self.send_multipart = lambda parts, copy=True, track=False: publisher.enqueue(parts, copy)


class OutStream(iostream.OutStream):
    """sys.stdout or sys.stderr of the kernel, and the matching descriptor."""

    def __init__(self, session, pub_thread, name, pipe=None, echo=None, *, watchfd=True, isatty=False):
        self.session = session
        self.pub_thread = pub_thread
        self.name = name
        self.topic = b"stream." + name.encode()
        self.parent_header = {}
        self.echo = None
        self._exc = None
        self._isatty = bool(isatty)
        self._direct = _Direct(pub_thread)
        self._publish_lock = threading.RLock()  # one message at a time, in order
        self._parts = collections.deque()
        self._append = self._parts.append
        self._size = 0  # characters in _parts, about
        self._announced = False  # the publishing thread will flush soon
        self._forked = False
        os.register_at_fork(after_in_child=self._after_fork)
        self._fd = {"stdout": 1, "stderr": 2}[name]
        self._fd_lock = threading.RLock()
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._watch()

    # --- the descriptor ---------------------------------------------------------------------------

    def _watch(self):
        self._read_end, write_end = os.pipe()
        os.set_blocking(self._read_end, False)
        self._original_stdstream_copy = os.dup(self._fd)
        os.dup2(write_end, self._fd, inheritable=True)
        os.close(write_end)
        self.watch_fd_thread = threading.Thread(target=self._watch_main, name="watch-" + self.name, daemon=True)
        self.watch_fd_thread.pydev_do_not_trace = True
        self.watch_fd_thread.is_pydev_daemon_thread = True
        self.watch_fd_thread.start()

    def _watch_main(self):
        poll = select.poll()
        poll.register(self._read_end, select.POLLIN)
        while True:
            try:
                poll.poll()
                if not self._drain():
                    return
            except Exception:
                time.sleep(0.1)

    def _drain(self):
        """Passes on what is in the pipe now. False at its end."""
        with self._fd_lock:
            for _ in range(64):  # bounded: the kernel's thread must get back to its cell
                try:
                    data = os.read(self._read_end, 65536)
                except BlockingIOError:
                    return True
                if not data:
                    return False
                self.write(self._decoder.decode(data))
        return True

    def _after_fork(self):
        self._forked = True

    def fileno(self):
        return self._fd

    def isatty(self):
        return self._isatty

    # --- the text stream --------------------------------------------------------------------------

    def set_parent(self, parent):
        self.flush()  # what is waiting belongs to the cell before
        self.parent_header = extract_header(parent)

    # Called several times for every print, so: no lock, no system call. The deque's own operations are
    # atomic; the size and the two flags may be off by a race, which shifts a flush and loses nothing.

    def write(self, string):
        if not isinstance(string, str):
            raise TypeError(f"write() argument must be str, not {type(string)}")
        if self._forked or self.pub_thread is None or len(string) > CHUNK:
            return self._write_rarely(string)
        self._append(string)
        self._size += len(string)
        if self._size >= CHUNK:
            self._publish()
        elif not self._announced:
            self._announced = True
            self.pub_thread.flush_later(self)
        return len(string)

    def _write_rarely(self, string):
        if self.pub_thread is None:
            raise ValueError("I/O operation on closed file")
        if self._forked:
            os.write(self._fd, string.encode("utf-8", "replace"))  # the parent watches the other end
        else:
            for at in range(0, len(string), CHUNK):  # slice by slice, so that only one is in memory
                self.write(string[at : at + CHUNK])
        return len(string)

    def _take(self):
        """About CHUNK characters of what waits, as one string."""
        taken, size = [], 0
        while size < CHUNK and self._parts:
            try:
                piece = self._parts.popleft()
            except IndexError:
                break
            taken.append(piece)
            size += len(piece)
        self._size = max(0, self._size - size)
        return "".join(taken)

    def _publish(self):
        self._announced = False
        while self._parts and self.pub_thread is not None:
            self.pub_thread.wait_for_room()
            with self._publish_lock:
                text = self._take()
                if not text:
                    continue
                if not text.isascii():  # a lone surrogate must not take the rest of the output with it
                    text = text.encode("utf-8", "replace").decode("utf-8")
                self.session.send(
                    self._direct,
                    "stream",
                    content={"name": self.name, "text": text},
                    parent=self.parent_header,
                    ident=self.topic,
                )

    def flush(self):
        if self._forked or self.pub_thread is None:
            return
        if threading.current_thread() is not self.watch_fd_thread:
            self._drain()
        self._publish()

    def close(self):
        self.pub_thread = None

    @property
    def closed(self):
        return self.pub_thread is None


class Kernel(IPythonKernel):
    _execute_sleep = Float(0.0)  # output is enqueued before the reply, so there is nothing to wait for

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self._own_streams = {"stdout": sys.stdout, "stderr": sys.stderr}
        for owner, name in ((self.shell.displayhook, "finish_displayhook"), (self.shell, "_showtraceback")):
            setattr(owner, name, self._mended_before(getattr(owner, name)))
        self._serving = 0  # messages of the shell channel that have begun and not ended
        self._interrupted = False  # a SIGINT came where it could not be raised
        for kind, handler in self.shell_handlers.items():
            if kind != "execute_request":  # that one is interruptible in do_execute: its input is published before
                self.shell_handlers[kind] = self._interruptible_handler(handler)
        self.control_handlers["cellkeep_personalise"] = self.cellkeep_personalise

    def set_parent(self, ident, parent, channel="shell"):
        """A question is no cell: what a thread prints after it still belongs to the cell before."""
        if parent["header"]["msg_type"] in RUNS_CODE:
            super().set_parent(ident, parent, channel)
        else:
            super(IPythonKernel, self).set_parent(ident, parent, channel)

    async def do_execute(self, *args, **kwargs):
        def begin():
            if self._interrupted:
                raise KeyboardInterrupt
            return super(Kernel, self).do_execute(*args, **kwargs)

        try:
            reply = await self._interruptible(begin)
            if reply is None:
                self.shell.showtraceback((KeyboardInterrupt, KeyboardInterrupt(), None))
                reply = {
                    **INTERRUPTED,
                    "traceback": self.shell._last_traceback or [],
                    "execution_count": self.execution_count,
                    "user_expressions": {},
                    "payload": [],
                }
            return reply
        finally:
            self._mend_streams()

    # --- interrupts -------------------------------------------------------------------------------

    # ipykernel lets a SIGINT raise anywhere in its own code too, also where it takes the answer with it, and ignores it
    # for a moment after it has said "busy". Here one handler serves from before "busy" until after the answer.

    def pre_handler_hook(self):
        pass

    def post_handler_hook(self):
        pass

    def _on_sigint(self, _, frame):
        here = Kernel._inside.__code__
        while frame is not None:
            if frame.f_code is here:
                raise KeyboardInterrupt
            frame = frame.f_back
        self._interrupted = True

    async def _inside(self, work):
        """While this is on the stack, SIGINT raises; its caller alone may catch it."""
        result = work()
        return await result if inspect.isawaitable(result) else result

    async def _interruptible(self, work):
        """What `work()` returns, or is awaited to return; None when an interrupt ended it."""
        try:
            return await self._inside(work)
        except KeyboardInterrupt:
            return None

    def _interruptible_handler(self, handler):
        async def call(stream, ident, parent):
            ended = False

            async def work():
                nonlocal ended
                done = handler(stream, ident, parent)
                if inspect.isawaitable(done):
                    await done
                ended = True

            await self._interruptible(work)
            kind = parent["header"]["msg_type"]
            if not ended and kind.endswith("_request"):
                self.session.send(stream, kind[: -len("request")] + "reply", INTERRUPTED, parent, ident=ident)

        return call

    def _input_request(self, *args, **kwargs):
        sys.stderr.flush()
        sys.stdout.flush()
        self.iopub_thread.settle(SETTLE_SECONDS)  # another socket: nothing else keeps the order
        return super()._input_request(*args, **kwargs)

    # --- what a cell did to its streams -----------------------------------------------------------

    def _mended_before(self, method):
        def call(*args, **kwargs):
            self._mend_streams()
            return method(*args, **kwargs)

        return call

    def _mend_streams(self):
        """ipykernel flushes both before it tells a result, an error, and that a cell has ended, and would do none of it
        when the cell put None there, or something without a flush that works. What was closed is open again."""
        for name, own in self._own_streams.items():
            if own.closed:
                own.pub_thread = self.iopub_thread
            try:
                getattr(sys, name).flush()
            except Exception:
                setattr(sys, name, own)

    def left_between_cells(self):
        return not self._serving

    async def dispatch_shell(self, msg):
        """A kernel that leaves goes on for a moment, a tenth of a second after `exit`: what began then would be cut off,
        or would run among variables that are lost right after it."""
        if self.shell.exit_now or getattr(self.io_loop.asyncio_loop, "_stopping", False):
            return
        self._serving += 1
        self._interrupted = False
        before = signal.signal(signal.SIGINT, self._on_sigint)
        try:
            await super().dispatch_shell(msg)
        finally:
            signal.signal(signal.SIGINT, before)
            self._serving -= 1

    @contextlib.contextmanager
    def _cancel_on_sigint(self, future):
        """For a cell with `await` in it. ipykernel's own cancels from within the signal's handler, which does not wake
        the loop that waits, and has no effect on code that does not come back to the loop."""
        loop, user = future.get_loop(), self.shell.user_global_ns
        run_code = type(self.shell).run_code.__code__

        def interrupt(_, frame):
            inner = None
            while frame is not None and frame.f_code is not run_code:
                inner, frame = frame, frame.f_back
            if frame is not None and inner is not None and inner.f_globals is user:
                raise KeyboardInterrupt  # into the cell, whose errors IPython catches; anywhere else it ends the loop
            loop.call_soon_threadsafe(future.cancel)  # never before the cell's first step: that was scheduled earlier

        before = signal.signal(signal.SIGINT, interrupt)
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, before)

    async def _flush_control_queue(self):
        """ipykernel asks the control thread for a sign of life before every shell message; its answer was never
        waited for."""

    def _abort_queues(self):
        """After an error with stop_on_error: what waits now is aborted. ipykernel takes a turn of its loop longer, and
        aborts what a client sends when it has seen the error (seen with JupyterLab's library)."""

        async def stop_aborting():
            self._aborting = False

        self._aborting = True
        self.shell_stream.flush()
        self.schedule_dispatch(stop_aborting)

    async def cellkeep_personalise(self, stream, ident, parent):
        """Makes a clone its own: answers signed with the new key, or an error with nothing changed.

        `mode` says what it is a clone of: "fresh" of a template, "fork" of another session, "resume" of this
        very session, whose user's generators and clients must notice nothing.
        """
        key_changed = None
        try:
            content = parent["content"]
            key = content["key"].encode("ascii")
            seed = bytes.fromhex(content["seed"])
            mode = content.get("mode", "fresh")
            env = dict(content.get("env") or {})
            cwd = content.get("cwd")
            topic, seen = content.get("topic", "").encode("ascii"), content.get("seen", "").encode("utf-8")
            if not key or len(seed) < 16 or not all(isinstance(v, str) for v in env.values()):
                raise ValueError("key, at least 16 bytes of seed, and text in env are wanted")
            if mode not in ("fresh", "fork", "resume") or (mode != "fresh" and not topic):
                raise ValueError("mode must be fresh, fork or resume, the latter two with a topic")
            if topic:
                key_changed = self.iopub_thread.catch_up(topic, seen)
            if cwd:
                os.chdir(cwd)
            os.environ.update(env)
            if mode == "resume":
                stir(seed)
            else:
                reseed(seed)
                self.ident = str(uuid.uuid4())
                self.shell.displayhook.topic = self._topic("execute_result")
                self.session.session = new_id()
            if mode == "fresh":
                new_authkey()
            self.session.digest_history.clear()
            self.session.key = key
            reply = {"status": "ok"}
        except Exception as e:
            reply = {"status": "error", "ename": type(e).__name__, "evalue": str(e), "traceback": []}
        if key_changed:
            key_changed()
        self.session.send(stream, "cellkeep_personalise_reply", reply, parent, ident=ident)


class KernelApp(IPKernelApp):
    kernel_class = Kernel
    outstream_class = "cellkeep_hook.OutStream"

    def init_connection_file(self):
        """The agent names the key; nobody else connects."""

    def write_connection_file(self):
        pass

    def log_connection_info(self):
        self._ports = {"shell": 5555, "iopub": 5556, "stdin": 5557, "control": 5558, "hb": 5559}

    def init_iopub(self, context):
        self.iopub_socket = context.socket(zmq.XPUB)  # a PUB that hears of subscriptions
        self.iopub_socket.linger = 1000
        self.iopub_socket.setsockopt(zmq.XPUB_NODROP, 1)
        self.iopub_socket.sndhwm = SOCKET_MESSAGES
        self.iopub_port = self._bind_socket(self.iopub_socket, self.iopub_port)
        self.configure_tornado_logger()
        self.iopub_thread = Publisher(self.iopub_socket, self.session.sign)
        self.iopub_thread.start()
        self.iopub_socket = self.iopub_thread.background_socket

    def init_kernel(self):
        super().init_kernel()
        # a control message must get through while the output waits
        self.iopub_thread.hasty.add(self.control_thread.ident)

    def start_and_tell(self, ready):
        """Returns the code to exit with."""
        self.kernel.start()
        self.io_loop = ioloop.IOLoop.current()
        self.io_loop.add_callback(ready)
        try:
            self.io_loop.start()
        except KeyboardInterrupt:
            pass
        return LEFT if self.kernel.left_between_cells() else 0


def make_app(key):
    """An initialised application: its sockets are bound, nothing is served yet."""
    config = Config()
    config.HistoryManager.hist_file = ":memory:"
    config.IPCompleter.use_jedi = False
    app = KernelApp.instance(config=config, ip="0.0.0.0", transport="tcp", **PORTS)
    app.matplotlib = "inline"
    app.session.key = key.encode("utf-8")
    app.initialize(argv=[])
    leave_long_sources_unparsed()
    return app

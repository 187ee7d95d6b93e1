"""The fake kernel: the Jupyter wire protocol with a tiny command language instead of Python.

A cell is lines of `word[:arg[:arg]]`, run one after the other; see COMMANDS at the end. A text that
is no command is echoed as an execute_result. Every kind of trouble that a real kernel, or a hostile
guest in its place, can make has a word.
"""
import hashlib
import hmac
import json
import os
import re
import threading
import time
import urllib.parse
import uuid

import zmq

DELIM = b"<IDS|MSG>"
ENVIRONMENT = re.compile(r"environ\.update\(\{(.*?),?\}\)", re.S)
PNG = bytes.fromhex("89504e470d0a1a0a0000000d4948445200000001000000010802000000907753de0000000c49444154789c63f8cfc0000003010100"
                    "18dd8db00000000049454e44ae426082")


class Interrupted(Exception):
    pass


class Died(Exception):
    pass


class Failed(Exception):
    def __init__(self, ename, evalue):
        self.ename, self.evalue = ename, evalue


class Kernel:
    pids = iter(range(100, 1 << 30))

    def __init__(self, machine, ports, key):
        self.machine, self.ports, self.key = machine, ports, key
        self.pid = next(self.pids)
        self.session = uuid.uuid4().hex
        self.count = 0
        self.vars = {}
        self.dead = False
        self.returns = False                  # from a layer: says nothing before it is personalised
        self.signalled = threading.Event()    # SIGINT or an interrupt_request
        self.ignores = set()                  # "message", "signal": interrupts that this cell ignores
        self.late = 0                         # seconds until an interrupt_request is served
        self.parent = {}
        self.cell_ids = [b""]                 # routing identity of the running request
        self.iopub_lock = threading.Lock()
        self.mute = False                     # nothing on iopub any more
        self.lag = 0                          # seconds that everything on iopub is on its way
        self.leaves = None                    # exit code: it begins nothing more, and ends when something comes
        self.slow_start = 0                   # seconds until a request is begun

    # --- a layer --------------------------------------------------------------------------------

    def frozen(self):
        return {"key": self.key.decode(), "session": self.session, "count": self.count, "vars": self.vars, "pid": self.pid}

    def thaw(self, past):
        self.key = past["key"].encode()
        self.session, self.count, self.vars, self.pid = past["session"], past["count"], past["vars"], past["pid"]
        Kernel.pids = iter(range(self.pid + 1, 1 << 30))
        self.returns = True

    # --- sockets -------------------------------------------------------------------------------

    def start(self):
        self.ctx = zmq.Context()
        self.socks = {}
        for name, guest, kind in (("shell", 5555, zmq.ROUTER), ("iopub", 5556, zmq.XPUB), ("stdin", 5557, zmq.ROUTER),
                                  ("control", 5558, zmq.ROUTER), ("hb", 5559, zmq.REP)):
            s = self.ctx.socket(kind)
            s.linger = 500
            s.sndhwm = 0
            s.setsockopt(zmq.ROUTER_HANDOVER, 1) if kind == zmq.ROUTER else None
            for _ in range(50):  # the ports of a kernel that just died may take a moment
                try:
                    s.bind("tcp://127.0.0.1:%d" % self.ports[guest])
                    break
                except zmq.ZMQError:
                    time.sleep(0.02)
            self.socks[name] = s
        for target in (self.shell_loop, self.control_loop, self.heartbeat):
            threading.Thread(target=target, daemon=True).start()
        if not self.returns:
            self.iopub("status", {"execution_state": "starting"}, parent={})

    def die(self, code=None, signum=None, oom=False):
        """The process is gone: sockets close, the agent tells."""
        if self.dead:
            return
        self.dead = True
        self.signalled.set()
        with self.iopub_lock:
            self.socks["iopub"].close(linger=500)
        push = {"ev": "kernel_exit", "pid": self.pid, "oom": oom, "peak_memory_bytes": 123456789}
        push.update({"code": code} if code is not None else {"signal": signum})
        threading.Thread(target=self.machine.agent.push, args=(push,), daemon=True).start()

    def sign(self, parts):
        mac = hmac.new(self.key, digestmod=hashlib.sha256)
        for p in parts:
            mac.update(p)
        return mac.hexdigest().encode()

    def message(self, mtype, content, parent, key=None):
        header = {"msg_id": uuid.uuid4().hex, "msg_type": mtype, "username": "user", "session": self.session,
                  "date": time.strftime("%Y-%m-%dT%H:%M:%S.000000Z", time.gmtime()), "version": "5.3"}
        return [json.dumps(p).encode() for p in (header, parent, {}, content)]

    def iopub(self, mtype, content, parent=None, buffers=()):
        parts = self.message(mtype, content, self.parent if parent is None else parent)
        self.iopub_raw([b"kernel." + mtype.encode(), DELIM, self.sign(parts), *parts, *buffers])

    def iopub_raw(self, frames):
        if self.lag:
            timer = threading.Timer(self.lag, self.publish, (frames,))
            timer.daemon = True
            timer.start()
        else:
            self.publish(frames)

    def publish(self, frames):
        with self.iopub_lock:
            if not self.dead and not self.mute:
                self.socks["iopub"].send_multipart(frames)

    def reply(self, channel, ids, mtype, content, parent):
        parts = self.message(mtype, content, parent)
        self.socks[channel].send_multipart([*ids, DELIM, self.sign(parts), *parts])

    def receive(self, channel):
        frames = self.socks[channel].recv_multipart()
        at = frames.index(DELIM) if DELIM in frames else -1
        if at < 0 or len(frames) < at + 6 or not hmac.compare_digest(self.sign(frames[at + 2:at + 6]), frames[at + 1]):
            return None
        header, _parent, _meta, content = (json.loads(p) for p in frames[at + 2:at + 6])
        return frames[:at], header, content, frames[at + 6:]

    def heartbeat(self):
        try:
            while not self.dead:
                if self.socks["hb"].poll(200):
                    self.socks["hb"].send(self.socks["hb"].recv())
        finally:
            self.socks["hb"].close()

    # --- control: answered while a cell runs -----------------------------------------------------

    def control_loop(self):
        sock = self.socks["control"]
        while not self.dead:
            if not sock.poll(100):
                continue
            got = self.receive("control")
            if not got:
                continue
            ids, header, content, _ = got
            if header["msg_type"] == "cellkeep_personalise":
                self.personalise(ids, header, content)
                continue
            self.iopub("status", {"execution_state": "busy"}, header)
            self.control_request(ids, header, content)
            self.iopub("status", {"execution_state": "idle"}, header)
        sock.close()

    def personalise(self, ids, header, content):
        if "personalise-kernel-fails" in self.machine.faults:
            self.reply("control", ids, "cellkeep_personalise_reply", {"status": "error"}, header)
            return
        self.key = content["key"].encode()
        if content.get("mode", "fresh") != "resume":
            self.session = uuid.uuid4().hex
        self.wait_for_host(content.get("topic"))
        self.reply("control", ids, "cellkeep_personalise_reply", {"status": "ok"}, header)

    def wait_for_host(self, topic):
        """The host that restored this kernel subscribes to a topic of its own: then it hears everything."""
        end = time.monotonic() + 10
        while topic and time.monotonic() < end:
            with self.iopub_lock:
                if self.socks["iopub"].poll(10) and self.socks["iopub"].recv() == b"\x01" + topic.encode():
                    return

    def control_request(self, ids, header, content):
        kind = header["msg_type"]
        if kind == "interrupt_request":
            time.sleep(self.late)
            self.interrupt("message")
            self.reply("control", ids, "interrupt_reply", {"status": "ok"}, header)
        elif kind == "shutdown_request":
            self.reply("control", ids, "shutdown_reply", {"status": "ok", **content}, header)
            self.iopub("shutdown_reply", {"status": "ok", **content}, header)
            time.sleep(0.05)
            self.die(code=0)
        else:
            self.other("control", ids, header, content, [])

    def interrupt(self, how):
        if how not in self.ignores:
            self.signalled.set()

    # --- shell: one request at a time ------------------------------------------------------------

    def shell_loop(self):
        sock = self.socks["shell"]
        while not self.dead:
            if not sock.poll(100):
                continue
            if not self.machine.running.is_set():
                time.sleep(0.02)
                continue
            got = self.receive("shell")
            if not got:
                continue
            ids, header, content, buffers = got
            begin = time.monotonic() + self.slow_start
            while not self.dead and time.monotonic() < begin:
                time.sleep(0.02)
            if self.dead:
                break
            if self.leaves is not None:
                self.die(code=self.leaves)
                break
            self.parent, self.cell_ids = header, ids
            self.iopub("status", {"execution_state": "busy"})
            idle = True
            try:
                if header["msg_type"] == "execute_request":
                    idle = self.execute(ids, header, content)
                else:
                    self.other("shell", ids, header, content, buffers)
            except Died:
                break
            if idle:
                self.iopub("status", {"execution_state": "idle"})
        sock.close()
        self.socks["stdin"].close()

    def other(self, channel, ids, header, content, buffers):
        kind = header["msg_type"]
        if kind == "comm_msg":
            self.iopub("comm_msg", {"comm_id": content.get("comm_id"), "data": content.get("data")}, header, buffers)
            return
        if not kind.endswith("_request"):
            return
        body = {"status": "ok"}
        if kind == "kernel_info_request":
            body.update(protocol_version="5.3", implementation="fake", implementation_version="1", banner="fake kernel",
                        language_info={"name": "python", "version": "3.11.2", "mimetype": "text/x-python",
                                       "file_extension": ".py"}, help_links=[])
        elif kind == "complete_request":
            body.update(matches=["fake_match"], cursor_start=0, cursor_end=content.get("cursor_pos", 0), metadata={})
        elif kind == "history_request":
            body.update(history=[])
        elif kind == "is_complete_request":
            body.update(status="complete")
        elif kind == "comm_info_request":
            body.update(comms={})
        elif kind == "inspect_request":
            body.update(found=False, data={}, metadata={})
        self.reply(channel, ids, kind.removesuffix("request") + "reply", body, header)

    def execute(self, ids, header, content):
        self.signalled.clear()
        self.ignores = set()
        silent = content.get("silent", False)
        self.silent_end = None
        if not silent:
            self.count += 1
            self.iopub("execute_input", {"code": content["code"], "execution_count": self.count})
        body = {"status": "ok", "execution_count": self.count, "payload": [], "user_expressions": {}}
        if silent and "environ.update" in content["code"]:  # the bridge gives a claimed kernel its environment
            self.machine.agent.kernel_env.update(json.loads("{%s}" % ENVIRONMENT.search(content["code"]).group(1)))
        try:
            for line in [] if silent else content["code"].splitlines():
                self.line(line, silent, content)
        except Interrupted:
            body = self.failed("KeyboardInterrupt", "")
        except Failed as e:
            body = self.failed(e.ename, e.evalue)
        if self.silent_end == "noreply":
            return True
        self.reply("shell", ids, "execute_reply", body, header)
        if (self.silent_end or "").startswith("late"):
            end = time.monotonic() + int(self.silent_end[4:]) / 1000
            while time.monotonic() < end:
                time.sleep(0.02)
                if self.dead:
                    raise Died()
        return self.silent_end != "noidle"

    def failed(self, ename, evalue):
        trace = ["\x1b[0;31m" + "-" * 20 + "\x1b[0m", "\x1b[0;31m%s\x1b[0m: %s" % (ename, evalue)]
        self.iopub("error", {"ename": ename, "evalue": evalue, "traceback": trace})
        return {"status": "error", "ename": ename, "evalue": evalue, "traceback": trace,
                "execution_count": self.count, "payload": [], "user_expressions": {}}

    def line(self, line, silent, content):
        word, *args = line.split(":", 2)
        command = COMMANDS.get(word)
        if command:
            command(self, *args)
        elif line.strip() and not silent:
            self.iopub("execute_result", {"data": {"text/plain": line}, "metadata": {}, "execution_count": self.count})
        if self.dead:
            raise Died()

    def wait(self, seconds):
        """Sleeps as Python does: an interrupt raises KeyboardInterrupt, a kill ends the process."""
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            if self.signalled.wait(min(left, 0.05)):
                self.signalled.clear()
                if self.dead:
                    raise Died()
                raise Interrupted()
            if self.dead:
                raise Died()

    def stream(self, text, name="stdout"):
        self.iopub("stream", {"name": name, "text": text})

    def ask(self, prompt, password=False):
        ids = self.cell_ids
        self.reply("stdin", ids, "input_request", {"prompt": prompt, "password": password}, self.parent)
        while not self.socks["stdin"].poll(50):
            self.wait(0)
            if self.signalled.is_set():
                self.signalled.clear()
                raise Died() if self.dead else Interrupted()
        got = self.receive("stdin")
        return got[2]["value"] if got else ""


# --- the command language --------------------------------------------------------------------------

def c_flood(k, n, size):
    text = "x" * (int(size) - 1) + "\n"
    for _ in range(int(n)):
        k.stream(text)
        if k.signalled.is_set():
            k.wait(0.001)


def c_count(k, n, ms):
    for i in range(int(n)):
        k.stream("%d\n" % i)
        k.wait(int(ms) / 1000)


def c_hang(k, *ignored):
    k.ignores = set(ignored[0].split("+")) if ignored else {"message", "signal"}
    k.wait(3600)


def c_deaf(k, ms):
    k.ignores = {"message", "signal"}
    k.wait(int(ms) / 1000)
    k.ignores = set()


def c_exit(k, code="1"):
    k.die(code=int(code))
    raise Died()


def c_signal(k, number, oom=""):
    k.die(signum=int(number), oom=oom == "oom")
    raise Died()


def c_bad_hmac(k, n="1"):
    for _ in range(int(n)):
        parts = k.message("stream", {"name": "stdout", "text": "forged\n"}, k.parent)
        k.iopub_raw([b"kernel.stream", DELIM, b"0" * 64, *parts])


def c_garbage(k):
    for frames in ([b""], [b"x"], [DELIM], [DELIM, b"sig"], [b"t", DELIM, b"a", b"b", b"c", b"d"], [os.urandom(4000)],
                   [DELIM] * 50, [b"t"] * 2000, [b"t", DELIM, b"0" * 64, b"{}", b"{}", b"{}", b"{}"] + [b"z"] * 3000):
        k.iopub_raw(frames)
    k.socks["shell"].send_multipart([*k.cell_ids, b"no delimiter", b"at all"])


def c_signed(k, what):
    """Correctly signed, wrong inside."""
    parts = k.message("stream", {"name": "stdout", "text": "t"}, k.parent)
    if what == "bad_json":
        parts[3] = b'{"name":"stdout","text":'
    elif what == "bad_utf8":
        parts[3] = b'{"name":"stdout","text":"caf\xe9 \xff\\n"}'
    elif what == "deep":
        parts[3] = b'{"name":' + b"[" * 100000 + b"]" * 100000 + b"}"
    elif what == "nan":
        parts[3] = b'{"name":"stdout","text":"x","n":NaN}'
    elif what == "array":
        parts[0] = b"[]"
    elif what == "types":
        parts[3] = b'{"name":7,"text":{"a":[]}}'
    elif what == "type_number":
        parts[0] = parts[0].replace(b'"stream"', b"17")
    elif what == "surrogate":
        parts[3] = b'{"name":"stdout","text":"\\ud800\\n"}'
    elif what == "long_type":
        parts[0] = parts[0].replace(b"stream", b"s" * 100000)
    elif what == "parent":
        parts[1] = b'{"msg_id":{"a":1},"session":7}'
    elif what == "fake_idle":  # an end for a cell that has not ended, by another parent
        parts = k.message("status", {"execution_state": "idle"}, {"msg_id": "nobody", "session": "x"})
    k.iopub_raw([b"kernel.stream", DELIM, k.sign(parts), *parts])


def c_mute(k, ms="0"):
    timer = threading.Timer(int(ms) / 1000, setattr, (k, "mute", True))
    timer.start()
    if ms == "0":
        timer.join()


def c_forge(k, what):
    """What user code may publish itself, being in the same process."""
    if what == "error":
        k.iopub("error", {"ename": 7, "evalue": ["x"], "traceback": "none"})
    elif what == "shown":  # an exception that was caught and shown
        k.iopub("error", {"ename": "ValueError", "evalue": "shown", "traceback": ["Traceback:", "ValueError: shown"]})
    elif what == "deep":  # deeper than the bridge takes
        deep = 1
        for _ in range(400):
            deep = [deep]
        k.iopub("display_data", {"data": {"application/json": deep, "text/plain": "shallow"}, "metadata": {},
                                 "transient": {}})
    elif what == "oversize":  # more than the bridge takes of a message
        k.iopub("display_data", {"data": {"text/plain": "x" * (108 << 20)}, "metadata": {}, "transient": {}})


def c_input(k, prompt, password=""):
    k.stream("got %s\n" % k.ask(prompt, password == "password"))


def c_touch(k, name, size="10"):
    name = urllib.parse.unquote(name, errors="surrogateescape")
    k.machine.agent.tree.put(name if name.startswith("/") else "/home/user/" + name, b"f" * int(size))


def c_touch_many(k, n):
    for i in range(int(n)):
        c_touch(k, "many/f%05d.txt" % i)


def c_display(k, mime, size):
    k.iopub("display_data", {"data": {mime: "d" * int(size), "text/plain": "<display>"}, "metadata": {}, "transient": {}})


def c_png(k):
    import base64
    k.iopub("display_data", {"data": {"image/png": base64.b64encode(PNG).decode() + "\n", "text/plain": "<Figure>"},
                             "metadata": {}, "transient": {}})


def c_big_png(k, width, height):
    import base64
    png = PNG[:16] + int(width).to_bytes(4, "big") + int(height).to_bytes(4, "big") + PNG[24:]
    k.iopub("display_data", {"data": {"image/png": base64.encodebytes(png).decode(), "text/plain": "<Figure>"},
                             "metadata": {}, "transient": {}})


def c_png_file(k, name):
    """The picture that `png` displays, as a file."""
    k.machine.agent.tree.put("/home/user/" + name, PNG)


def c_error(k, ename="ValueError", evalue="told to fail"):
    raise Failed(ename, evalue)


def c_get(k, name):
    if name not in k.vars:
        raise Failed("NameError", "name '%s' is not defined" % name)
    k.stream(k.vars[name] + "\n")


def c_end(how):
    def command(k):
        k.silent_end = how
    return command


COMMANDS = {
    "print": lambda k, *t: k.stream(":".join(t) + "\n"),              # print:TEXT
    "err": lambda k, *t: k.stream(":".join(t) + "\n", "stderr"),      # err:TEXT
    "flood": c_flood,                                                # flood:MESSAGES:BYTES of stdout
    "huge": lambda k, n: k.stream("h" * int(n)),                      # huge:BYTES in one message
    "count": c_count,                                                # count:N:MS  0..N-1, MS apart
    "late": lambda k, ms: setattr(k, "late", int(ms) / 1000),         # late:MS, each interrupt_request from now on
    "sleep": lambda k, ms: k.wait(int(ms) / 1000),                    # sleep:MS, an interrupt ends it
    "hang": c_hang,                                                  # hang[:message+signal] ignores these
    "deaf": c_deaf,                                                  # deaf:MS  ignores interrupts, then goes on
    "leave": lambda k, code="79": setattr(k, "leaves", int(code)),   # leave[:CODE]  with the next request, unbegun
    "die": c_exit, "exit": c_exit,                                   # exit:CODE of the kernel process
    "signal": c_signal,                                              # signal:NUMBER[:oom] ends the kernel
    "exit_qemu": lambda k, code="1": k.machine.exit(int(code)),      # the whole VM
    "bad_hmac": c_bad_hmac,                                          # bad_hmac:N forged messages
    "garbage": c_garbage,                                            # frames that are no messages
    "signed": c_signed,                                              # signed:WHAT see c_signed
    "input": c_input,                                                # input:PROMPT[:password]
    "error": c_error,                                                # error:ENAME:EVALUE
    "set": lambda k, name, value: k.vars.__setitem__(name, value),   # set:NAME:VALUE
    "get": c_get,                                                    # get:NAME
    "touch": c_touch,                                                # touch:NAME:SIZE
    "touch_many": c_touch_many,                                      # touch_many:N
    "display": c_display,                                            # display:MIME:BYTES
    "png": c_png,
    "bigpng": c_big_png,                                             # bigpng:WIDTH:HEIGHT  as the header says
    "pngfile": c_png_file,                                           # pngfile:NAME
    "mute": c_mute,                                                  # mute[:MS]  the publishing socket closes then
    "lag": lambda k, ms: setattr(k, "lag", int(ms) / 1000),          # lag:MS  of all on iopub from now on
    "slowstart": lambda k, ms: setattr(k, "slow_start", int(ms) / 1000),  # slowstart:MS  of all later cells
    "slownext": lambda k, ms, n="1": setattr(k.machine, "slow_kernels", [int(ms) / 1000] * int(n)),  # slownext:MS:N  the next N kernels
    "forge": c_forge,                                                # forge:WHAT see c_forge
    "lateidle": lambda k, ms: setattr(k, "silent_end", "late" + ms), # lateidle:MS after its reply
    "noreply": c_end("noreply"), "noidle": c_end("noidle"),          # the cell's end is not told in full
    "agent": lambda k, *what: k.machine.agent.misbehave(":".join(what)),  # agent:WHAT see agent.py
    "limits": lambda k: k.stream(json.dumps(k.machine.agent.limits) + "\n"),  # that the guest was given
    "env": lambda k, name: k.stream("%s\n" % k.machine.agent.kernel_env.get(name, "")),
    "pid": lambda k: k.stream("%d\n" % k.pid),
    "key": lambda k: k.stream("%s\n" % ("template" if k.key == b"template" else "personalised")),
}

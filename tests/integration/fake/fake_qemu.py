#!/usr/bin/python3 -sE
"""A scripted stand-in for QEMU, its guest agent and its kernel, for fault injection only.

It takes the command line that vmm/argv.c builds, speaks QMP on the inherited descriptor, and opens
on the hostfwd ports what the guest would: five kernel sockets and the agent. Cells are a tiny
command language (kernel.py). It runs no Python of a cell and isolates nothing: whatever must be true
of real VMs is tested in tests/vm.

What a layer brings back is what the guest knew: the variables, keys and files are its device state. A
page of its memory says which state it belongs to, so that a layer whose memory was not restored with
it is noticed. A cell that ran when it was frozen is not running afterwards.
"""
import json
import mmap
import os
import re
import sys
import threading
import uuid

from agent import Agent
import native
from kernel import Kernel
from qmp import Qmp

MARK_AT = 64 << 20  # in the memory
VERSION = "QEMU emulator version 7.2.99 (cellkeep fake)"


def options(argv):
    """[-name value] pairs; the flags that take no value are listed."""
    flags = {"-nodefaults", "-no-user-config", "-no-reboot", "-no-shutdown", "-S", "-nographic"}
    out, i = [], 1
    while i < len(argv):
        takes = argv[i] not in flags
        out.append((argv[i], argv[i + 1] if takes else ""))
        i += 2 if takes else 1
    return out


def find(opts, name, pattern):
    for key, value in opts:
        if key == name:
            m = re.search(pattern, value)
            if m:
                return m.group(1)
    return None


def ports(opts):
    table = {}
    for key, value in opts:
        if key == "-netdev":
            for host, guest in re.findall(r"hostfwd=tcp:127\.0\.0\.1:(\d+)-:(\d+)", value):
                table[int(guest)] = int(host)
    return table


class Machine:
    """What the parts share: the state of the machine and the ways to end it."""

    def __init__(self, opts):
        self.opts = opts
        self.ports = ports(opts)
        self.lock = threading.RLock()
        self.kernel = None
        self.agent = None
        self.running = threading.Event()
        self.frozen = bytes(4096)
        self.past = None  # of a layer, until the guest runs
        self.ram = self.map_ram()
        self.faults = set((find(opts, "-name", r"fault=(.*)") or "").split("+")) - {""}
        here = os.path.dirname(os.path.abspath(sys.argv[0]))
        try:  # faults for all VMs of an image: a file beside the executable, one word a line
            with open(os.path.join(here, "faults")) as f:
                self.faults |= set(f.read().split())
        except OSError:
            pass

    def map_ram(self):
        path = find(self.opts, "-object", r"memory-backend-file.*mem-path=(/proc/self/fd/\d+)")
        if not path:
            return None
        with open(path, "rb") as f:
            return mmap.mmap(f.fileno(), 0, flags=mmap.MAP_PRIVATE, prot=mmap.PROT_READ | mmap.PROT_WRITE)

    def freeze(self):
        """stop: the guest as bytes; its memory is marked as belonging to them."""
        if not self.kernel:
            return
        mark = uuid.uuid4().hex
        self.ram[MARK_AT:MARK_AT + len(mark)] = mark.encode()
        self.frozen = json.dumps({"mark": mark, "kernel": self.kernel.frozen(), "agent": self.agent.frozen()}).encode()

    def thaw(self, state):
        if state.strip(b"\0"):
            self.past = json.loads(state)

    def check_memory(self):
        if self.ram[MARK_AT:MARK_AT + 32].decode(errors="replace") != self.past["mark"]:
            print("fake_qemu: memory and state are not of one moment", file=sys.stderr)
            self.exit(1)

    def run_guest(self):
        """cont: the guest begins (or goes on)."""
        with self.lock:
            if self.ports and not self.agent:
                make = native.Native if os.path.exists(native.PATH) else Kernel
                self.kernel = make(self, self.ports, b"template")
                agent = native.NativeAgent if os.path.exists(native.AGENT_PATH) else Agent
                self.agent = agent(self, self.ports[5560])
                if self.past:
                    self.check_memory()
                    self.kernel.thaw(self.past["kernel"])
                    self.agent.thaw(self.past["agent"])
                self.agent.start()
                self.kernel.start()
            self.running.set()

    def exit(self, code):
        os._exit(code)

    def save_ram(self):
        """Template use: the memory file that QEMU would have filled."""
        path = find(self.opts, "-object", r"memory-backend-file.*mem-path=([^,]+)")
        size = find(self.opts, "-object", r"memory-backend-file.*size=(\d+)M")
        if path and not path.startswith("/proc/"):
            fd = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
            os.ftruncate(fd, int(size) << 20)
            os.pwrite(fd, b"fake memory", 4096)
            os.close(fd)


def boot(machine, console_fd):
    """Template and probe use: what the agent prints on the serial console (PROTOCOL.md section 4)."""
    append = dict(machine.opts).get("-append", "")

    def say(text):
        os.write(console_fd, (text + "\n").encode())

    say("[    0.000000] Linux version fake")
    if "boot-hangs" in machine.faults:
        return
    if "boot-dies" in machine.faults:
        say("Kernel panic - not syncing: fake")
        machine.exit(0)
    say("cellkeep-agent: hello")
    if "cellkeep.mode=probe" in append:
        machine.exit(0)
    say("cellkeep-agent: progress 50 half way")
    if "template-fails" in machine.faults:
        say("cellkeep-agent: failed the fake was told to")
        return
    machine.save_ram()
    say("cellkeep-agent: template-ready")


def main():
    if len(sys.argv) == 2 and sys.argv[1] in ("--version", "-version"):
        print(VERSION)
        return 0
    opts = options(sys.argv)
    qmp_fd = find(opts, "-chardev", r"id=qmp,fd=(\d+)")
    if qmp_fd is None:
        print("fake_qemu: no QMP descriptor on the command line", file=sys.stderr)
        return 1
    machine = Machine(opts)
    if "spawn-fails" in machine.faults:
        print("fake_qemu: told to fail", file=sys.stderr)
        return 1
    console = find(opts, "-chardev", r"id=console,fd=(\d+)")
    if console is not None and not any(k == "-S" for k, _ in opts):
        threading.Thread(target=boot, args=(machine, int(console)), daemon=True).start()
    Qmp(machine, int(qmp_fd), incoming=any(k == "-incoming" for k, _ in opts)).serve()
    return 0


if __name__ == "__main__":
    sys.exit(main())

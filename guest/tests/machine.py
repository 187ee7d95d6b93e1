"""One guest under QEMU without gateway, bridge or template, and its agent's protocol from Python.

For the tests of this folder and for trying things by hand:
    m = Machine(image, folder); m.boot(); m.agent.call("ping")
"""
import hashlib
import hmac
import json
import os
import re
import socket
import subprocess
import time
import uuid

import zmq

PORTS = range(5555, 5561)
BOOT_DEADLINE = 400


def free_ports(n):
    socks = [socket.socket() for _ in range(n)]
    for s in socks:
        s.bind(("127.0.0.1", 0))
    ports = [s.getsockname()[1] for s in socks]
    for s in socks:
        s.close()
    return ports


class Agent:
    """The bridge's end of PROTOCOL.md section 2."""

    def __init__(self, port, key=b"\0" * 32):
        self.sock = zmq.Context.instance().socket(zmq.DEALER)
        self.sock.linger = 0
        self.sock.connect(f"tcp://127.0.0.1:{port}")
        self.key, self.n, self.rid, self.pushes = key, 0, 0, []

    def send(self, op, payload=b"", **fields):
        self.rid += 1
        self.n += 1
        header = json.dumps({"op": op, "rid": self.rid, "n": self.n, **fields}).encode()
        self.sock.send_multipart([hmac.digest(self.key, header + payload, "sha256"), header, payload])
        return self.rid

    def receive(self, timeout):
        if not self.sock.poll(timeout * 1000):
            raise TimeoutError
        signature, header, payload = self.sock.recv_multipart()
        assert hmac.digest(self.key, header + payload, "sha256") == signature
        return json.loads(header), payload

    def call(self, op, payload=b"", timeout=60, **fields):
        """The answer's header; its payload, if any, under "payload"."""
        rid = self.send(op, payload, **fields)
        return self.answer(rid, timeout)

    def answer(self, rid, timeout=60):
        while True:
            header, payload = self.receive(timeout)
            if header.get("re") == rid:
                return {**header, "payload": payload}
            self.pushes.append((header, payload))

    def push(self, wanted, timeout=60):
        while True:
            for p in self.pushes:
                if wanted(p[0]):
                    self.pushes.remove(p)
                    return p
            self.pushes.append(self.receive(timeout))

    def personalise(self, hostname="guest-1"):
        key = os.urandom(32)
        rid = self.send("personalise", os.urandom(64), key=key.hex(), time_us=time.time_ns() // 1000,
                        hostname=hostname, machine_id=uuid.uuid4().hex)
        self.key, self.n = key, 0
        return self.answer(rid)

    def command(self, stdin=b"", **fields):
        """exit event, stdout, stderr."""
        answer = self.call("command", stdin, **fields)
        assert "pid" in answer, answer
        out = {"stdout": b"", "stderr": b""}
        while True:
            header, payload = self.push(lambda h: h.get("pid") == answer["pid"], 120)
            if header["ev"] == "exit":
                return header, out["stdout"], out["stderr"]
            out[header["stream"]] += payload

    def put(self, path, data):
        opened = self.call("write_open", path=path)
        if "error" in opened:
            return opened
        for at in range(0, len(data), 1 << 18):
            assert "error" not in self.call("write", data[at : at + (1 << 18)], handle=opened["handle"])
        return self.call("write_commit", handle=opened["handle"])


class Machine:
    def __init__(self, image, folder, memory_mb=512):
        self.image, self.folder, self.memory_mb = image, str(folder), memory_mb
        self.process = self.agent = None

    def _disk(self):
        raw, disk = f"{self.folder}/raw", f"{self.folder}/disk.qcow2"
        with open(raw, "wb") as f:
            f.truncate(1 << 30)
        subprocess.run(["mke2fs", "-q", "-t", "ext4", "-L", "cellkeep", raw], check=True)
        subprocess.run(["qemu-img", "convert", "-O", "qcow2", raw, disk], check=True)
        os.unlink(raw)
        return disk

    def _arguments(self, disk):
        khz = int(float(re.search(r"cpu MHz\s*: ([\d.]+)", open("/proc/cpuinfo").read()).group(1)) * 1000)
        self.ports = dict(zip(PORTS, free_ports(len(PORTS))))
        forwards = "".join(f",hostfwd=tcp:127.0.0.1:{host}-10.0.2.15:{guest}" for guest, host in self.ports.items())
        return [
            "qemu-system-x86_64", "-M", "microvm,acpi=on,rtc=on,pit=on,pic=on,isa-serial=on", "-accel", "tcg",
            "-cpu", "max", "-m", str(self.memory_mb), "-nodefaults", "-no-user-config", "-no-reboot",
            "-display", "none", "-serial", f"file:{self.folder}/console.log",
            "-kernel", f"{self.image}/vmlinuz", "-initrd", f"{self.image}/initrd", "-append",
            "console=ttyS0 panic=-1 mitigations=off tsc=reliable no_timer_check psi=0 cellkeep.mode=template"
            f" tsc_early_khz={khz} lpj={4 * khz}",
            "-drive", f"if=none,id=root,file={self.image}/root.erofs,format=raw,readonly=on",
            "-device", "virtio-blk-device,drive=root,serial=root",
            "-drive", f"if=none,id=disk,file={disk},format=qcow2",
            "-device", "virtio-blk-device,drive=disk,serial=disk",
            "-object", "rng-random,id=rng,filename=/dev/urandom", "-device", "virtio-rng-device,rng=rng",
            "-netdev", f"user,id=net,restrict=on,ipv6=off{forwards}", "-device", "virtio-net-device,netdev=net",
        ]

    def console(self):
        try:
            return open(f"{self.folder}/console.log", errors="replace").read()
        except FileNotFoundError:
            return ""

    def boot(self):
        self.process = subprocess.Popen(self._arguments(self._disk()), stdin=subprocess.DEVNULL)
        end = time.monotonic() + BOOT_DEADLINE
        while "cellkeep-agent: template-ready" not in self.console():
            if self.process.poll() is not None or time.monotonic() > end or "cellkeep-agent: failed" in self.console():
                raise RuntimeError("the guest did not boot:\n" + self.console()[-2000:])
            time.sleep(0.3)
        self.agent = Agent(self.ports[5560])

    def stop(self):
        if self.process:
            self.process.kill()
            self.process.wait()


def sha256(data):
    return hashlib.sha256(data).hexdigest()

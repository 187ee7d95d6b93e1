"""The QMP side of the fake: enough of the monitor for vmm/machine.c, in one blocking loop."""
import json
import os
import socket
import time


class Qmp:
    def __init__(self, machine, fd, incoming):
        self.machine = machine
        self.sock = socket.socket(fileno=fd)
        self.status = "inmigrate" if incoming else "running"
        self.fds = {}
        self.sets = {}
        self.migration = "none"

    def send(self, obj):
        self.sock.sendall(json.dumps(obj).encode() + b"\r\n")

    def event(self, name, data=None):
        now = time.time()
        stamp = {"seconds": int(now), "microseconds": int(now % 1 * 1e6)}
        self.send({"timestamp": stamp, "event": name, **({"data": data} if data else {})})

    def serve(self):
        if "qmp-silent" in self.machine.faults:
            time.sleep(3600)
        if "qmp-garbage" in self.machine.faults:
            self.sock.sendall(b"{]\xff\n" * 100)
        self.send({"QMP": {"version": {"qemu": {"micro": 99, "minor": 2, "major": 7}, "package": "cellkeep fake"},
                           "capabilities": ["oob"]}})
        buf, received = b"", []
        while True:
            while b"\n" in buf:
                line, buf = buf.split(b"\n", 1)
                if line.strip():
                    self.command(json.loads(line), received)
            data, fds, _, _ = socket.recv_fds(self.sock, 65536, 8)
            received += fds
            if not data:
                return  # the owner is gone: QEMU would live on, its parent-death signal would not let it
            buf += data

    def command(self, msg, received):
        name, args, ident = msg["execute"], msg.get("arguments") or {}, msg.get("id")
        extra = {} if ident is None else {"id": ident}
        handler = getattr(self, "do_" + name.replace("-", "_"), None)
        if handler is None:
            self.send({"error": {"class": "CommandNotFound", "desc": "The command %s has not been found" % name},
                       **extra})
            return
        try:
            result, after = handler(args, received)
        except Exception as e:  # as QEMU does: every failure is an answer
            self.send({"error": {"class": "GenericError", "desc": str(e)}, **extra})
            return
        self.send({"return": result, **extra})
        if after:
            after()

    def do_qmp_capabilities(self, args, received):
        return {}, None

    def do_migrate_set_capabilities(self, args, received):
        return {}, None

    do_migrate_set_parameters = do_migrate_set_capabilities
    do_trace_event_set_state = do_migrate_set_capabilities

    def do_query_status(self, args, received):
        return {"status": self.status, "singlestep": False, "running": self.status == "running"}, None

    def do_query_version(self, args, received):
        return {"qemu": {"micro": 99, "minor": 2, "major": 7}, "package": "cellkeep fake"}, None

    def do_getfd(self, args, received):
        self.fds[args["fdname"]] = received.pop(0)
        return {}, None

    def do_closefd(self, args, received):
        os.close(self.fds.pop(args["fdname"]))
        return {}, None

    def do_migrate_incoming(self, args, received):
        if self.status != "inmigrate":
            raise RuntimeError("no incoming migration is expected")
        fd = self.fds.pop(args["uri"].removeprefix("fd:"))
        state = b""
        while chunk := os.read(fd, 65536):
            state += chunk
        os.close(fd)

        def loaded():
            self.event("MIGRATION", {"status": "setup"})
            self.event("MIGRATION", {"status": "active"})
            good = state.startswith(b"fake state") and "restore-fails" not in self.machine.faults
            self.migration = "completed" if good else "failed"
            self.status = "paused" if good else "inmigrate"
            self.machine.thaw(state.removeprefix(b"fake state"))
            self.event("MIGRATION", {"status": self.migration})
            if not good:  # QEMU ends when an incoming migration fails
                self.machine.exit(1)

        return {}, loaded

    def do_query_migrate(self, args, received):
        return {"status": self.migration} if self.migration != "none" else {}, None

    def do_cont(self, args, received):
        self.status = "running"

        def resumed():
            self.event("RESUME")
            self.machine.run_guest()

        return {}, resumed

    def do_stop(self, args, received):
        was, self.status = self.status, "paused"
        self.machine.running.clear()
        self.machine.freeze()
        return {}, (lambda: self.event("STOP")) if was == "running" else None

    # --- layers: disks are only counted, the state is the guest's own -----------------------------

    def do_add_fd(self, args, received):
        fd = received.pop(0)
        self.sets.setdefault(args["fdset-id"], []).append(fd)
        return {"fdset-id": args["fdset-id"], "fd": fd}, None

    def do_remove_fd(self, args, received):
        for fd in self.sets.pop(args["fdset-id"]):
            os.close(fd)
        return {}, None

    def do_blockdev_add(self, args, received):
        return {}, None

    do_blockdev_del = do_blockdev_reopen = do_blockdev_snapshot = do_blockdev_add
    do_block_job_set_speed = do_blockdev_add

    def do_block_stream(self, args, received):
        data = {"type": "stream", "device": args["job-id"], "len": 0, "offset": 0, "speed": 0}
        return {}, lambda: self.event("BLOCK_JOB_COMPLETED", data)

    def do_block_job_cancel(self, args, received):
        raise RuntimeError("there is no such job")

    def do_xen_save_devices_state(self, args, received):
        if self.machine.kernel and "save-fails" in self.machine.faults:  # of a session, not of the template
            raise RuntimeError("told to fail")
        if self.machine.kernel and "save-dies" in self.machine.faults:
            self.machine.exit(1)
        state = b"fake state" + self.machine.frozen
        name = args["filename"].removeprefix("/dev/fdset/")
        if name.isdigit():
            for fd in self.sets[int(name)]:
                os.write(fd, state)
        else:
            with open(args["filename"], "wb") as f:
                f.write(state)
        return {}, None

    def do_ringbuf_read(self, args, received):
        return "fake console: the guest's last words\n", None

    def do_quit(self, args, received):
        if "quit-hangs" in self.machine.faults:
            time.sleep(3600)
        return {}, lambda: (self.event("SHUTDOWN", {"guest": False, "reason": "host-qmp-quit"}), self.machine.exit(0))

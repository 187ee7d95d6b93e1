"""Resident memory of gateway and bridge while something goes on."""
import threading

from harness import procs
from harness.gateway import sanitized

MB = 1 << 20
SLACK = 300 * MB if sanitized() else 0  # its quarantine counts as resident


class Memory:
    """Samples the resident memory of processes while something goes on."""

    def __init__(self, *pids):
        self.peak = {p: procs.rss_bytes(p) for p in pids}
        self.first = dict(self.peak)
        self.stop = threading.Event()
        self.thread = threading.Thread(target=self.run)

    def run(self):
        while not self.stop.wait(0.02):
            for p in self.peak:
                self.peak[p] = max(self.peak[p], procs.rss_bytes(p))

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *exc):
        self.stop.set()
        self.thread.join()

    def growth(self, pid):
        return self.peak[pid] - self.first[pid]

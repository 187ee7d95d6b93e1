"""A kernel in a process of its own: tests/bench/fastkernel, when a bench has put it beside the fake."""
import os
import subprocess
import sys

from kernel import Kernel

PATH = os.path.join(os.path.dirname(os.path.abspath(sys.argv[0])), "fastkernel")


class Native(Kernel):
    def start(self):
        ports = [str(self.ports[p]) for p in (5555, 5556, 5557, 5558, 5559)]
        self.process = subprocess.Popen([PATH, *ports, self.key.decode()], stdin=subprocess.DEVNULL)

    def die(self, code=None, signum=None, oom=False):
        self.dead = True
        self.process.kill()

    def interrupt(self, how):
        pass

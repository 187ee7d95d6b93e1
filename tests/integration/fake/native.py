"""Kernel and agent in processes of their own: tests/bench/fastkernel and fastagent, when a bench has put
them beside the fake."""
import os
import subprocess
import sys

from agent import Agent
from kernel import Kernel

HERE = os.path.dirname(os.path.abspath(sys.argv[0]))
PATH = os.path.join(HERE, "fastkernel")
AGENT_PATH = os.path.join(HERE, "fastagent")


class Native(Kernel):
    def start(self):
        ports = [str(self.ports[p]) for p in (5555, 5556, 5557, 5558, 5559)]
        self.process = subprocess.Popen([PATH, *ports, self.key.decode()], stdin=subprocess.DEVNULL)

    def die(self, code=None, signum=None, oom=False):
        self.dead = True
        self.process.kill()

    def interrupt(self, how):
        pass


class NativeAgent(Agent):
    def start(self):
        self.process = subprocess.Popen([AGENT_PATH, str(self.port)], stdin=subprocess.DEVNULL)

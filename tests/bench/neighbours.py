#!/usr/bin/python3
"""What a session feels of a neighbour that misbehaves: script/bench neighbours [runs]. For each kind of trouble: round
trips of `1+1` in one session before and while another one makes it, and how soon the control door of that other one
(interrupt, GET, /healthz) answers meanwhile. In the end the trouble-maker is deleted, and how long that took is told.
"""
import os
import sys
import threading
import time

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from harness.gateway import Gateway  # noqa: E402

TROUBLE = (
    ("burns CPU", "while True: pass"),
    ("burns CPU in 8 processes", "import multiprocessing as m\n"
     "def burn():\n    while True: pass\n"
     "for _ in range(8): m.Process(target=burn, daemon=True).start()\n"
     "import time\nwhile True: time.sleep(1)"),
    ("fork bomb", "import os, time\nwhile True:\n    try: os.fork()\n    except OSError: time.sleep(.001)"),
    ("fills its memory", "held = []\nimport os\nwhile True: held.append(os.urandom(1 << 20))"),
    ("fills its disk", "import os\nf = open('/home/user/big', 'wb')\nb = os.urandom(1 << 20)\n"
     "while True:\n    try:\n        f.write(b); f.flush()\n    except OSError:\n        f.truncate(0); f.seek(0)"),
    ("floods output", "while True: print('x' * 100)"),
    ("opens thousands of comms", "from ipykernel.comm import Comm\nkept = []\n"
     "while True: kept.append(Comm(target_name='t', data={'a': 'b' * 100}))"),
)


def ms(begun):
    return (time.time() - begun) * 1000


def trips(api, sid, n):
    took = []
    for _ in range(n):
        begun = time.time()
        c = api.cell(sid, "1+1", timeout=120)
        assert c["status"] == "ok", c
        took.append(ms(begun))
    return sorted(took)


def middle(values):
    return values[len(values) // 2]


def asked(call):
    begun = time.time()
    r = call()
    assert r.status < 500, r
    return ms(begun)


class Maker:
    """Makes trouble in a session, again when its cell has ended, until it is told to stop."""

    def __init__(self, api, code):
        self.api, self.code, self.endings = api, code, []
        self.sid = api.create()
        self.over = threading.Event()
        self.thread = threading.Thread(target=self.run)
        self.thread.start()

    def run(self):
        while not self.over.is_set():
            r = self.api.post("/v1/sessions/%s/cells" % self.sid, {"code": self.code}, timeout=600)
            if r.status != 200:
                return
            self.endings.append(r.json()["status"])

    def control(self):
        """Worst of the control door, without ending the trouble: interrupts are sent last."""
        return max(max(asked(lambda: self.api.get("/v1/sessions/" + self.sid)), asked(lambda: self.api.get("/healthz")))
                   for _ in range(10))

    def end(self):
        self.over.set()
        interrupt = asked(lambda: self.api.post("/v1/sessions/%s/interrupt" % self.sid))
        gone = asked(lambda: self.api.delete("/v1/sessions/" + self.sid))
        self.thread.join(60)
        return interrupt, gone


def beside(api, quiet, name, code, runs):
    before = trips(api, quiet, runs)
    maker = Maker(api, code)
    time.sleep(5)
    during, control = trips(api, quiet, runs), maker.control()
    interrupt, gone = maker.end()
    return (name, "%.1f" % middle(before), "%.1f" % middle(during), "%.2f" % (middle(during) / middle(before)),
            "%.1f" % during[int(len(during) * .99)], "%.0f" % control, "%.0f" % interrupt, "%.0f" % gone,
            ", ".join(sorted(set(maker.endings))) or "not")


def main():
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 40
    rows = [("the neighbour …", "before p50", "during p50", "ratio", "during p99", "control", "interrupt", "delete", "its cells ended")]
    gateway = Gateway("--pool-size", "1", "--on-exit", "kill").start(900)
    try:
        api = gateway.client()
        quiet = api.create()
        trips(api, quiet, 10)
        for name, code in TROUBLE:
            print("neighbours:", name, file=sys.stderr)
            rows.append(beside(api, quiet, name, code, runs))
    finally:
        gateway.end()
    print("milliseconds; control: the slower of GET session and /healthz, worst of 10")
    for row in rows:
        print("| " + " | ".join(row) + " |")
        if row is rows[0]:
            print("|" + "---|" * len(row))


if __name__ == "__main__":
    main()

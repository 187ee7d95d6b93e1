"""Stands between a gateway and the bridge of one session: its socket is moved aside and this listens in
its place, passes bytes on, and can change and cut what passes."""
import os
import socket
import threading


class Between:
    def __init__(self, gateway, session, change=lambda upward: upward):
        self.path = os.path.join(gateway.state, "sessions", session, "bridge.sock")
        self.aside = self.path[:-4] + "real"
        self.change = change  # of what the gateway sends, a whole read at a time
        self.pairs = []  # live ones
        self.made = 0
        self.lock = threading.Lock()
        owner = os.stat(self.path)
        os.rename(self.path, self.aside)
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(self.path)
        os.chown(self.path, owner.st_uid, owner.st_gid)
        self.listener.listen(64)
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            bridge = socket.socket(socket.AF_UNIX)
            bridge.connect(self.aside)
            with self.lock:
                self.pairs.append((client, bridge))
                self.made += 1
            for a, b, change in ((client, bridge, self.change), (bridge, client, lambda down: down)):
                threading.Thread(target=self.pump, args=(a, b, change), daemon=True).start()

    def pump(self, a, b, change):
        try:
            while data := a.recv(1 << 16):
                b.sendall(change(data))
        except OSError:
            pass
        self.cut((a, b))

    def cut(self, pair):
        with self.lock:
            self.pairs = [p for p in self.pairs if set(p) != set(pair)]
        for s in pair:
            try:
                s.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    def cut_all(self):
        for pair in list(self.pairs):
            self.cut(pair)

    def end(self):
        self.listener.close()
        os.rename(self.aside, self.path)
        self.cut_all()

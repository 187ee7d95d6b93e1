"""A bridge that hangs (stopped by a signal, as a stuck host would) holds up nobody for longer than
clients wait: every request to its session is answered, and works again when the bridge does."""
import os
import signal
import threading

from harness.gateway import TOKEN, wait_for
from harness.jupyter import Socket, stdout

PATIENCE = 40 # s: what clients usually have


def requests(sid):
    v1 = "/v1/sessions/" + sid
    yield "POST", v1 + "/cells", {"code": "print:x"}
    yield "GET", v1 + "/cells/00000000-0000-4000-8000-000000000000", None
    yield "POST", v1 + "/commands", {"cmd": "true"}
    yield "GET", v1 + "/files/home/user", None
    yield "GET", v1 + "/files/home/user/a.txt", None
    yield "PUT", v1 + "/files/home/user/b.txt", b"b" * 10
    yield "PUT", v1 + "/files/home/user/c.txt", b"c" * 5_000_000
    yield "DELETE", v1 + "/files/home/user/a.txt", None
    yield "POST", v1 + "/files/home/user/d", {"action": "mkdir"}
    yield "POST", v1 + "/interrupt", None
    yield "POST", v1 + "/restart", None
    yield "GET", v1 + "/events", None
    yield "POST", "/api/kernels/%s/interrupt" % sid, None
    yield "POST", "/api/kernels/%s/restart" % sid, None


def test_every_request_to_a_hung_bridge_is_answered(start):
    gw = start("--pool-size", "0")
    api = gw.client()
    sid = api.create()
    api.put_file(sid, "/home/user/a.txt", b"a")
    other = api.create()  # hangs too; a Jupyter client is connected to it
    sock = Socket(gw, other, TOKEN, timeout=60)
    sock.execute("print:warm")
    answers = {}

    def ask(name, method, path, body):
        answers[name] = api.request(method, path, body, timeout=PATIENCE)

    running = threading.Thread(target=ask, args=("running", "POST", "/v1/sessions/%s/cells" % sid,
                                                 {"code": "print:begun\nsleep:600000"}))
    running.start()
    wait_for("busy", 10, lambda: api.session(sid)["state"] == "busy")
    events = api.events("POST", "/v1/sessions/%s/cells" % sid, {"code": "print:later"}, timeout=PATIENCE)
    assert next(events).kind == "queued"
    bridges = gw.bridge_pid(sid), gw.bridge_pid(other)
    for b in bridges:
        os.kill(b, signal.SIGSTOP)
    mid = sock.send("execute_request", {"code": "print:x", "silent": False})
    threads = [running]
    try:
        for method, path, body in requests(sid):
            t = threading.Thread(target=ask, args=(method + " " + path + str(body)[:9], method, path, body))
            t.start()
            threads.append(t)
        assert api.get("/healthz").status == 200  # nobody else is held up
        assert api.session(sid)["usage"] is None
        last = list(events)[-1]
        assert last.kind == "failed" and last.json()["reason"] == "bridge_timeout"
        for t in threads:
            t.join(PATIENCE + 5)
        wait_for("the Jupyter client's bridge is given up", 40,
                 lambda: "bridge_lost kernel=%s reason=bridge_timeout" % other in gw.stderr())
    finally:
        for b in bridges:
            os.kill(b, signal.SIGCONT)
    assert stdout(sock.until_done(mid, 60)) == "x\n"
    assert len(answers) == len(threads), "no answer: %s" % sorted(set(answers))
    for name, a in answers.items():
        assert a.status in (503, 504), (name, a)
        assert a.json()["message"] and a.json()["reason"], (name, a)
    assert "GET .../cells/" in answers["running"].json()["message"]
    # What was asked of it meanwhile it does now, and then everything works again.
    wait_for("it answers", 30, lambda: api.post("/v1/sessions/%s/restart" % sid).status == 200)
    assert api.cell(sid, "print:again")["stdout"] == "again\n"
    assert api.get_file(sid, "/home/user/d").status in (200, 404)

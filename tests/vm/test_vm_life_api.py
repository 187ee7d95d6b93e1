"""Sessions that pause, go back and fork, end to end: real memory, kernels and disks through both doors."""
import os
import threading
import time

from harness import procs
from harness.gateway import TOKEN, wait_for
from harness.jupyter import Socket, reply, stdout
from harness.life import done, folder, pause, state, verb

SETUP = "import pandas as pd, threading, time\ndf = pd.DataFrame({'a': range(1000)})\nf = open('/home/user/log.txt', 'w')\n" \
        "f.write('one\\n')\nf.flush()\nkept = 41"


def test_variables_files_and_open_handles_survive_a_pause(gateway, api, session):
    assert api.cell(session, SETUP)["status"] == "ok"
    mine = {p: procs.start_of(p) for p in procs.descendants({gateway.bridge_pid(session)})}
    pause(api, session)
    assert procs.wait_gone(mine, 10) == {}
    cell = api.cell(session, "f.write('two\\n'); f.flush(); print(kept + 1, int(df.a.sum()), open('/home/user/log.txt').read())")
    assert cell["status"] == "ok" and cell["stdout"] == "42 499500 one\ntwo\n\n", cell
    assert cell["execution_count"] == 2
    assert abs(float(api.cell(session, "print(time.time())")["stdout"]) - time.time()) < 2
    pause(api, session)
    assert api.get_file(session, "/home/user/log.txt").body == b"one\ntwo\n"


def test_a_jupyter_client_does_not_notice_a_pause(gateway, api, session):
    sock = Socket(gateway, session, TOKEN, timeout=60)
    sock.execute("x = 6", timeout=60)
    pause(api, session)
    got = sock.execute("print(x * 7)", timeout=60)
    assert stdout(got) == "42\n" and reply(got)["status"] == "ok"
    pause(api, session)
    assert verb(api, session, "commands", {"cmd": "echo hi"}).json()["stdout"] == "hi\n"
    assert stdout(sock.execute("print(x)", timeout=60)) == "6\n"
    sock.close()


def test_checkpoint_rollback_and_forks(api, session):
    api.cell(session, SETUP)
    done(api, session, "checkpoints", {"name": "loaded"}, 201)
    api.cell(session, "kept = 0; del df; open('/home/user/new.txt', 'w').write('x')")
    done(api, session, "rollback", {"checkpoint": "loaded"})
    cell = api.cell(session, "import os; print(kept, len(df), os.path.exists('/home/user/new.txt'))")
    assert cell["stdout"] == "41 1000 False\n", cell
    forks = done(api, session, "fork", {"count": 2}, 201, timeout=200)
    code = "import random, uuid, socket; print(kept, len(df)); print(random.random(), uuid.uuid4(), socket.gethostname())"
    out = [api.cell(s, code)["stdout"].splitlines() for s in [session] + [f["id"] for f in forks]]
    assert [o[0] for o in out] == ["41 1000"] * 3
    for field in range(3):
        assert len({o[1].split()[field] for o in out}) == 3, out
    api.cell(session, "kept = 'later'")
    early, = done(api, session, "fork", {"checkpoint": "loaded"}, 201, timeout=200)
    forks.append(early)
    cell = api.cell(early["id"], "import os; print(kept, len(df), os.path.exists('/home/user/new.txt'))")
    assert cell["stdout"] == "41 1000 False\n", cell
    assert api.cell(session, "print(kept)")["stdout"] == "later\n", "the source of a fork of a checkpoint goes on"
    api.cell(forks[0]["id"], "kept = 'changed'")
    assert api.delete("/v1/sessions/" + session).status == 204
    assert api.cell(forks[1]["id"], "print(kept, len(df))")["stdout"] == "41 1000\n"
    for f in forks:
        api.delete("/v1/sessions/" + f["id"])


def test_idle_sessions_pause_and_are_deleted_in_the_end(start):
    gw = start("--pool-size", "0", "--on-exit", "kill", "--idle-s", "4", "--delete-s", "5")
    api = gw.client(timeout=150)
    sid = api.create()
    assert api.cell(sid, "import time; time.sleep(7); x = 1; print('done')")["stdout"] == "done\n", "busy is not idle"
    wait_for("paused for being idle", 40, lambda: state(api, sid) == "paused")
    assert api.cell(sid, "print(x)")["stdout"] == "1\n"
    wait_for("deleted", 60, lambda: api.get("/v1/sessions/" + sid).status == 404)
    wait_for("its folder is gone", 20, lambda: not os.path.exists(folder(gw, sid)))


def test_a_gateway_killed_while_paused_and_while_pausing(home, start):
    first = start("--pool-size", "0", state=home)
    api = first.client(timeout=150)
    asleep, going = api.create(), api.create()
    sock = Socket(first, asleep, TOKEN, timeout=60)
    assert stdout(sock.execute("x = 1\nprint('seen')", timeout=60)) == "seen\n"
    api.cell(going, "x = 2")
    pause(api, asleep)

    def leave():
        try:
            verb(api, going, "pause")
        except OSError:
            pass

    t = threading.Thread(target=leave)
    t.start()
    time.sleep(0.05)
    first.kill()
    t.join()
    second = start("--pool-size", "0", "--on-exit", "pause", state=home)
    api = second.client(timeout=150)
    assert state(api, asleep) == "paused"
    again = Socket(second, asleep, TOKEN, session=sock.session, timeout=60)
    assert stdout(again.execute("print(x)", timeout=60)) == "1\n"
    wait_for("the other one answers", 60, lambda: (r := verb(api, going, "cells", {"code": "print(x)"})).status == 200 and
             r.json()["stdout"] == "2\n")
    again.close()
    time.sleep(1)
    assert second.stop(120) == 0
    for sid in (asleep, going):
        assert os.path.exists(folder(second, sid, "paused.json"))
    third = start("--pool-size", "0", "--on-exit", "kill", state=home)
    api = third.client(timeout=150)
    assert api.cell(asleep, "print(x)")["stdout"] == "1\n"
    assert third.stop(60) == 0
    assert third.leftovers() == {}

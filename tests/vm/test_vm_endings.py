"""Truthful endings with a real kernel, and what the next cell then finds."""
import threading
import time

import pytest

from harness import procs
from harness.gateway import wait_for


def test_a_timeout_keeps_the_state_of_the_kernel(api, session):
    api.cell(session, "kept = 42")
    c = api.cell(session, "import time\nprint('begun')\ntime.sleep(600)", timeout_s=3)
    assert c["status"] == "timeout" and c["exit_code"] == 124 and c["stdout"] == "begun\n", c
    assert api.cell(session, "print(kept)")["stdout"] == "42\n"


def test_a_busy_loop_is_timed_out_too(api, session):
    c = api.cell(session, "while True: pass", timeout_s=2)
    assert c["status"] == "timeout" and c["exit_code"] == 124
    assert api.cell(session, "print('next')")["stdout"] == "next\n"


def test_code_that_swallows_interrupts_is_killed(api, session):
    c = api.cell(session, "import signal, time\nsignal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])\n"
                 "while True:\n    try:\n        while True: time.sleep(1)\n    except BaseException: pass",
                 timeout_s=2, timeout=150)
    assert c["status"] == "timeout" and c["exit_code"] == 124, c
    assert api.cell(session, "print('fresh')", timeout=150)["stdout"] == "fresh\n"


def test_an_interrupt_is_interrupted(api, session):
    api.cell(session, "kept = 1")
    out = {}
    t = threading.Thread(target=lambda: out.update(api.cell(session, "import time\ntime.sleep(600)")))
    t.start()
    wait_for("busy", 30, lambda: api.session(session)["state"] == "busy")
    time.sleep(1)
    assert api.post("/v1/sessions/%s/interrupt" % session).status == 200
    t.join(60)
    assert out["status"] == "interrupted" and out["exit_code"] == 130, out
    assert api.cell(session, "print(kept)")["stdout"] == "1\n"


AWAITING = ["import asyncio\nawait asyncio.sleep(600)",
            "import asyncio\nasync def f():\n    await asyncio.gather(asyncio.sleep(600), asyncio.sleep(500))\nawait f()",
            "import asyncio\nawait asyncio.sleep(0)\nwhile True: pass",
            "import asyncio\nawait asyncio.get_running_loop().create_future()"]


@pytest.mark.parametrize("code", AWAITING)
def test_a_cell_that_awaits_is_timed_out_with_its_state_kept(api, session, code):
    api.cell(session, "kept = 42")
    c = api.cell(session, code, timeout_s=2)
    assert c["status"] == "timeout" and c["exit_code"] == 124, c
    then = api.cell(session, "import asyncio\nawait asyncio.sleep(0.01)\nprint(kept)", timeout=60)
    assert then["stdout"] == "42\n", then


@pytest.mark.parametrize("code", AWAITING)
def test_an_interrupt_reaches_a_cell_that_awaits(api, session, code):
    api.cell(session, "kept = 1")
    out = {}
    t = threading.Thread(target=lambda: out.update(api.cell(session, "print('begun', flush=True)\n" + code)))
    t.start()
    wait_for("busy", 30, lambda: api.session(session)["state"] == "busy")
    time.sleep(1)
    assert api.post("/v1/sessions/%s/interrupt" % session).status == 200
    t.join(60)
    assert out["status"] == "interrupted" and out["exit_code"] == 130, out
    assert api.cell(session, "print(kept)")["stdout"] == "1\n"


# An interrupt at a given place of the kernel's own code, once: the next cell meets it there.
INTERRUPT_IN = """
def meets(owner, name):
    import os, signal
    real = getattr(owner, name)
    def once(*args, **kwargs):
        setattr(owner, name, real)
        os.kill(os.getpid(), signal.SIGINT)
        return real(*args, **kwargs)
    setattr(owner, name, once)
"""
PLACES = [("k", "init_metadata", "error"), ("k", "_publish_execute_input", "error"),
          ("k.shell", "transform_cell", "error"), ("k.shell", "should_run_async", "error"), ("k", "finish_metadata", "ok")]


def test_a_cell_is_answered_wherever_in_the_kernel_an_interrupt_comes(api, session):
    assert api.cell(session, INTERRUPT_IN + "k = get_ipython().kernel\nkept = 42")["status"] == "ok"
    for owner, name, status in PLACES:
        for code in ("print(kept)", "import asyncio\nawait asyncio.sleep(0.01)\nprint(kept)"):
            api.cell(session, "meets(%s, %r)" % (owner, name), silent=True)
            c = api.cell(session, code, timeout_s=30, timeout=60)
            assert c["status"] == status and (status == "ok" or c["error"]["ename"] == "KeyboardInterrupt"), (name, code, c)
    assert api.cell(session, "print(kept)")["stdout"] == "42\n"


A_THREAD_STAYS = "quit()\nimport threading, time\nthreading.Thread(target=time.sleep, args=(600,)).start()"


@pytest.mark.parametrize("code", ["exit", "quit()", A_THREAD_STAYS, "get_ipython().kernel.do_shutdown(True)",
                                  "get_ipython().kernel.io_loop.stop()"])
def test_a_cell_that_ends_its_kernel_takes_no_other_with_it(api, session, code):
    for pause in (0, 0.15, 0):
        assert api.cell(session, "old = 1")["status"] == "ok"
        first = api.cell(session, code)  # `exit` without parentheses must be all of its cell
        assert first["status"] == "ok", first
        time.sleep(pause)
        for _ in range(3):
            c = api.cell(session, "import asyncio\nawait asyncio.sleep(0.2)\nprint('old' in globals())", timeout=150)
            assert c["status"] == "ok" and c["stdout"] == "False\n", c


def test_os_exit_is_kernel_died(api, session):
    c = api.cell(session, "import os\nprint('last words', flush=True)\nos._exit(1)")
    assert c["status"] == "kernel_died" and c["exit_code"] == 137 and "code 1" in c["detail"], c
    after = api.cell(session, "print('fresh')", timeout=150)
    assert after["status"] == "ok" and after["stdout"] == "fresh\n"


def test_a_segfault_is_kernel_died(api, session):
    c = api.cell(session, "import ctypes\nctypes.string_at(0)")
    assert c["status"] == "kernel_died" and c["exit_code"] == 137 and "signal 11" in c["detail"], c
    assert api.cell(session, "print('fresh')", timeout=150)["stdout"] == "fresh\n"


def test_files_survive_the_kernel(api, session):
    api.cell(session, "open('kept.txt', 'w').write('on disk')")
    api.cell(session, "import os\nos._exit(3)")
    assert api.cell(session, "print(open('kept.txt').read())", timeout=150)["stdout"] == "on disk\n"


def test_out_of_memory_is_oom(api, session):
    c = api.cell(session, "x = []\nwhile True: x.append(bytearray(10_000_000))", timeout=280)
    assert c["status"] in ("oom", "error"), c
    if c["status"] == "oom":
        assert c["exit_code"] == 137 and c["usage"]["peak_memory_bytes"] > 50_000_000
    else:
        assert c["error"]["ename"] == "MemoryError"
    assert api.cell(session, "print('next')", timeout=150)["stdout"] == "next\n"


def test_a_fork_bomb_does_not_stop_the_agent(api, session):
    api.cell(session, "import os\nwhile True:\n    os.fork()", timeout_s=5, timeout=200)
    r = api.get_file(session, "/home/user")
    assert r.status == 200, r
    assert api.post("/v1/sessions/%s/restart" % session, timeout=150).status == 200
    assert api.cell(session, "print('next')", timeout=150)["stdout"] == "next\n"


def test_processes_that_a_kernel_leaves_behind_do_not_keep_the_next_one_from_starting(api, session):
    bomb = "import os, time\nfor _ in range(40):\n    if not os.fork(): time.sleep(600)\n"  # they hold its ports
    api.cell(session, bomb + "os._exit(3)", timeout=150)
    assert api.cell(session, "print('next')", timeout=150)["stdout"] == "next\n"
    api.cell(session, bomb, timeout=150)
    assert api.post("/v1/sessions/%s/restart" % session, timeout=150).status == 200
    assert api.cell(session, "print('next')", timeout=150)["stdout"] == "next\n"


def test_a_kernel_that_rests_late_goes_on_with_the_cells_that_wait(api, session):
    code = ("import signal, time\nold = signal.signal(signal.SIGINT, signal.SIG_IGN)\nv = 1\ntime.sleep(%s)\n"
            "signal.signal(signal.SIGINT, old)")
    first = api.cell(session, code % 3.5, timeout_s=2, timeout=150)
    assert first["status"] == "timeout" and first["exit_code"] == 124, first
    then = api.cell(session, "v", timeout=60)  # waits until the kernel rests, and nobody else posts anything
    assert then["status"] == "ok" and then["result"]["text/plain"] == "1", then
    again = api.get("/v1/sessions/%s/cells/%s" % (session, first["id"])).json()
    assert again["ended_by"] == "sigint" and "kept" in again["detail"], again


@pytest.mark.parametrize("channel", ["iopub_socket", "shell_stream"])
def test_a_cell_that_closes_its_kernels_sockets_is_not_ok_and_the_next_one_works(api, session, channel):
    c = api.cell(session, "k = get_ipython().kernel\nk.%s.close()" % channel, timeout=150)
    if c["status"] == "ok":  # it was heard to its end before the socket was gone
        c = api.cell(session, "print('unheard')", timeout=150)
    assert c["status"] == "kernel_died" and c["exit_code"] == 137, c
    assert api.cell(session, "print('next')", timeout=150)["stdout"] == "next\n"


def test_a_message_that_takes_long_to_come_does_not_cost_the_kernel(api, session):
    size = 50_000_000
    api.cell(session, "kept = 1")
    c = api.cell(session, "display({'text/plain': 'z' * %d}, raw=True)\nprint('after')" % size, timeout=900)
    assert c["status"] == "ok" and c["stdout"] == "after\n", (c["status"], c.get("detail"))
    assert c["truncated"]["displays"] == 1 and c["truncated"]["display_bytes"] > size, c["truncated"]
    assert api.cell(session, "kept", timeout=150)["result"]["text/plain"] == "1"


def test_an_error_that_code_publishes_itself_does_not_decide(api, session):
    c = api.cell(session, "k = get_ipython().kernel\nk.session.send(k.iopub_socket, 'error', {'ename': 5}, "
                 "parent=k.get_parent())\nprint('after')")
    assert c["status"] == "ok" and c["exit_code"] == 0 and c["error"] is None, c


def test_the_peak_of_a_cell_is_not_that_of_the_session(api, session):
    api.cell(session, "1")
    big = api.cell(session, "x = bytearray(60_000_000)\ndel x")["usage"]["peak_memory_bytes"]
    small = api.cell(session, "1")["usage"]["peak_memory_bytes"]
    mid = api.cell(session, "x = bytearray(30_000_000)\ndel x")["usage"]["peak_memory_bytes"]
    assert big > small + 50_000_000 and small + 25_000_000 < mid < big - 20_000_000, (big, small, mid)


def test_a_killed_qemu_is_vm_died(gateway, api):
    sid = api.create()
    out = {}
    t = threading.Thread(target=lambda: out.update(api.cell(sid, "import time\nprint('begun', flush=True)\ntime.sleep(600)")))
    t.start()
    wait_for("busy", 30, lambda: api.session(sid)["state"] == "busy")
    time.sleep(2)
    qemu = gateway.qemu_pid(sid)
    procs.kill(qemu, procs.start_of(qemu))
    t.join(30)
    assert out["status"] == "vm_died" and out["exit_code"] == 137, out
    r = api.post("/v1/sessions/%s/cells" % sid, {"code": "1"})
    assert r.status == 410 and "create" in r.json()["message"].lower(), r
    assert api.delete("/v1/sessions/" + sid).status == 204


def test_a_guest_that_powers_off_is_vm_died(api):
    sid = api.create()
    r = api.post("/v1/sessions/%s/commands" % sid, {"cmd": "id -u"}).json()
    assert r["stdout"] == "1000\n"  # not root: it cannot power off, so QEMU must still be there
    api.post("/v1/sessions/%s/commands" % sid, {"cmd": "echo o > /proc/sysrq-trigger; reboot -f; kill -9 1"})
    assert api.cell(sid, "print('alive')")["stdout"] == "alive\n"
    api.delete("/v1/sessions/" + sid)


def test_a_restart_is_a_fresh_kernel(api, session):
    api.cell(session, "gone = 1")
    assert api.post("/v1/sessions/%s/restart" % session, timeout=150).status == 200
    c = api.cell(session, "gone")
    assert c["status"] == "error" and c["error"]["ename"] == "NameError" and c["execution_count"] == 1

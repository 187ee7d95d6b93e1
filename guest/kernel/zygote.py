"""The parent of all kernels: imports the usual libraries once and forks.

Started by the agent (descriptor 3 is a socketpair to it, one JSON object a datagram):

  out  {"event":"progress","percent":N,"text":T}  {"event":"serving"}  {"event":"warm"}
       {"event":"warmed"}  {"event":"failed","text":T}
  in   {"op":"kernel","key":K,"cwd":D,"env":{}} + a descriptor: fork a kernel that reports there
       {"op":"exercise"}: run a client against the kernel, so that its first cell finds everything warm

A kernel is forked twice, so that it becomes a child of PID 1. Nothing in this process may start a
thread: a fork takes only one along. The real uid is 0, so that the user's code cannot signal or trace
this process; the effective uid is the user's, so that every file made here is the user's. `--again` (after a death) serves as soon as ipykernel is
imported, and imports the rest while nobody asks.
"""

import gc
import importlib
import json
import os
import select
import signal
import socket
import sys
import time

LINK_FD = 3
MESSAGE_MAX = 256 * 1024
HOME = "/home/user"
UID = GID = 1000
LEAVE_SECONDS = 5  # for the threads and exit handlers of a kernel that ends by itself

os.environ.setdefault("PYDEVD_DISABLE_FILE_VALIDATION", "1")  # else debugpy warns about frozen modules
os.environ.setdefault("MPLBACKEND", "module://matplotlib_inline.backend_inline")
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))


def shield(on):
    """Real uid 0: out of reach of the user's signals. Off while a library is imported: some ask access(2), which
    judges by the real uid, whether the user's folders can be written."""
    os.setresuid(0 if on else UID, UID, 0)


def become_user():
    """In a forked child, before anything else: all ids are the user's from here on, for good."""
    os.seteuid(0)
    os.setresgid(GID, GID, GID)
    os.setresuid(UID, UID, UID)


def make_dumpable():
    """Changing ids makes a process untraceable; a kernel should be as traceable as any process of its user."""
    import ctypes

    ctypes.CDLL(None).prctl(4, 1, 0, 0, 0)  # PR_SET_DUMPABLE


# --- warming up ---------------------------------------------------------------------------------------


def draw_figure():
    """Fills the font cache, and loads what only drawing loads."""
    import io

    import matplotlib

    before = matplotlib.get_backend()
    matplotlib.use("agg")
    import matplotlib.pyplot as plt

    fig, ax = plt.subplots()
    ax.plot([1, 2, 3], label="a")
    ax.bar([1, 2, 3], [3, 2, 1])
    ax.set_title("Ä $x^2$")
    ax.legend()
    fig.savefig(io.BytesIO(), format="png", bbox_inches="tight")
    plt.close("all")
    matplotlib.use(before)


def use_pandas():
    import io

    import pandas as pd

    frame = pd.read_csv(io.StringIO("month,revenue\nJan,120\nFeb,150\n"))
    frame.groupby("month").sum()
    frame.describe().to_html()
    repr(frame)


def use_numpy():
    import numpy as np

    a = np.arange(64.0).reshape(8, 8) + np.eye(8)
    np.linalg.solve(a @ a.T + np.eye(8), np.ones(8))
    np.random.default_rng().normal(size=8)


def show_errors():
    """Formats one exception and one syntax error: the first traceback of a session costs seconds otherwise."""
    import linecache

    from IPython.core.ultratb import AutoFormattedTB, SyntaxTB

    code = "def f(x):\n    return 1 / x\nf(0)\n"
    linecache.cache["<warm>"] = (len(code), None, code.splitlines(True), "<warm>")
    formats = AutoFormattedTB(mode="Context", color_scheme="Neutral", tb_offset=1)
    try:
        exec(compile(code, "<warm>", "exec"), {})
    except ZeroDivisionError:
        formats.structured_traceback(*sys.exc_info())
    try:
        compile("def f(:", "<warm>", "exec")
    except SyntaxError:
        SyntaxTB(color_scheme="Neutral").structured_traceback(*sys.exc_info()[:2], [])
    linecache.clearcache()


class LateJedi:
    """In the place of jedi in IPython's completer: imported when somebody uses it (`%config IPCompleter.use_jedi`)."""

    def __getattr__(self, name):
        import jedi
        import jedi.api.classes
        import jedi.api.helpers
        from IPython.core import completer

        jedi.settings.case_insensitive_completion = False
        completer.jedi = jedi
        return getattr(jedi, name)


def import_completer():
    """Completion does without jedi (cellkeep_hook), which would take 7 MB of every session."""
    sys.modules["jedi"] = None  # an import of it fails
    try:
        from IPython.core import completer
    finally:
        del sys.modules["jedi"]
    completer.jedi, completer.JEDI_INSTALLED = LateJedi(), True


def import_ipykernel():
    import_completer()
    for name in ("cellkeep_hook", "ipykernel.inprocess", "IPython.core.completerlib"):
        importlib.import_module(name)


WARM_UP = os.path.join(os.path.dirname(os.path.abspath(__file__)), "warm_up.py")


def run_warm_up():
    """The script of whoever built this template (`template build --warm-up`). Its imports stay, its variables do not."""
    import runpy
    import traceback

    try:
        runpy.run_path(WARM_UP, run_name="__main__")
    except SystemExit as e:
        if e.code not in (None, 0):
            raise RuntimeError(f"it ended with {e.code!r}") from None
    except BaseException as e:
        line = [f.lineno for f in traceback.extract_tb(e.__traceback__) if f.filename == WARM_UP]
        at = e.lineno if isinstance(e, SyntaxError) and not line else line[-1] if line else "?"
        raise RuntimeError(f"line {at}: {type(e).__name__}: {e}") from None
    finally:
        os.chdir(HOME)
    if threads() != 1:
        raise RuntimeError("it left a thread running, and kernels are forked from this process")


def own_steps():
    return [(68, "running the warm-up script", run_warm_up)] if os.path.exists(WARM_UP) else []


def steps():
    """(percent when it begins, text, function). The first one is all that a kernel needs."""

    def imports(*names):
        return lambda: [importlib.import_module(name) for name in names]

    return [
        (8, "importing ipykernel", import_ipykernel),
        (20, "importing numpy and pandas", imports("numpy", "numpy.random", "pandas")),
        (34, "importing matplotlib", imports("matplotlib.pyplot", "matplotlib_inline.backend_inline", "mpl_toolkits")),
        (42, "drawing a first figure", draw_figure),
        (46, "importing scipy and seaborn", imports("scipy.stats", "seaborn")),
        (54, "importing plotly", imports("plotly.graph_objects", "plotly.express")),
        (58, "importing scikit-learn", imports("sklearn.base", "sklearn.linear_model")),
        (62, "importing openpyxl and pillow", imports("openpyxl", "PIL.Image", "PIL.PngImagePlugin")),
        (65, "using them once", lambda: (use_pandas(), use_numpy(), show_errors())),
        *own_steps(),
    ]


# --- the link to the agent ----------------------------------------------------------------------------


class Link:
    def __init__(self, sock):
        self.sock = sock

    def say(self, event, **fields):
        self.sock.send(json.dumps({"event": event, **fields}).encode())

    def waiting(self):
        return bool(select.select([self.sock], [], [], 0)[0])

    def receive(self):
        """The next request and its descriptor (or None). Ends the process when the agent is gone."""
        data, fds, _, _ = socket.recv_fds(self.sock, MESSAGE_MAX, 1)
        if not data:
            os._exit(0)
        return json.loads(data), (fds[0] if fds else None)


def threads():
    return len(os.listdir("/proc/self/task"))


# --- the kernel's process -----------------------------------------------------------------------------


class Died(Exception):
    pass


def become_kernel(status):
    """In the grandchild: waits to be PID 1's child, reports, waits for leave to go on."""
    become_user()
    os.setsid()
    while os.getppid() != 1:
        time.sleep(0.001)
    make_dumpable()
    status.send(json.dumps({"pid": os.getpid()}).encode())
    if status.recv(16) != b"go":
        raise Died
    signal.signal(signal.SIGINT, signal.default_int_handler)
    null = os.open(os.devnull, os.O_RDWR)
    for fd in (0, 1, 2):
        os.dup2(null, fd)
    os.close(null)


def fork_kernel(link, fd):
    """The kernel's status socket in the kernel's process, None in the zygote."""
    status = socket.socket(fileno=fd)
    pid = os.fork()
    if pid:
        status.close()
        os.waitpid(pid, 0)
        return None
    link.sock.close()
    if os.fork():
        os._exit(0)
    try:
        become_kernel(status)
    except BaseException:
        os._exit(1)
    return status


def prepare_process(request):
    import site

    import cellkeep_hook

    os.environ.update(request["env"])
    try:
        os.chdir(request["cwd"])
    except OSError:  # a folder that is not there, or not any more
        os.chdir(HOME)
    cellkeep_hook.reseed(os.urandom(32))
    cellkeep_hook.new_authkey()
    here = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [p for p in sys.path if p != here]
    user_site = site.getusersitepackages()  # so that what is installed later is found at once
    os.makedirs(user_site, exist_ok=True)
    if user_site not in sys.path:
        site.addsitedir(user_site)
    sys.argv = ["ipykernel_launcher"]


def run_kernel(request, status):
    import cellkeep_hook

    try:
        prepare_process(request)
        app = cellkeep_hook.make_app(request["key"])
    except BaseException as e:
        status.send(json.dumps({"error": f"{type(e).__name__}: {e}"[:300]}).encode())
        os._exit(1)

    def ready():
        gc.collect()
        gc.freeze()
        status.send(b'{"ready": true}')
        status.close()

    request.clear()
    end(app.start_and_tell(ready))


def end(code):
    """Ends as Python would, but for taking the interpreter apart: that touches every page shared with the zygote,
    which costs seconds and a hundred megabytes. The user's threads may finish, but not keep the next kernel waiting."""
    import atexit
    import threading

    late = threading.Timer(LEAVE_SECONDS, os._exit, (code,))
    late.daemon = True
    late.start()
    try:
        threading._shutdown()
        atexit._run_exitfuncs()
    finally:
        os._exit(code)


# --- exercise -----------------------------------------------------------------------------------------

# Silent, so that counter, history and namespace of the kernel stay untouched.
EXERCISES = [
    "1 + 1",
    "print('x'); display(1)",
    """exec('''
import io, pandas as pd, matplotlib.pyplot as plt
frame = pd.DataFrame({"a": [1, 2, 3]})
display(frame)
plt.plot([1, 2, 3]); plt.title("warm"); plt.show()
plt.figure(); plt.bar([1, 2], [2, 1])
plt.savefig(io.BytesIO())
''', {})""",
    "get_ipython().run_cell('', silent=True) and None",
    "1 / 0",
    "def f(:",
    "[__import__('sys').__dict__.pop(n, 0) for n in ('last_type', 'last_value', 'last_traceback')] and None",
    "__import__('matplotlib.pyplot').pyplot.close('all')",
    "__import__('gc').collect() and __import__('gc').freeze()",
]


def exercise():
    from jupyter_client import BlockingKernelClient

    client = BlockingKernelClient(ip="127.0.0.1", transport="tcp")
    client.shell_port, client.iopub_port, client.stdin_port, client.control_port, client.hb_port = range(5555, 5560)
    client.session.key = b"template"
    client.start_channels()
    client.wait_for_ready(timeout=120)
    for msg_id in (
        client.complete("impor", 5),
        client.complete("__import__('numpy').ar"),
        client.inspect("print"),
        client.history(hist_access_type="tail", n=3),
        client.is_complete("for x in y:"),
        client.comm_info(),
    ):
        client._recv_reply(msg_id, timeout=60)
    for code in EXERCISES:
        client.execute_interactive(code, silent=True, store_history=False, allow_stdin=False, timeout=120,
                                   output_hook=lambda msg: None)
    client.stop_channels()


def fork_exercise(link):
    pid = os.fork()
    if pid == 0:
        try:
            become_user()
            exercise()
            os._exit(0)
        except BaseException as e:
            link.say("failed", text=f"warming up the kernel: {type(e).__name__}: {e}"[:150])
            os._exit(1)
    if os.waitpid(pid, 0)[1] == 0:
        link.say("warmed")


# --- main ---------------------------------------------------------------------------------------------


def run_step(link, step):
    percent, text, function = step
    link.say("progress", percent=percent, text=text)
    shield(False)
    try:
        function()
    except Exception as e:
        link.say("failed", text=f"{text}: {type(e).__name__}: {e}"[:150])
    shield(True)


def serve(link, todo):
    """Returns only in a kernel's process: the request and the status socket."""
    while True:
        if todo and not link.waiting():
            run_step(link, todo.pop(0))
            if not todo:
                gc.collect()
                gc.freeze()
                link.say("warm")
            continue
        request, fd = link.receive()
        if request["op"] == "kernel" and fd is not None:
            status = fork_kernel(link, fd)
            if status is not None:
                return request, status
        elif request["op"] == "exercise":
            fork_exercise(link)


def main():
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    shield(True)
    os.chdir(HOME)
    link = Link(socket.socket(fileno=LINK_FD))
    todo = steps()
    if "--first" in sys.argv:
        while todo:
            run_step(link, todo.pop(0))
    else:
        run_step(link, todo.pop(0))
    if threads() != 1:
        link.say("failed", text="a library started a thread in the process that kernels are forked from")
    gc.collect()
    gc.freeze()
    link.say("serving")
    if not todo:
        link.say("warm")
    request, status = serve(link, todo)
    del link, todo
    run_kernel(request, status)


if __name__ == "__main__":
    main()

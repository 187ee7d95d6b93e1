"""Real cells in a real microVM: the data example, figures, artifacts, both doors, bad input."""
import base64
import hashlib
import os
import subprocess
import sys

import pytest

from harness.client import kept_and_dropped
from harness.gateway import ROOT, TOKEN
from harness.jupyter import Socket, stdout

SALES = b"month,revenue\nJan,120\nFeb,150\nMar,90\nApr,180\n"


def ok(cell):
    assert cell["status"] == "ok" and cell["exit_code"] == 0, cell
    return cell


def test_one_and_one(api, shared):
    c = ok(api.cell(shared, "1+1"))
    assert c["result"]["text/plain"] == "2" and c["usage"]["wall_ms"] >= 0


def test_variables_live_on(api, shared):
    ok(api.cell(shared, "x = [1, 2, 3]"))
    assert ok(api.cell(shared, "print(sum(x))"))["stdout"] == "6\n"


def test_the_data_example(api, session):
    api.put_file(session, "/home/user/sales.csv", SALES)
    c = ok(api.cell(session, """
import pandas as pd
import matplotlib.pyplot as plt
df = pd.read_csv("sales.csv")
print(df["revenue"].sum())
df.plot.bar(x="month", y="revenue")
plt.savefig("chart.png")
"""))
    assert c["stdout"] == "540\n"
    chart = [a for a in c["artifacts"] if a["name"] == "chart.png"]
    assert len(chart) == 1 and chart[0]["path"] == "/home/user/chart.png" and chart[0]["mime"] == "image/png"
    assert not [a for a in c["artifacts"] if a["name"] == "sales.csv"]  # uploaded, not made by the cell
    data = api.get(chart[0]["url"]).body
    assert data.startswith(b"\x89PNG") and len(data) == chart[0]["size"]
    assert hashlib.sha256(data).hexdigest() == chart[0]["sha256"]
    second = ok(api.cell(session, 'print(df["revenue"].max(), len(df))'))
    assert second["stdout"] == "180 4\n" and second["artifacts"] == []


def test_the_example_script_of_the_readme(gateway):
    script = os.path.join(ROOT, "docs", "examples", "sales.py")
    r = subprocess.run([sys.executable, script, "--url", "http://127.0.0.1:%d" % gateway.port, "--token", TOKEN],
                       capture_output=True, text=True, timeout=240, stdin=subprocess.DEVNULL,
                       cwd=os.environ["CELLKEEP_TEST_TMP"])
    assert r.returncode == 0 and "540" in r.stdout, (r.stdout, r.stderr)


def test_inline_figures_need_no_magic(api, session):
    c = ok(api.cell(session, "import matplotlib.pyplot as plt\nplt.plot([1, 2, 3])\nplt.show()"))
    assert base64.b64decode(c["displays"][0]["data"]["image/png"]).startswith(b"\x89PNG")
    left_open = ok(api.cell(session, "fig, ax = plt.subplots()\nax.plot([3, 1])\nNone"))
    assert base64.b64decode(left_open["displays"][0]["data"]["image/png"]).startswith(b"\x89PNG")
    assert ok(api.cell(session, "1"))["displays"] == []


def test_the_usual_libraries_are_there(api, session):
    c = ok(api.cell(session, """
import numpy, pandas, scipy, scipy.stats, matplotlib, seaborn, plotly, plotly.express, sklearn, sklearn.linear_model, openpyxl, PIL
pandas.DataFrame({"a": [1]}).to_excel("t.xlsx")
print(pandas.read_excel("t.xlsx")["a"][0])
""", timeout=150))
    assert c["stdout"] == "1\n" and [a["name"] for a in c["artifacts"]] == ["t.xlsx"]


def test_an_error_keeps_its_traceback(api, shared):
    c = api.cell(shared, "def f():\n    return 1 / 0\nprint('before')\nf()")
    assert c["status"] == "error" and c["exit_code"] == 1 and c["stdout"] == "before\n"
    assert c["error"]["ename"] == "ZeroDivisionError" and c["error"]["evalue"] == "division by zero"
    assert "\x1b[" in "\n".join(c["error"]["traceback"])
    plain = "\n".join(c["error"]["traceback_plain"])
    assert "1 / 0" in plain and "\x1b" not in plain


def test_an_error_in_a_long_library_shows_its_lines_without_parsing_all_of_it(api, session):
    api.cell(session, "import pandas, pandas.core.frame as frame, json.decoder as short\nd = pandas.DataFrame({'a': [1]})")
    error = api.cell(session, "d['nope']")["error"]
    assert error["ename"] == "KeyError" and "'nope'" in error["evalue"], error
    text = "\n".join(error["traceback_plain"])
    assert "core/frame.py:" in text and "self.columns.get_loc(key)" in text and "d['nope']" in text, text
    c = api.cell(session, "from executing import Source\n"
                 "print([Source.for_filename(m.__file__).tree is None for m in (frame, short)])")
    assert c["stdout"] == "[True, False]\n", c


def test_stderr_and_stdout_are_apart(api, shared):
    c = ok(api.cell(shared, "import sys\nprint('out')\nprint('err', file=sys.stderr)"))
    assert c["stdout"] == "out\n" and c["stderr"] == "err\n"


def test_output_below_python_is_seen_too(api, shared):
    c = ok(api.cell(shared, "import os, subprocess\nos.write(1, b'raw\\n')\nsubprocess.run(['echo', 'child'])\nNone"))
    assert "raw" in c["stdout"] and "child" in c["stdout"]


def test_input_is_answered(api, shared):
    assert ok(api.cell(shared, "print('hello', input('name? '))", stdin="Ada\n"))["stdout"].endswith("hello Ada\n")
    assert api.cell(shared, "input()")["error"]["ename"] in ("StdinNotImplementedError", "EOFError")


def test_both_doors_see_the_same_variables(gateway, api, shared):
    sock = Socket(gateway, shared, TOKEN, timeout=60)
    sock.execute("both = 'from jupyter'", timeout=60)
    assert ok(api.cell(shared, "print(both)"))["stdout"] == "from jupyter\n"
    ok(api.cell(shared, "both = 'from v1'"))
    assert stdout(sock.execute("print(both)", timeout=60)) == "from v1\n"
    sock.close()


def test_artifacts_are_collected_without_being_named(api, session):
    c = ok(api.cell(session, "import os\nos.makedirs('out/deep')\nopen('out/deep/a.csv', 'w').write('x')\nopen('b.json', 'w').write('{}')"))
    assert sorted(a["path"] for a in c["artifacts"]) == ["/home/user/b.json", "/home/user/out/deep/a.csv"]
    c = ok(api.cell(session, "open('b.json', 'w').write('[1, 2]')\nos.symlink('/etc/passwd', 'link')\nNone"))
    assert [(a["name"], a["change"], a["size"]) for a in c["artifacts"]] == [("b.json", "changed", 6)]
    assert ok(api.cell(session, "os.remove('b.json')"))["artifacts"] == []


def told(cell):
    return {a["name"]: (a["change"], a.get("partial", False), a["sha256"] is not None) for a in ok(cell)["artifacts"]}


def test_a_file_that_is_still_written_is_not_called_finished(api, session):
    first = api.cell(session, "f = open('slow.bin', 'wb')\nn = f.write(b'a' * 100)\nf.flush()\n"
                              "n = open('done.txt', 'w').write('x')")
    assert told(first) == {"slow.bin": ("created", True, False), "done.txt": ("created", False, True)}
    assert told(api.cell(session, "None")) == {}  # still open, and nothing new
    assert told(api.cell(session, "f.close()")) == {"slow.bin": ("changed", False, True)}  # now it is whole
    assert told(api.cell(session, "None")) == {}


def test_a_file_that_a_child_or_a_mapping_still_writes_is_not_called_finished(api, session):
    child = ("import subprocess, time, os\n"
             "p = subprocess.Popen(['sh', '-c', 'exec 3>child.txt; echo one >&3; read x; echo two >&3'], stdin=subprocess.PIPE)\n"
             "while not (os.path.exists('child.txt') and os.path.getsize('child.txt')): time.sleep(0.05)\n")
    assert told(api.cell(session, child)) == {"child.txt": ("created", True, False)}
    last = api.cell(session, "p.communicate(b'\\n')\nprint(open('child.txt').read())")
    assert told(last) == {"child.txt": ("changed", False, True)} and last["stdout"] == "one\ntwo\n\n"
    mapped = ("import mmap\nwith open('map.bin', 'wb+') as g:\n    n = g.write(bytes(4096))\n    g.flush()\n"
              "    m = mmap.mmap(g.fileno(), 4096)\n")
    assert told(api.cell(session, mapped)) == {"map.bin": ("created", True, False)}
    assert told(api.cell(session, "m.close()")) == {"map.bin": ("changed", False, True)}


def test_folders_without_artifacts_are_the_sessions_to_choose(api, session):
    make = ("import os\nfor d in ('.cache', 'a/__pycache__', 'lib/site-packages', 'run1.tmp', 'out'):\n"
            "    os.makedirs(d, exist_ok=True)\n    n = open(d + '/f' + str(len(d)), 'w').write('x')")
    assert set(told(api.cell(session, make))) == {"f8", "f3"}
    own = api.create(artifact_ignore=["*.tmp", "out"])
    try:
        assert set(told(api.cell(own, make, timeout=100))) == {"f6", "f13", "f17"}  # the usual ones are not among them
        fork, = api.post("/v1/sessions/%s/fork" % own, {}, timeout=200).json()
        again = make.replace("'x'", "'xy'")
        assert set(told(api.cell(fork["id"], again, timeout=100))) == {"f6", "f13", "f17"}
        api.delete("/v1/sessions/" + fork["id"])
    finally:
        api.delete("/v1/sessions/" + own)


def test_ten_thousand_files(api, session):
    c = ok(api.cell(session, "import os\nos.mkdir('many')\nfor i in range(10000): open(f'many/{i}', 'w').close()",
                    timeout=280))
    assert len(c["artifacts"]) == 200 and c.get("artifacts_total", c.get("artifact_count")) == 10000, sorted(c)
    assert ok(api.cell(session, "print('next')"))["stdout"] == "next\n"


def test_twenty_megabytes_of_code(api, session):
    r = api.post("/v1/sessions/%s/cells" % session, {"code": "x = '" + "a" * (20 << 20) + "'\nlen(x)"}, timeout=280)
    assert r.status in (200, 413), r
    if r.status == 200:  # a guest of 512 MiB may be too small for IPython to parse it: then that is told
        assert r.json()["status"] in ("ok", "oom"), {k: v for k, v in r.json().items() if k != "stdout"}
        assert r.json()["status"] == "oom" or r.json()["result"]["text/plain"] == str(20 << 20)
    assert ok(api.cell(session, "print('next')"))["stdout"] == "next\n"


def test_two_hundred_megabytes_of_output(api, session):
    c = api.cell(session, "line = 'x' * 99999\nfor i in range(2000): print(line)\nprint('the end')", timeout=280)
    assert c["status"] == "ok", {k: c[k] for k in c if k != "stdout"}
    assert kept_and_dropped(c) == 200_000_000 + 8 and c["stdout"].endswith("the end\n")
    assert ok(api.cell(session, "print('next')"))["stdout"] == "next\n"


def test_one_message_of_fifty_megabytes(api, session):
    c = api.cell(session, "from IPython.display import display\ndisplay({'text/plain': 'h' * (50 << 20)}, raw=True)\nprint('after')",
                 timeout=280)
    assert c["status"] == "ok" and c["stdout"] == "after\n"
    assert ok(api.cell(session, "print('next')"))["stdout"] == "next\n"


def test_files_of_a_gigabyte_are_not_needed_to_see_ranges(api, shared):
    ok(api.cell(shared, "with open('big.bin', 'wb') as f:\n    f.truncate(1 << 30)\n    f.seek(500_000_000); f.write(b'here')\nNone",
                timeout=150))
    r = api.get_file(shared, "/home/user/big.bin", headers={"Range": "bytes=500000000-500000003"})
    assert r.status == 206 and r.body == b"here"
    assert ok(api.cell(shared, "import os; os.remove('big.bin')"))


def test_commands_run_in_the_guest(api, shared):
    r = api.post("/v1/sessions/%s/commands" % shared, {"cmd": "id -un; pwd; echo err >&2; exit 3"}).json()
    assert (r["exit_code"], r["stdout"], r["stderr"]) == (3, "user\n/home/user\n", "err\n"), r
    r = api.post("/v1/sessions/%s/commands" % shared, {"cmd": "sleep 60", "timeout_s": 1}, timeout=60).json()
    assert r["exit_code"] == 124 and r["timed_out"]


@pytest.mark.parametrize("path", ["/etc/shadow", "/proc/1/environ", "/dev/vda", "/root"])
def test_paths_that_are_not_served(api, shared, path):
    assert api.get_file(shared, path).status in (403, 404)


def test_pictures_are_shrunk_by_the_guests_own_pillow(api, shared):
    code = """
import io, os
from PIL import Image
from IPython.display import display, Image as Shown
noise = Image.frombytes("RGB", (600, 450), os.urandom(600 * 450 * 3)).resize((1200, 900))
noise.save("photo.jpg")
noise.convert("P").save("palette.png")
display(Shown("photo.jpg"))
Shown("palette.png")
"""
    c = api.cell(shared, code, timeout=150, output={"max_image_edge": 400, "mime_types": ["image/*"]})
    assert c["status"] == "ok", c
    whole = {"from": [1200, 900], "to": [400, 300]}
    assert c["images"] == [{"type": "image/jpeg", "display": 0, **whole}, {"type": "image/png", "display": "result", **whole}]
    assert {a["name"]: a["display"] for a in c["artifacts"]} == {"photo.jpg": 0, "palette.png": "result"}
    sent = base64.b64decode(c["displays"][0]["data"]["image/jpeg"]), base64.b64decode(c["result"]["image/png"])
    assert sent[0][:3] == b"\xff\xd8\xff" and sent[1][:4] == b"\x89PNG"
    for name, data in zip(("a.jpg", "a.png"), sent):
        api.put_file(shared, "/home/user/" + name, data)
    check = "from PIL import Image\nfor n in 'a.jpg', 'a.png':\n    im = Image.open(n); im.load(); print(im.size, im.format)"
    assert api.cell(shared, check)["stdout"] == "(400, 300) JPEG\n(400, 300) PNG\n"
    names = [e["name"] for e in api.get_file(shared, "/var/tmp").json()["entries"]]
    assert not [n for n in names if n.startswith(".cellkeep")], names


RICH = """
import pandas, plotly.express
from IPython.display import display, JSON, Latex, SVG
display(pandas.DataFrame({'a': range(40)}))
display(plotly.express.bar(x=list(range(40)), y=list(range(40))))
display(Latex('$' + 'x+' * 100 + 'y$'))
display(SVG('<svg xmlns="http://www.w3.org/2000/svg" width="1" height="1">' + '<g/>' * 100 + '</svg>'))
display(JSON({'deep': {'a': [1, None, '\u00fc' * 200]}}))
"""


def test_rich_results_are_kept_whole_whatever_text_is_cut_to(api, shared):
    def first(cell, kind):
        return next(d["data"][kind] for d in cell["displays"] if kind in d["data"])

    c = ok(api.cell(shared, RICH, output={"max_text_bytes": 100, "max_image_edge": 16, "strip_ansi": True}, timeout=250))
    assert first(c, "text/html").count("<tr") == 41 and "</table>" in first(c, "text/html")
    figure = first(c, "application/vnd.plotly.v1+json")
    assert figure["data"][0]["type"] == "bar" and figure["layout"]
    assert first(c, "text/latex") == "$" + "x+" * 100 + "y$"
    assert first(c, "image/svg+xml").count("<g/>") == 100
    assert first(c, "application/json") == {"deep": {"a": [1, None, "\u00fc" * 200]}}
    only = ok(api.cell(shared, RICH, output={"mime_types": ["application/json", "text/latex"]}, timeout=250))
    assert {k for d in only["displays"] for k in d["data"]} == {"application/json", "text/latex", "text/plain"}
    assert first(only, "text/latex") == "$" + "x+" * 100 + "y$"


def test_bytes_that_only_look_like_a_picture_stay_whole(api, shared):
    code = """
from IPython.display import display
png = b"\\x89PNG\\r\\n\\x1a\\n\\0\\0\\0\\rIHDR" + (100000).to_bytes(4, "big") * 2 + b"rubbish" * 100
import base64
display({"image/png": base64.b64encode(png).decode(), "text/plain": "bomb"}, raw=True)
"""
    c = api.cell(shared, code, output={"max_image_edge": 800}, timeout=150)
    assert c["status"] == "ok" and [i["to"] for i in c["images"]] == [None], c
    assert api.cell(shared, "print('alive')")["stdout"] == "alive\n"


def test_an_idle_machine_does_not_tick(api, session):
    """Its timer is used while something is due; a tick without end was 6 % of a core for every idle session."""
    c = api.cell(session, """import time
def ticks():
    return next(int(line.split()[1]) for line in open("/proc/interrupts") if line.strip().startswith("LOC:"))
time.sleep(2)
ticks_before, before = ticks(), time.monotonic()
time.sleep(10)
print((ticks() - ticks_before) / (time.monotonic() - before))""", timeout=150)
    assert c["status"] == "ok" and float(c["stdout"]) < 100, c  # 250 of a kernel that ticks


def test_a_cell_may_do_anything_to_its_streams_and_ends_all_the_same(api, session):
    for code in ("import sys; sys.stdout = None; 3", "import sys; del sys.stderr; 3", "import sys; sys.stdout.close(); 3",
                 "class Broken:\n    def flush(self): raise OSError('no')\nimport sys; sys.stderr = Broken(); 3"):
        c = api.cell(session, code, timeout_s=30)
        assert c["status"] == "ok" and c["result"]["text/plain"] == "3", (code, c)
        c = api.cell(session, "import sys\nprint('out')\nprint('err', file=sys.stderr)", timeout_s=30)
        assert (c["status"], c["stdout"], c["stderr"]) == ("ok", "out\n", "err\n"), (code, c)

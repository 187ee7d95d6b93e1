"""`cellkeep run` and `cellkeep session` as somebody in a terminal uses them."""
import json
import os
import subprocess

import pytest

from harness.gateway import TOKEN, binary, scratch


@pytest.fixture
def ck(gateway):
    def run(*args, stdin="", cwd=None, url=None):
        env = {"PATH": os.environ["PATH"], "CELLKEEP_URL": url or "http://127.0.0.1:%d" % gateway.port, "CELLKEEP_TOKEN": TOKEN,
               "ASAN_OPTIONS": "detect_leaks=1"}
        return subprocess.run([binary(), *args], input=stdin, capture_output=True, text=True, timeout=120, env=env, cwd=cwd)
    return run


@pytest.fixture
def folder():
    return scratch("cli")


def names(api):
    return [s["name"] for s in api.get("/v1/sessions").json()]


def test_code_comes_from_a_file_the_command_line_or_standard_input(ck, api, folder):
    path = os.path.join(folder, "code.py")
    with open(path, "w") as f:
        f.write("print:from a file\nerr:apart\n")
    before = names(api)
    r = ck("run", path)
    assert (r.returncode, r.stdout, r.stderr) == (0, "from a file\n", "apart\n"), r
    assert ck("run", "-c", "print:x\n7").stdout == "x\n7\n"
    assert ck("run", "-", stdin="print:piped\n").stdout == "piped\n"
    assert names(api) == before, "a session was left behind"


@pytest.mark.parametrize("args,code,said", [
    (["-c", "error:ValueError:told"], 1, "ValueError: told"), (["-c", "sleep:60000", "--timeout", "0.5"], 124, "timeout"),
    (["-c", "exit:3"], 137, "kernel_died"), (["-c", "signal:9:oom"], 137, "oom"), ([], 2, "nothing to run"),
    (["--bogus"], 2, "--bogus"), (["-c", "1", "x.py"], 2, "not both"), (["/no/such/file.py"], 1, "/no/such/file.py"),
    (["--timeout", "x", "-c", "1"], 2, "--timeout"), (["-c", "1", "--upload", "/no/such.csv"], 1, "/no/such.csv")])
def test_the_exit_code_is_the_cell_s(ck, api, args, code, said):
    before = names(api)
    r = ck("run", *args)
    assert r.returncode == code and said in r.stderr, r
    assert names(api) == before, "a session was left behind"


def test_files_go_up_and_what_was_made_comes_back(ck, api, folder):
    source, out = os.path.join(folder, "in put.csv"), os.path.join(folder, "out")
    with open(source, "wb") as f:
        f.write(b"a,b\n")
    code = "touch:ä/deep.txt:7\ntouch:top.txt:3\ntouch:/tmp/else.txt:2"
    r = ck("run", "--session", "files", "--upload", source, "--out", out, "-c", code)
    assert r.returncode == 0, r
    found = sorted(os.path.relpath(os.path.join(d, f), out) for d, _, fs in os.walk(out) for f in fs)
    assert found == ["tmp/else.txt", "top.txt", "ä/deep.txt"], found
    assert all("saved " + os.path.join(out, f) in r.stderr for f in found), r.stderr
    assert os.path.getsize(os.path.join(out, "ä/deep.txt")) == 7
    sid = next(s["id"] for s in api.get("/v1/sessions?name=files").json())
    assert api.get_file(sid, "/home/user/in put.csv").body == b"a,b\n"
    r = ck("run", "--session", "files", "--out", out, "-c", "touch:whole.txt:1")
    assert "not complete" not in r.stderr
    r = ck("run", "--session", "files", "--out", out, "-c", "touch:slow.open:4")
    assert "slow.open" in r.stderr and "not complete" in r.stderr and os.path.getsize(os.path.join(out, "slow.open")) == 4, r
    assert ck("session", "delete", "files").returncode == 0


def test_a_named_session_keeps_its_state(ck, api):
    assert ck("run", "--session", "kept", "-c", "set:x:8").returncode == 0
    assert ck("run", "-s", "kept", "-c", "get:x").stdout == "8\n"
    r = ck("run", "--session", "kept", "--json", "-c", "print:y\n9")
    cell = json.loads(r.stdout)
    assert cell["stdout"] == "y\n" and cell["result"] == {"text/plain": "9"} and r.stderr == ""
    rows = ck("session", "list").stdout.splitlines()
    assert rows[0].split()[:3] == ["NAME", "ID", "STATE"] and any(row.split()[0] == "kept" for row in rows[1:])
    one = json.loads(ck("session", "get", "kept", "--json").stdout)
    assert one["name"] == "kept" and one["id"] in [s["id"] for s in json.loads(ck("session", "list", "--json").stdout)]
    assert ck("session", "delete", "kept").returncode == 0
    r = ck("session", "get", "kept")
    assert r.returncode == 1 and "there is no session kept" in r.stderr and r.stdout == "", r


def test_input_is_answered_from_standard_input(ck):
    r = ck("run", "-c", "input:name? \ninput:more? ", stdin="Ada\nBob\n")
    # questions and output come over two connections of the kernel: each has its order, together they have none
    assert r.returncode == 0 and r.stdout.replace("name? ", "").replace("more? ", "") == "got Ada\ngot Bob\n", r
    assert r.stdout.index("name? ") < r.stdout.index("more? ") and r.stdout.startswith("name? "), r


def test_a_gateway_that_is_not_there_is_said_in_one_line(ck):
    r = ck("run", "-c", "1", url="http://127.0.0.1:9")
    assert r.returncode == 1 and r.stdout == "" and len(r.stderr.splitlines()) == 1 and "127.0.0.1:9" in r.stderr, r

"""Starting badly: one clear line on stderr and exit code 1 (2 for usage), never a hang."""
import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import threading

import pytest

from harness.gateway import Gateway, NotReady, binary, scratch, wait_for
from integration.conftest import Fake


def fails(*options, code=1, env=None, timeout=60):
    """Runs serve to its end; returns what it said on stderr."""
    state = scratch("f")
    try:
        r = subprocess.run([binary(), "serve", "--state-dir", state, "--port", "0", *options], capture_output=True,
                           text=True, timeout=timeout, stdin=subprocess.DEVNULL,
                           env={"PATH": os.environ["PATH"], **(env or {})})
        assert r.returncode == code, (r.returncode, r.stdout, r.stderr)
        assert "cellkeep ready" not in r.stdout
        errors = [line for line in r.stderr.splitlines() if line.startswith("cellkeep")]
        assert len(errors) == 1, r.stderr
        return errors[0]
    finally:
        shutil.rmtree(state, ignore_errors=True)


def test_a_port_in_use(fake):
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        s.listen()
        port = s.getsockname()[1]
        said = fails(*fake.options(), "--port", str(port))
        assert str(port) in said and "use" in said.lower()


def test_an_address_of_another_machine_is_refused_before_any_long_work():
    cache = scratch("e")  # without an image: the first long step would fail, and say so
    for host in ("203.0.113.9", "2001:db8::9"):
        for port in ("0", "8765"):
            said = fails("--cache-dir", cache, "--accel", "tcg", "--token", "t" * 32, "--host", host, "--port", port)
            assert host in said and "--host" in said, said
    shutil.rmtree(cache)


def test_a_state_folder_that_cannot_be_written(fake):
    said = fails(*fake.options(), "--state-dir", "/proc/cellkeep")
    assert "/proc/cellkeep" in said
    said = fails(*fake.options(), "--state-dir", "/dev/null")
    assert "/dev/null" in said


def test_a_missing_qemu(fake):
    said = fails("--cache-dir", fake.cache, "--qemu", "/nonexistent/qemu", "--accel", "tcg")
    assert "qemu" in said.lower()
    assert "install" in said
    said = fails("--cache-dir", fake.cache, "--qemu", "/bin/true", "--accel", "tcg")
    assert "/bin/true" in said


def test_no_image_says_how_to_get_one(fake):
    cache = scratch("e")
    said = fails("--cache-dir", cache, "--qemu", fake.qemu, "--accel", "tcg")
    assert "image build" in said
    shutil.rmtree(cache)


def copy_of(fake):
    """A cache of this test's own, with the template built in it."""
    return Fake(faults=("mine",))


def template_dir(f):
    root = os.path.join(f.cache, "templates")
    return os.path.join(root, next(d for d in os.listdir(root) if os.path.exists(os.path.join(root, d, "template.json"))))


@pytest.mark.parametrize("damage", ["magic", "version", "json", "ram", "state", "disk", "cut"])
def test_a_damaged_template_is_refused_or_rebuilt(fake, damage):
    f = copy_of(fake)
    d = template_dir(f)
    path = os.path.join(d, "template.json")
    with open(path) as src:
        t = json.load(src)
    if damage == "magic":
        t["magic"] = "something-else"
    if damage == "version":
        t["version"] = 99
    if damage in ("magic", "version"):
        with open(path, "w") as out:
            json.dump(t, out)
    if damage == "json":
        with open(path, "w") as out:
            out.write('{"magic": "cellkeep-te')
    if damage in ("ram", "state"):
        os.truncate(os.path.join(d, damage), 100)
    if damage == "cut":
        disk = os.path.join(d, "disk.qcow2")
        os.truncate(disk, os.path.getsize(disk) - 1)
    if damage == "disk":
        with open(os.path.join(d, "disk.qcow2"), "wb") as out:
            out.write(b"not a disk")
    try:
        gw = Gateway(*f.options(), "--pool-size", "0", "--on-exit", "kill")
        try:
            gw.start(60)  # built anew: then it must work
            assert gw.client().cell(gw.client().create(), "print:x")["stdout"] == "x\n"
        except NotReady as e:
            assert e.code == 1
            line = [x for x in e.stderr.splitlines() if x.startswith("cellkeep")]
            assert len(line) == 1 and "template" in line[0], e.stderr
        finally:
            gw.end()
    finally:
        shutil.rmtree(f.cache)


@pytest.mark.parametrize("file", ["root.erofs", "vmlinuz", "initrd"])
def test_an_image_that_was_cut_short_is_refused_with_what_to_do(fake, file):
    f = copy_of(fake)
    images = os.path.join(f.cache, "images")
    os.truncate(os.path.join(images, os.listdir(images)[0], file), 3)
    said = fails(*f.options())
    assert file in said and "3 bytes" in said and "image build" in said
    shutil.rmtree(f.cache)


def test_an_unreadable_image_is_refused(fake):
    f = copy_of(fake)
    images = os.path.join(f.cache, "images")
    os.remove(os.path.join(images, os.listdir(images)[0], "root.erofs"))
    said = fails(*f.options())
    assert "image" in said
    shutil.rmtree(f.cache)


@pytest.mark.parametrize("fault,word", [("boot-dies", "panic"), ("template-fails", "told to"),
                                        ("spawn-fails", "told to fail")])
def test_a_template_that_does_not_come_up_leaves_nothing_half_made(fault, word):
    f = Fake(faults=(fault,), build=False)
    r = subprocess.run([binary(), "template", "build", "--cache-dir", f.cache, "--qemu", f.qemu, "--accel", "tcg"],
                       capture_output=True, text=True, timeout=90, stdin=subprocess.DEVNULL)
    assert r.returncode == 1 and word in r.stderr, r.stderr
    templates = os.path.join(f.cache, "templates")
    left = [d for d in os.listdir(templates)] if os.path.isdir(templates) else []
    assert not [d for d in left if os.path.exists(os.path.join(templates, d, "template.json"))], left
    shutil.rmtree(f.cache)


@pytest.mark.parametrize("command", [["build"], ["ensure", "--json"]])
def test_an_interrupted_template_build_is_not_trusted(command):
    import signal
    import time
    f = Fake(faults=("boot-hangs",), build=False)
    p = subprocess.Popen([binary(), "template", *command, "--cache-dir", f.cache, "--qemu", f.qemu, "--accel", "tcg"],
                         stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, stdin=subprocess.DEVNULL)
    time.sleep(1.5)
    p.send_signal(signal.SIGINT)
    _out, err = p.communicate(timeout=20)
    assert p.returncode not in (0, None) and "interrupt" in err.lower(), err
    from harness import procs
    assert procs.mentioning(f.cache) == {}
    templates = os.path.join(f.cache, "templates")
    left = os.listdir(templates) if os.path.isdir(templates) else []
    assert not [d for d in left if os.path.exists(os.path.join(templates, d, "template.json"))]
    shutil.rmtree(f.cache)


def test_two_gateways_on_one_state_folder(fake, start):
    gw = start("--pool-size", "0")
    said = fails(*fake.options(), "--state-dir", gw.state)
    assert gw.state in said and ("running" in said or "use" in said)
    assert gw.client().get("/healthz").status == 200


@pytest.mark.parametrize("options", [["--port", "x"], ["--port", "70000"], ["--accel", "warp"], ["--bogus"],
                                     ["--memory-mb", "1"], ["--on-exit", "dance"], ["--tls-cert", "/x"], ["extra"],
                                     ["--config", "/nonexistent.json"]])
def test_wrong_usage_is_exit_2_with_one_line(fake, options):
    fails(*fake.options(), *options, code=2)


def test_wrong_environment_and_config_are_named(fake):
    said = fails(*fake.options(), code=2, env={"CELLKEEP_ACCEL": "warp", "CELLKEEP_POOL_SIZE": "many"})
    assert "CELLKEEP_ACCEL" in said or "CELLKEEP_POOL_SIZE" in said
    d = scratch("g")
    path = os.path.join(d, "config.json")
    for text in ("{", '{"port": "x"}', '{"nonsense": 1}', "[]"):
        with open(path, "w") as f:
            f.write(text)
        assert path in fails(*fake.options(), "--config", path, code=2)
    shutil.rmtree(d)


def test_options_come_before_environment_before_file(fake):
    d = scratch("g")
    path = os.path.join(d, "config.json")
    with open(path, "w") as f:
        json.dump({"max_sessions": 1, "pool_size": 0, "memory_mb": 512}, f)
    gw = Gateway(*fake.options(), "--config", path, "--on-exit", "kill", env={"CELLKEEP_MAX_SESSIONS": "2"})
    try:
        api = gw.start().client()
        api.create()
        api.create()
        assert api.post("/v1/sessions", {}).status == 429
    finally:
        gw.end()
        shutil.rmtree(d)


def test_a_token_is_made_and_kept_private(fake):
    from harness.client import Client
    import re
    gw = Gateway(*fake.options(), "--pool-size", "0")
    gw.command = lambda: [c for c in Gateway.command(gw) if c not in ("--token", "test-token-0123456789abcdef")]
    try:
        gw.start()
        token = re.search(r"token=(\S+)", gw.url).group(1)
        assert len(token) >= 32
        path = os.path.join(gw.state, "token")
        assert os.stat(path).st_mode & 0o777 == 0o600
        assert Client("127.0.0.1", gw.port, token).get("/v1/sessions").status == 200
        gw.stop()
        gw.start()
        assert token in gw.url
    finally:
        gw.end()


def test_a_base_url_is_the_prefix_of_every_path(fake):
    gw = Gateway(*fake.options(), "--pool-size", "0", "--base-url", "/ck/", "--on-exit", "kill")
    try:
        api = gw.start().client()
        assert api.get("/ck/v1/sessions").status == 200
        assert api.get("/v1/sessions").status == 404
        r = api.post("/ck/v1/sessions", {}, timeout=60)
        assert r.headers["Location"].startswith("/ck/v1/sessions/")
        sid = r.json()["id"]
        c = api.post("/ck/v1/sessions/%s/cells" % sid, {"code": "touch:a.txt:3"}).json()
        assert api.get(c["artifacts"][0]["url"]).status == 200
    finally:
        gw.end()


@pytest.mark.parametrize("args", [["--help"], ["serve", "--help"], ["doctor", "--help"], ["run", "--help"],
                                  ["session", "--help"], ["template", "--help"], ["image", "--help"]])
def test_help_is_on_stdout_and_exit_0(args):
    r = subprocess.run([binary(), *args], capture_output=True, text=True, timeout=20)
    assert r.returncode == 0 and "usage" in r.stdout.lower(), (r.returncode, r.stdout, r.stderr)


@pytest.mark.parametrize("args", [[], ["nonsense"], ["serve", "--nonsense"], ["image"], ["template", "x"], ["run"]])
def test_wrong_subcommands_are_exit_2(args):
    r = subprocess.run([binary(), *args], capture_output=True, text=True, timeout=20)
    assert r.returncode == 2 and r.stderr.strip(), (r.returncode, r.stdout, r.stderr)


@pytest.mark.parametrize("option", [["--nope"], ["--nope", "1"], ["--nope=1"], ["--port", "1", "--nop"]])
def test_an_unknown_option_is_called_that(option):
    said = fails(*option, code=2)
    assert "no option --nop" in said and "value" not in said


def test_an_option_without_its_value_is_called_that():
    assert "--port needs a value" in fails("--port", code=2)


def test_what_the_template_builder_says_comes_from_the_command_that_was_called(fake):
    said = fails("--cache-dir", fake.cache, "--qemu", "/nonexistent/qemu", "--accel", "tcg")
    assert said.startswith("cellkeep serve: "), said


def test_a_gateway_waits_for_one_that_is_stopping(start):
    """A restart: the second is started while the first still finishes an answer."""
    first = start("--pool-size", "0")
    api = first.client()
    sid = api.create()

    def cell():
        with contextlib.suppress(ConnectionError):  # cut by the end of the first gateway
            api.post("/v1/sessions/%s/cells" % sid, {"code": "sleep:600000"})

    run = threading.Thread(target=cell)
    run.start()
    wait_for("busy", 10, lambda: api.session(sid)["state"] == "busy")
    first.proc.send_signal(signal.SIGTERM)
    wait_for("it stops", 10, lambda: "draining" in first.stderr())
    assert first.proc.poll() is None
    second = start("--pool-size", "0", state=first.state)
    assert "waiting for the gateway with pid %d" % first.proc.pid in second.stderr()
    assert first.proc.wait(10) == 0
    wait_for("the session goes on", 10, lambda: second.client().session(sid)["state"] == "busy")
    run.join(10)


def test_a_gateway_does_not_wait_for_one_that_goes_on(start):
    first = start("--pool-size", "0")
    with pytest.raises(NotReady) as e:
        start("--pool-size", "0", state=first.state)
    assert e.value.code == 1 and "pid %d uses the state folder" % first.proc.pid in e.value.stderr
    assert first.client().get("/healthz").status == 200

"""Templates with names and sizes: which one a session gets, what is said when there is none, and that sessions of
every kind (paused, forked, found again) keep theirs."""
import fcntl
import json
import os
import shutil
import subprocess
import time

import pytest

from harness.gateway import binary
from harness.life import done, pause
from integration.conftest import Fake


def template(fake, verb, *options):
    args = [binary(), "template", verb, "--cache-dir", fake.cache, *options]
    if verb == "build":
        args += ["--qemu", fake.qemu, "--accel", "tcg"]
    return subprocess.run(args, capture_output=True, text=True, timeout=120, stdin=subprocess.DEVNULL)


@pytest.fixture(scope="module")
def named():
    f = Fake()
    for options in (["--name", "big", "--memory-mb", "1024"], ["--name", "big", "--memory-mb", "768"], ["--memory-mb", "640"]):
        r = template(f, "build", *options)
        assert r.returncode == 0, r.stderr
    yield f
    shutil.rmtree(f.cache, ignore_errors=True)


def ask(api, **fields):
    return api.post("/v1/sessions", fields)


def test_sessions_get_the_template_and_size_that_they_ask_for(named, start):
    gw = start("--pool-size", "1", "--on-exit", "kill", over=named)
    api = gw.client()
    for fields, template_, memory in [({}, "default", 512), ({"template": "default"}, "default", 512),
                                      ({"memory_mb": 512}, "default", 512), ({"memory_mb": 640}, "default", 640),
                                      ({"template": "big"}, "big", 768), ({"template": "big", "memory_mb": 1024}, "big", 1024)]:
        r = ask(api, **fields)
        assert r.status == 201, (fields, r)
        s = r.json()
        assert (s["template"], s["memory_mb"]) == (template_, memory), fields
        with open("/proc/%d/cmdline" % gw.qemu_pid(s["id"])) as f:
            words = f.read().split("\0")
        assert "%dM" % memory in words, words
        assert api.cell(s["id"], "print:hello")["stdout"] == "hello\n"
    listed = {(s["template"], s["memory_mb"]) for s in api.get("/v1/sessions").json()}
    assert listed == {("default", 512), ("default", 640), ("big", 768), ("big", 1024)}


def test_templates_are_listed(named, start):
    api = start("--pool-size", "0", "--on-exit", "kill", over=named).client()
    listed = api.get("/v1/templates").json()
    assert listed == [{"name": "default", "memory_mb": [512, 640]}, {"name": "big", "memory_mb": [768, 1024]}], listed
    for t in listed:
        for size in t["memory_mb"]:
            r = ask(api, template=t["name"], memory_mb=size)
            assert r.status == 201, (t, size, r)
    put_entry(named, "other", qemu="of another version")
    try:
        assert api.get("/v1/templates").json() == listed, "what no session would get is not listed"
    finally:
        os.unlink(entry(named, "other.768.tcg.json"))


def test_a_session_of_a_named_template_keeps_it(named, start):
    gw = start("--pool-size", "0", over=named)
    api = gw.client()
    sid = ask(api, template="big", memory_mb=1024).json()["id"]
    api.cell(sid, "set:x:1")
    fork, = done(api, sid, "fork", {}, 201)
    assert (fork["template"], fork["memory_mb"]) == ("big", 1024)
    pause(api, sid)
    gw.kill()
    second = start("--pool-size", "0", "--on-exit", "kill", state=gw.state, over=named)
    api = second.client()
    for s in (sid, fork["id"]):
        model = api.session(s)
        assert (model["template"], model["memory_mb"]) == ("big", 1024)
        assert api.cell(s, "get:x")["stdout"] == "1\n"


def test_what_there_is_not_is_said_in_words(named, start):
    api = start("--pool-size", "0", "--on-exit", "kill", over=named).client()
    r = ask(api, template="huge")
    assert r.status == 400 and r.json()["reason"] == "no_such_template", r
    assert '"big"' in r.json()["message"] and '"default"' in r.json()["message"]
    for name in ("../big", "big/../big", "BIG", "big.768", ".building-big", "x" * 100):
        r = ask(api, template=name)
        assert r.status == 400 and r.json()["reason"] == "no_such_template", (name, r)
    for name in ("", "a\nb", "x" * 100000, 5):
        assert ask(api, template=name).status == 400, name
    r = ask(api, template="big", memory_mb=2048)
    assert r.status == 409 and r.json()["reason"] == "template_not_built", r
    for word in ("768", "1024", "template build --name big --memory-mb 2048"):
        assert word in r.json()["message"], r
    r = ask(api, memory_mb=2048)
    assert r.status == 409 and "template build --memory-mb 2048" in r.json()["message"], r
    for memory in (1, 383, 32769):
        assert ask(api, memory_mb=memory).status == 400, memory


def entry(fake, name):
    return os.path.join(fake.cache, "named", name)


def put_entry(fake, name, **changes):
    with open(entry(fake, "big.768.tcg.json")) as f:
        j = {**json.load(f), **changes}
    with open(entry(fake, name + ".768.tcg.json"), "w") as f:
        json.dump(j, f)


def test_a_template_that_is_being_built_is_said_to_be(named, start):
    api = start("--pool-size", "0", "--on-exit", "kill", over=named).client()
    with open(entry(named, ".building-soon.512"), "w") as f:
        fcntl.flock(f, fcntl.LOCK_SH)
        r = ask(api, template="soon")
        assert r.status == 503 and r.json()["reason"] == "template_building" and r.headers["Retry-After"], r
    r = ask(api, template="soon")
    assert r.status == 409 and r.json()["reason"] == "template_not_built", "its builder was killed: %r" % r
    with open(entry(named, ".building-big.768"), "w") as f:
        fcntl.flock(f, fcntl.LOCK_SH)
        assert ask(api, template="big").status == 201, "the old one is used while the new one is being built"
    os.unlink(entry(named, ".building-soon.512"))


@pytest.mark.parametrize("changes,words", [({"qemu": "0.1"}, "QEMU"), ({"template": "0" * 32}, "gone"), ({"image": "0" * 32}, "gone"),
                                           ({"template": "../../etc"}, "read"), ({"memory_mb": 1024}, "read")])
def test_a_name_whose_template_cannot_be_used(named, start, changes, words):
    put_entry(named, "odd", **changes)
    api = start("--pool-size", "0", "--on-exit", "kill", over=named).client()
    r = ask(api, template="odd")
    assert r.status == 409 and r.json()["reason"] == "template_not_built" and words in r.json()["message"], r
    with open(entry(named, "odd.768.tcg.json"), "w") as f:
        f.write("{")
    assert ask(api, template="odd").status == 409
    assert ask(api, template="big").status == 201 and ask(api).status == 201
    os.unlink(entry(named, "odd.768.tcg.json"))


def test_names_are_listed_and_removed(named):
    put_entry(named, "gone", template="0" * 32)
    lines = template(named, "list").stdout.splitlines()
    assert [line.split()[:2] for line in lines] == [["big", "768"], ["big", "1024"], ["default", "512"], ["default", "640"],
                                                    ["gone", "768"]]
    assert "build it again" in lines[-1]
    assert template(named, "remove", "--name", "gone").returncode == 0
    r = template(named, "remove", "--name", "gone")
    assert r.returncode == 1 and "no template" in r.stderr
    assert len(template(named, "list").stdout.splitlines()) == 4


@pytest.mark.parametrize("options", [["build", "--name", "default"], ["build", "--name", "../x"], ["build", "--name", "Big"],
                                     ["build", "--name", "x" * 65], ["build", "--packages", "/dev/null"], ["remove"],
                                     ["build", "--warm-up", "/dev/null"], ["nothing"],
                                     ["build", "--name", "x", "--image", "/x", "--packages", "/dev/null"]])
def test_wrong_usage_is_exit_2(named, options):
    r = template(named, *options)
    assert r.returncode == 2 and r.stderr.startswith("cellkeep template: "), r.stderr
    assert len(template(named, "list").stdout.splitlines()) == 4


def test_an_image_of_a_users_own_is_not_the_default_one(named):
    images = os.path.join(named.cache, "images")
    plain = next(iter(os.listdir(images)))
    own = "f" * 32
    shutil.copytree(os.path.join(images, plain), os.path.join(images, own))
    with open(os.path.join(images, own, "image.json"), "r+") as f:
        described = json.load(f)
        f.seek(0)
        json.dump({**described, "own": True}, f)
    before = set(os.listdir(os.path.join(named.cache, "templates")))
    assert template(named, "build").returncode == 0, "the newest image is the own one"
    assert set(os.listdir(os.path.join(named.cache, "templates"))) == before
    r = template(named, "build", "--name", "mine", "--image", os.path.join(images, own))
    assert r.returncode == 0, r.stderr
    with open(os.path.join(r.stdout.strip(), "template.json")) as f:
        assert json.load(f)["image"] == own
    assert template(named, "remove", "--name", "mine").returncode == 0


def test_what_a_name_means_is_not_pruned(named):
    old = time.time() - 30 * 24 * 3600
    templates = os.path.join(named.cache, "templates")
    for name in os.listdir(templates):
        if not name.startswith("."):
            os.utime(os.path.join(templates, name, "template.json"), (old, old))
    r = template(named, "build")
    assert r.returncode == 0 and "removed" in r.stderr, r.stderr
    lines = template(named, "list").stdout.splitlines()
    assert [line.split()[0] for line in lines if "again" in line] == ["default"], "640 MiB, which nobody used"
    assert template(named, "remove", "--name", "big").returncode == 0
    assert "2 templates" in template(named, "build").stderr
    assert template(named, "build", "--memory-mb", "640").returncode == 0
    for memory in ("768", "1024"):
        assert template(named, "build", "--name", "big", "--memory-mb", memory).returncode == 0

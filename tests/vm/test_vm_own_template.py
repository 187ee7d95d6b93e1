"""A template of a user's own: packages and a warm-up script (`template build --packages --warm-up`), and sessions of it
beside those of the default one. CELLKEEP_TEST_PACKAGES names a package to add that the image lacks (with its module:
`python3-tabulate:tabulate`); without it the list adds one that is there already, as a new one takes minutes and a mirror."""
import os
import subprocess

import pytest

from harness.gateway import binary

NAME = "vmtest"
PACKAGE, _, MODULE = os.environ.get("CELLKEEP_TEST_PACKAGES", "python3-numpy:numpy").partition(":")
WARM_UP = """import os
import random
import mailbox

random.random()
left_over = mailbox.__name__
with open("made.txt", "w") as f:
    f.write("uid %d" % os.getuid())
"""
LOOK = """import sys, os, pwd
loaded = "mailbox" in sys.modules
import importlib, random
importlib.import_module(%r)
made = os.path.exists("made.txt") and (open("made.txt").read(), pwd.getpwuid(os.stat("made.txt").st_uid).pw_name)
print(loaded, made, "left_over" in globals())
print(random.random())""" % MODULE


def template(verb, *options):
    return subprocess.run([binary(), "template", verb, *options], capture_output=True, text=True, timeout=900,
                          stdin=subprocess.DEVNULL)


@pytest.fixture(scope="module")
def own(tmp_path_factory, gateway):
    d = tmp_path_factory.mktemp("own")
    (d / "packages.txt").write_text("# more than the image has\n%s\n" % PACKAGE)
    (d / "warm_up.py").write_text(WARM_UP)
    r = template("build", "--name", NAME, "--packages", str(d / "packages.txt"), "--warm-up", str(d / "warm_up.py"))
    assert r.returncode == 0, r.stderr
    yield NAME
    template("remove", "--name", NAME)


def test_sessions_of_an_own_template_have_what_it_warmed_up_and_others_do_not(api, own):
    drawn = set()
    for fields, expect in [({"template": own}, "True ('uid 1000', 'user') False"), ({}, "False False False"),
                           ({"template": own}, "True ('uid 1000', 'user') False")]:
        sid = api.create(**fields)
        assert api.session(sid)["template"] == fields.get("template", "default")
        c = api.cell(sid, LOOK, timeout=150)
        assert c["status"] == "ok", c
        said, number = c["stdout"].splitlines()
        assert said == expect, (fields, c)
        drawn.add(number)
        api.delete("/v1/sessions/" + sid)
    assert len(drawn) == 3, drawn


def test_a_template_whose_warm_up_fails_says_where_and_gets_no_name(own, tmp_path):
    script = tmp_path / "fails.py"
    script.write_text("import os\n\ndef f():\n    raise ValueError('no such model')\n\nf()\n")
    r = template("build", "--name", NAME + "-2", "--warm-up", str(script))
    assert r.returncode == 1 and "line 4: ValueError: no such model" in r.stderr, r.stderr
    assert NAME + "-2" not in template("list").stdout


def test_a_list_may_have_nothing_but_names(tmp_path):
    for bad in ("--aptopt=x", "../x", "numpy;id", "?essential", "NumPy"):
        (tmp_path / "list").write_text("python3-numpy\n%s\n" % bad)
        r = template("build", "--name", NAME + "-3", "--packages", str(tmp_path / "list"))
        assert r.returncode == 1 and bad in r.stderr and "no package's name" in r.stderr, (bad, r.stderr)

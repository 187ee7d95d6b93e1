"""What the Tab key gives: bash is asked with the script that the program prints."""
import os
import re
import subprocess

import pytest

from harness.gateway import TOKEN, binary


def complete(*words, env=None):
    """The completions of the last word."""
    script = subprocess.run([binary(), "completion", "bash"], capture_output=True, text=True, check=True).stdout
    ask = script + "\nCOMP_WORDS=(%s)\nCOMP_CWORD=%d\n_cellkeep\nprintf '%%s\\n' \"${COMPREPLY[@]}\"\n" % (
        " ".join("'%s'" % w for w in (binary(), *words)), len(words))
    r = subprocess.run(["bash", "--norc", "-c", ask], capture_output=True, text=True, timeout=60, stdin=subprocess.DEVNULL,
                       env={**os.environ, **(env or {})})
    assert r.returncode == 0 and r.stderr == "", r.stderr
    return set(r.stdout.split())


def test_commands_are_those_of_the_help():
    text = subprocess.run([binary(), "--help"], capture_output=True, text=True).stdout
    commands = set(re.findall(r"^  (\w+) ", text, re.M))
    assert complete("") - {"--help", "--version"} == commands and complete("se") == {"serve", "session"}


@pytest.mark.parametrize("command", ["run", "session", "token", "mcp", "serve"])
def test_options_are_those_of_the_help(command):
    text = subprocess.run([binary(), command, "--help"], capture_output=True, text=True).stdout
    known = set(re.findall(r"--[a-z][a-z-]+", text)) | {"--help"}
    assert complete(command, "--") <= known and complete(command, "--")
    if command != "serve":  # it has many more than anybody types
        assert complete(command, "--") == known


def test_verbs_and_names_of_sessions(gateway, api):
    assert complete("session", "re") == {"restart", "resume"} and complete("token", "") == {"create", "list", "revoke"}
    sid = api.create(name="tab-me")
    env = {"CELLKEEP_URL": "http://127.0.0.1:%d" % gateway.port, "CELLKEEP_TOKEN": TOKEN}
    assert complete("session", "delete", "tab", env=env) == {"tab-me"}
    assert complete("run", "--session", "tab", env=env) == {"tab-me"}
    api.delete("/v1/sessions/" + sid)


def test_the_other_shells_get_a_script_and_unknown_ones_an_error():
    for shell in ("zsh", "fish"):
        assert "cellkeep" in subprocess.run([binary(), "completion", shell], capture_output=True, text=True, check=True).stdout
    assert subprocess.run([binary(), "completion", "tcsh"], capture_output=True).returncode == 2

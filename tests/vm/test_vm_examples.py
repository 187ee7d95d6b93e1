"""The examples of docs/examples that need no packages, run as a reader would, with what they print."""
import os
import subprocess
import sys

import pytest

from harness.gateway import ROOT, TOKEN

EXAMPLES = os.path.join(ROOT, "docs", "examples")

CLIENT = ["sum: 7", "live: hello ada", "live: hello bob"]


def example(gateway, *command):
    env = {"PATH": os.environ["PATH"], "HOME": os.environ.get("HOME", "/"), "PYTHONDONTWRITEBYTECODE": "1",
           "CELLKEEP_URL": "http://127.0.0.1:%d" % gateway.port, "CELLKEEP_TOKEN": TOKEN}
    r = subprocess.run(command, capture_output=True, text=True, timeout=280, stdin=subprocess.DEVNULL, env=env,
                       cwd=os.environ["CELLKEEP_TEST_TMP"])
    assert r.returncode == 0, (r.stdout, r.stderr)
    return r.stdout


@pytest.fixture(autouse=True)
def nothing_stays(api):
    yield
    assert api.get("/v1/sessions").json() == []


def test_curl(gateway):
    out = example(gateway, "sh", os.path.join(EXAMPLES, "curl.sh"))
    assert '"stdout":"x is 42\\n"' in out and '"result":{"text/plain": "43"}' in out, out
    streams = [line for line in out.splitlines() if line.startswith("event: ")]
    assert set(streams) == {"event: stream", "event: done"} and streams[-1] == "event: done", out
    after = out.split("a file comes out\n")[1].splitlines()
    assert after[0] == "7" and '"stdout":"3\\n"' in after[2], out


def test_python_with_the_standard_library_alone(gateway):
    out = example(gateway, sys.executable, os.path.join(EXAMPLES, "client.py"))
    assert out.splitlines() == [*CLIENT, "file: chart.png image/png True", "ending: error ZeroDivisionError", "command: 42"]


def test_node_without_packages(gateway):
    out = example(gateway, "node", os.path.join(EXAMPLES, "client.mjs"))
    assert out.splitlines() == [*CLIENT, "ending: ok", "file: chart.png image/png true"]


def test_the_loop_around_a_model(gateway):
    out = example(gateway, sys.executable, os.path.join(EXAMPLES, "model_loop.py")).splitlines()
    assert out[0].startswith("tool: [\"AttributeError: 'DataFrame' object has no attribute 'sume'"), out
    assert out[1:] == ["tool: ['10']", "tool: ['file: /home/user/x.csv', 'image_url']",
                       "answer: The sum is 10; the line rises by one each step."], out

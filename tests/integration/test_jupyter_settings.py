"""The knobs of the Jupyter door, each as an option, an environment variable and a key of the file."""
import json
import os

import pytest

from harness.client import Client
from harness.gateway import TOKEN, scratch
from harness.jupyter import Socket, reply, stdout


@pytest.fixture(params=["option", "environment", "file"])
def started(request, start):
    """started(**settings) -> a gateway that was told them in one of the three ways."""
    def begin(**settings):
        fixed = ["--pool-size", "1", "--on-exit", "kill"]
        if request.param == "option":
            return start(*fixed, *["--%s=%s" % (k.replace("_", "-"), v) for k, v in settings.items()])
        if request.param == "environment":
            return start(*fixed, env={"CELLKEEP_" + k.upper(): str(v) for k, v in settings.items()})
        path = os.path.join(scratch("f"), "config.json")
        with open(path, "w") as f:
            json.dump(settings, f)
        return start(*fixed, "--config", path)
    return begin


@pytest.mark.parametrize("name", ["max_kernels", "max_sessions"])
def test_there_are_at_most_max_kernels(started, name):
    api = started(**{name: 1}).client()
    first = api.post("/api/kernels")
    assert first.status == 201
    for path, body in (("/api/kernels", None), ("/api/sessions", {"path": "x", "type": "notebook"})):
        r = api.post(path, body)
        assert r.status == 403 and "1" in r.json()["message"], r
    assert api.delete("/api/kernels/" + first.json()["id"]).status == 204
    assert api.post("/api/kernels").status == 201


def test_the_default_kernel_is_what_the_setting_names(started):
    api = started(default_kernel_name="nope").client()
    assert api.get("/api/kernelspecs").json()["default"] == "nope"
    r = api.post("/api/kernels")
    assert r.status == 500 and b"raise NoSuchKernel: nope" in r.body
    r = api.post("/api/sessions", {"path": "x", "type": "notebook"})
    assert r.status == 501 and r.json()["short_message"] == "nope not found"
    assert api.post("/api/kernels", {"name": "python3"}).status == 201


def test_the_list_of_kernels_can_be_closed(started):
    api = started(list_kernels="no").client()
    kernel = api.post("/api/kernels").json()["id"]
    for path in ("/api/kernels", "/api/sessions"):
        r = api.get(path)
        assert r.status == 403 and "list-kernels" in r.json()["message"], r
    assert api.get("/api/kernels/" + kernel).status == 200
    assert api.get("/api/kernelspecs").status == 200


def test_everything_is_below_the_base_url(started):
    gw = started(base_url="/deep/er")
    api = gw.client()
    assert "/deep/er/?token=" in gw.url
    r = api.post("/deep/er/api/kernels")
    assert r.status == 201 and r.headers["Location"] == "/deep/er/api/kernels/" + r.json()["id"]
    assert api.get("/deep/er/api/kernels").json()[0]["id"] == r.json()["id"]
    for path in ("/api", "/api/kernels", "/deep/api"):
        assert api.get(path).status == 404, path


def test_the_allowed_origin_is_told(started):
    gw = started(allow_origin="https://lab.example")
    nobody = Client("127.0.0.1", gw.port, None)
    for method in ("OPTIONS", "GET"):
        r = nobody.request(method, "/api/kernels", headers={"Origin": "https://lab.example"})
        assert r.headers["Access-Control-Allow-Origin"] == "https://lab.example"
    assert r.status == 403


def test_only_kernel_variables_and_allowed_ones_reach_the_kernel(started):
    gw = started(env_allow="LANG_OF_USER,TZ")
    api = gw.client()
    env = {"KERNEL_USERNAME": "ann", "TZ": "UTC", "LANG_OF_USER": "de", "PATH": "/evil", "SECRET_KEY": "sEcReT-1",
           "KERNEL_GATEWAY": "0", "KERNEL_BAD NAME": "x", "KERNEL_NUMBER": 7}
    kernel = api.post("/api/kernels", {"name": "python3", "env": env}).json()["id"]
    want = {"KERNEL_USERNAME": "ann", "TZ": "UTC", "LANG_OF_USER": "de", "PATH": "", "SECRET_KEY": "",
            "KERNEL_GATEWAY": "1", "KERNEL_NUMBER": ""}
    for name, value in want.items():
        assert api.cell(kernel, "env:" + name)["stdout"] == value + "\n", name
    assert "sEcReT-1" not in gw.stderr() and "KERNEL_USERNAME" not in gw.stderr()


def test_a_message_rate_over_the_limit_is_cut_and_told(started):
    gw = started(iopub_msg_rate_limit=100, rate_limit_window=2)
    sock = Socket(gw, gw.client().create(), TOKEN)
    got = sock.execute("flood:600:10\nthe result")
    assert len([m for m in got if m["msg_type"] == "stream" and m["content"]["name"] == "stdout"]) == 200
    told = [m["content"]["text"] for m in got if m["msg_type"] == "stream" and m["content"]["name"] == "stderr"]
    assert len(told) == 1 and told[0].startswith("IOPub message rate exceeded.\n") and "=100 " in told[0]
    assert reply(got)["status"] == "ok" and not [m for m in got if m["msg_type"] == "execute_result"]
    assert stdout(sock.execute("print:the next cell starts afresh")) == "the next cell starts afresh\n"
    sock.close()


def test_a_data_rate_over_the_limit_is_cut_and_told(started):
    gw = started(iopub_data_rate_limit=100000, rate_limit_window=2)
    sock = Socket(gw, gw.client().create(), TOKEN, v1=False)
    got = sock.execute("flood:50:10000")
    passed = stdout(got)
    assert 150000 < len(passed) <= 200000, len(passed)
    told = [m["content"]["text"] for m in got if m["msg_type"] == "stream" and m["content"]["name"] == "stderr"]
    assert len(told) == 1 and told[0].startswith("IOPub data rate exceeded.\n")
    sock.close()


def test_without_the_settings_nothing_is_limited(gateway, session):
    sock = Socket(gateway, session, TOKEN)
    got = sock.execute("flood:6000:10\nflood:80:50000")
    assert len(stdout(got)) == 6000 * 10 + 80 * 50000
    assert not [m for m in got if m["msg_type"] == "stream" and m["content"]["name"] == "stderr"]
    sock.close()


def test_the_largest_message_is_a_setting_either_way(started):
    gw = started(max_message_mb=2)
    sid = gw.client().create()
    for v1 in (True, False):
        sock = Socket(gw, sid, TOKEN, v1=v1)
        assert stdout(sock.execute("print:x\n#" + "y" * 1900000)) == "x\n"
        refused = sock.execute("print:x\n#" + "y" * 2200000)
        assert reply(refused)["ename"] == "MessageTooLarge" and "2 MiB" in reply(refused)["evalue"]
        assert [m["msg_type"] for m in refused] == ["status", "error", "execute_reply", "status"]
        assert len(stdout(sock.execute("huge:1900000"))) == 1900000
        dropped = sock.execute("huge:2200000\nprint:after")
        assert stdout(dropped) == "after\n"
        assert any("the cap is 2097152" in m["content"].get("text", "") for m in dropped)
        sock.close()

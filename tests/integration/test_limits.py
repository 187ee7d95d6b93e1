"""Limits of sessions and what they have used: what a client may ask for, what it is told, who keeps it."""
import re
import shutil

import pytest

from harness.gateway import Gateway, wait_for
from harness.life import done, pause
from integration.conftest import Fake, checked_end

MIB = 1 << 20


@pytest.fixture(scope="module")
def gateway(fake):
    gw = Gateway(*fake.options(), "--pool-size", "1", "--on-exit", "kill", "--limit-pids", "100:200", "--limit-output-mb", "1:2",
                 "--limit-artifacts", "5:50", "--limit-upload-mb", "3:4", "--limit-disk-mb", "1000:2000",
                 "--max-cell-timeout-s", "60", "--max-command-timeout-s", "40", "--max-memory-mb", "600").start()
    yield gw
    checked_end(gw)


def refusal(api, **fields):
    r = api.post("/v1/sessions", fields)
    assert r.status == 400, r
    return r.json()


def metric(api, name):
    text = api.get("/metrics").body.decode()
    return float(re.search(r"^%s (\S+)$" % re.escape(name), text, re.M).group(1))


# --- asking -----------------------------------------------------------------------------------------


def test_a_session_says_its_limits(api, session):
    limits = api.session(session)["limits"]
    assert limits == {"cpu_weight": 100, "disk_mb": 1000, "pids": 100, "open_files": 65536, "output_mb": 1, "message_mb": 104,
                      "artifacts": 5, "artifact_mb": 4096, "upload_mb": 3}


@pytest.mark.parametrize("limits, words", [
    ({"pids": 201}, '"limits.pids" must be a whole number from 32 to 200, which is this server\'s maximum'),
    ({"pids": 1}, "from 32 to 200"), ({"disk_mb": 2001}, "to 2000"), ({"output_mb": 3}, "to 2"), ({"upload_mb": 5}, "to 4"),
    ({"artifacts": 51}, "to 50"), ({"cpu_weight": 101}, "to 100"), ({"open_files": 65537}, "to 65536"),
    ({"message_mb": 105}, "to 104"), ({"pids": "many"}, "whole number"), ({"pids": 64.5}, "whole number")])
def test_more_than_the_maximum_is_refused_by_name(api, limits, words):
    said = refusal(api, limits=limits)
    assert said["reason"] == "bad_field" and words in said["message"], said


def test_limits_that_are_none(api):
    assert refusal(api, limits={"pidz": 5})["reason"] == "unknown_field"
    assert refusal(api, limits=[1])["reason"] == "bad_field"
    assert "at most 600" in refusal(api, memory_mb=1024)["message"]
    assert "at most 60" in refusal(api, timeouts={"cell_s": 61})["message"]
    assert api.request("PATCH", "/v1/sessions/" + api.create(), {"timeouts": {"cell_s": 61}}).status == 400


# --- who keeps them ---------------------------------------------------------------------------------


def test_the_guest_is_told_once_and_keeps_it_over_pause_fork_and_restart(api):
    sid = api.create(limits={"pids": 64, "open_files": 500, "disk_mb": 100})
    told = '{"pids": 64, "open_files": 500, "disk_bytes": %d}\n' % (100 * MIB)
    assert api.cell(sid, "limits")["stdout"] == told
    pause(api, sid)
    assert api.session(sid)["limits"]["pids"] == 64
    done(api, sid, "resume")
    assert api.session(sid)["limits"]["disk_mb"] == 100
    fork = api.post("/v1/sessions/%s/fork" % sid, {}, timeout=120).json()[0]
    assert fork["limits"] == api.session(sid)["limits"]


def test_limits_outlive_the_gateway(fake, start):
    first = start("--pool-size", "1")
    sid = first.client().create(limits={"pids": 64, "output_mb": 2}, timeouts={"cell_s": 7})
    before = first.client().session(sid)
    first.kill()
    second = start("--pool-size", "1", "--on-exit", "kill", state=first.state)
    assert second.client().session(sid)["limits"] == before["limits"]


def test_a_guest_that_knows_no_limits_says_which_template_is_too_old(fake, start):
    """An agent of before limits existed, in a template with a name that was kept."""
    old = Fake(faults=["no-limits"])
    try:
        api = start("--pool-size", "1", "--on-exit", "kill", over=old).client()
        assert api.post("/v1/sessions", {}).status == 201  # what it has anyway needs no word
        r = api.post("/v1/sessions", {"limits": {"pids": 64}})
        assert r.status == 409 and r.json()["reason"] == "template_not_built", r
    finally:
        shutil.rmtree(old.cache, ignore_errors=True)


def test_output_is_kept_as_far_as_the_limit_goes(api):
    small, large = api.create(limits={"output_mb": 1}), api.create(limits={"output_mb": 2})
    for sid, mib in ((small, 1), (large, 2)):
        c = api.cell(sid, "flood:40:100000")
        assert mib * MIB * 0.8 < len(c["stdout"]) <= mib * MIB * 1.01
        assert c["limits_hit"] == ["output_mb"] and c["truncated"]["stdout_bytes"] > 0
        assert "limits_hit" not in api.cell(sid, "print:little")


def test_artifacts_are_listed_as_many_and_as_large_as_the_limits_allow(api):
    sid = api.create(limits={"artifacts": 3, "artifact_mb": 1})
    c = api.cell(sid, "touch:a:10\ntouch:b:10\ntouch:c:10\ntouch:d:10")
    assert len(c["artifacts"]) == 3 and c["artifacts_total"] == 4 and c["limits_hit"] == ["artifacts"]
    c = api.cell(sid, "touch:big:%d\ntouch:small:10" % (MIB + 1))
    assert [a["name"] for a in c["artifacts"]] == ["small"] and c["artifacts_total"] == 2
    assert c["limits_hit"] == ["artifact_mb"] and c["truncated"]["large_artifacts"] == 1
    assert len(api.get_file(sid, "/home/user/big").body) == MIB + 1  # it is there all the same


def test_a_message_over_the_limit_is_dropped_and_counted(api):
    sid = api.create(limits={"message_mb": 1})
    c = api.cell(sid, "display:text/html:%d" % (2 * MIB))
    assert c["displays"] == [] and c["truncated"]["displays"] == 1 and "the cap is %d" % MIB in c["stderr"]


def test_processes_that_were_refused_and_a_full_disk_are_named(api, session):
    cells = ["agent:usage:pids_refused=%d&disk_free_bytes=%d&disk_bytes=%d\nprint:x" % how
             for how in ((0, MIB * 50, 5), (3, MIB * 50, 5), (3, 4096, 9), (3, 4096, 9))]
    hits = [api.cell(session, code).get("limits_hit") for code in cells]
    assert hits == [None, ["pids"], ["disk_mb"], None], "the last one wrote nothing"
    assert api.cell(session, "agent:usage:disk_bytes=12345&cpu_ms=1")["usage"]["disk_bytes"] == 12345


@pytest.mark.parametrize("archive", [False, True])
def test_an_upload_over_the_limit_is_refused_before_it_is_sent(api, session, archive):
    path = api.file_path(session, "/home/user/new") + ("?archive=tar" if archive else "")
    r = api.request("PUT", path, bytes(3 * MIB + 1))
    assert r.status == 413 and r.json()["reason"] == "upload_too_large"
    assert "at most 3 MiB (limits.upload_mb)" in r.json()["message"]
    assert api.get_file(session, "/home/user/new").status == 404


def test_an_upload_of_unknown_length_ends_at_the_limit(api, session):
    path = api.file_path(session, "/home/user/new")
    c = api.connection()
    c.request("PUT", path, (bytes(MIB // 2) for _ in range(8)), api.headers(), encode_chunked=True)
    assert c.getresponse().status == 413
    c.close()
    assert api.get_file(session, "/home/user/new").status == 404
    assert api.request("PUT", path, bytes(3 * MIB)).status == 201


def test_an_upload_over_mcp_has_the_same_limit(api, session):
    call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "write_file", "arguments": {
        "session": session, "path": "x", "content": "y" * (3 * MIB + 1)}, "_meta": {
            "io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {}}}}
    r = api.post("/mcp", call, headers={
        "Content-Type": "application/json", "Accept": "application/json, text/event-stream",
        "MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call", "Mcp-Name": "write_file"})
    assert r.status == 200 and b"at most 3 MiB" in r.body, r


def test_nobody_gets_more_time_than_the_maximum(api, session):
    cell = api.post("/v1/sessions/%s/cells" % session, {"code": "print:1", "timeout_s": 61})
    assert cell.status == 400 and "at most 60" in cell.json()["message"], cell
    assert api.cell(session, "print:1", timeout_s=60)["status"] == "ok"
    command = api.post("/v1/sessions/%s/commands" % session, {"cmd": "echo x", "timeout_s": 41})
    assert command.status == 400 and "at most 40" in command.json()["message"], command
    assert api.post("/v1/sessions/%s/commands" % session, {"cmd": "echo x", "timeout_s": 40}).status == 200


def test_a_cell_without_a_time_has_the_maximum(fake, start):
    api = start("--pool-size", "1", "--on-exit", "kill", "--max-cell-timeout-s", "1").client()
    c = api.cell(api.create(), "sleep:60000")
    assert c["status"] == "timeout" and "1000 ms" in c["detail"]


def test_a_time_that_is_changed_holds_from_the_next_cell_on(api, session):
    path = "/v1/sessions/" + session
    assert api.request("PATCH", path, {"timeouts": {"cell_s": 1}}).status == 200
    assert api.cell(session, "sleep:30000")["status"] == "timeout"
    assert api.cell(session, "sleep:1500", timeout_s=30)["status"] == "ok", "a cell's own goes before"
    assert api.request("PATCH", path, {"timeouts": {"cell_s": 0}}).status == 200
    assert api.cell(session, "sleep:1500")["status"] == "ok"


# --- usage ------------------------------------------------------------------------------------------


def test_a_session_says_what_it_has_used(api, session):
    api.cell(session, "print:1")
    api.cell(session, "error:X:y")
    used = api.session(session)["usage"]
    assert used["cells"] == {"ok": 1, "error": 1} and used["wall_ms"] >= 0 and used["vm_cpu_ms"] >= 0
    assert {"cpu_ms", "memory_bytes", "peak_memory_bytes", "disk_bytes", "cell_wall_ms", "cell_cpu_ms"} <= set(used)
    wait_for("the list knows it, too", 10, lambda: (next(
        s for s in api.get("/v1/sessions").json() if s["id"] == session)["usage"] or {}).get("cells") == {"ok": 1, "error": 1})


def test_usage_goes_on_over_a_pause_and_a_fork_begins_from_nothing(api, session):
    for _ in range(3):
        api.cell(session, "print:1")
    before = pause(api, session)["usage"]
    done(api, session, "resume")
    after = api.session(session)["usage"]
    assert after["cells"] == before["cells"] == {"ok": 3}
    assert after["vm_cpu_ms"] >= before["vm_cpu_ms"] and after["wall_ms"] >= before["wall_ms"]
    fork = api.post("/v1/sessions/%s/fork" % session, {}, timeout=120).json()[0]
    assert api.session(fork["id"])["usage"]["cells"] == {}


def test_metrics_add_up_and_never_fall(api, session):
    before = {n: metric(api, n) for n in ('cellkeep_cells_total{status="ok"}', 'cellkeep_cells_total{status="error"}',
                                          "cellkeep_vm_cpu_seconds_total", "cellkeep_session_seconds_total")}
    for _ in range(4):
        api.cell(session, "print:1")
    api.cell(session, "error:X:y")
    wait_for("the failed cell is counted", 10, lambda: metric(api, 'cellkeep_cells_total{status="error"}')
             == before['cellkeep_cells_total{status="error"}'] + 1)
    assert metric(api, 'cellkeep_cells_total{status="ok"}') == before['cellkeep_cells_total{status="ok"}'] + 4
    assert metric(api, "cellkeep_vm_cpu_seconds_total") >= before["cellkeep_vm_cpu_seconds_total"]
    api.delete("/v1/sessions/" + session)
    assert metric(api, "cellkeep_session_seconds_total") >= before["cellkeep_session_seconds_total"]

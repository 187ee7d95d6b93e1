"""Commands and files of a real guest where something is not as the client thinks, and a file too large for memory."""
from harness import procs


def run(api, sid, timeout=150, **fields):
    r = api.post("/v1/sessions/%s/commands" % sid, fields, timeout=timeout)
    assert r.status == 200, r
    return r.json()


def test_commands_that_misbehave(api, shared):
    r = run(api, shared, argv=["no-such-program"])
    assert r["exit_code"] == 127 and "no-such-program" in r["stderr"] and r["stdout"] == "", r
    r = run(api, shared, cmd="no-such-program --help")
    assert r["exit_code"] == 127 and "not found" in r["stderr"], r
    r = run(api, shared, argv=["/etc/hostname"])
    assert r["exit_code"] == 126 and r["stderr"], r
    r = run(api, shared, cmd="kill -SEGV $$")
    assert (r["exit_code"], r["signal"]) == (139, 11), r
    r = run(api, shared, cmd="trap '' TERM INT HUP; echo deaf; while :; do sleep 1; done", timeout_s=10)
    assert r["exit_code"] == 124 and r["timed_out"] and r["stdout"] == "deaf\n", r
    r = run(api, shared, cmd="sleep 7778 & echo left")
    assert r["exit_code"] == 0 and r["stdout"] == "left\n" and not r["timed_out"], r
    r = run(api, shared, cmd="pgrep -fc 'sleep 777[8]'; pkill -f 'sleep 777[8]'")
    assert r["stdout"] == "1\n", r  # what was left in the background goes on
    assert run(api, shared, cmd="echo $X; pwd", env={"X": "y"}, cwd="/tmp")["stdout"] == "y\n/tmp\n"


def test_a_folder_where_a_file_is_expected_and_the_other_way_round(api, shared):
    run(api, shared, cmd="mkdir -p folder/below; echo x > plain.txt; mkfifo pipe")
    r = api.request("PUT", api.file_path(shared, "/home/user/folder"), b"x")
    assert r.status == 409 and r.json()["reason"] == "is_a_folder", r
    r = api.request("PUT", api.file_path(shared, "/home/user/plain.txt/x"), b"x")
    assert r.status == 409 and r.json()["reason"] == "not_a_folder", r
    r = api.delete(api.file_path(shared, "/home/user/folder"))
    assert r.status == 409 and r.json()["reason"] == "not_empty", r
    assert api.get_file(shared, "/home/user/folder").json()["type"] == "dir"
    assert api.get_file(shared, "/home/user/pipe").status in (400, 403, 409)
    r = api.post("/v1/sessions/%s/commands" % shared, {"cmd": "true", "cwd": "/home/user/plain.txt"}, timeout=150)
    assert r.status == 400 and r.json()["reason"] == "bad_cwd", r
    assert api.delete(api.file_path(shared, "/home/user/folder") + "?recursive=true").status == 204


def test_a_file_of_two_gigabytes_costs_no_memory(gateway, api, session):
    size, most = 2 << 30, 48 << 20
    run(api, session, cmd="truncate -s %d huge" % size)
    pids = gateway.pid, gateway.bridge_pid(session)
    begun = [procs.rss_bytes(p) for p in pids]

    def grown():
        return [procs.rss_bytes(p) - b for p, b in zip(pids, begun)]

    c = api.connection(280)
    c.request("GET", api.file_path(session, "/home/user/huge"), headers=api.headers())
    r = c.getresponse()
    assert r.status == 200 and int(r.headers["Content-Length"]) == size
    got, peak = 0, [0, 0]
    while got < 96 << 20 and (piece := r.read(1 << 20)):  # enough to see what it costs; the whole takes minutes here
        got += len(piece)
        peak = [max(a, b) for a, b in zip(peak, grown())]
    c.close()
    assert got == 96 << 20 and max(peak) < most, peak
    tail = api.get_file(session, "/home/user/huge", headers={"Range": "bytes=-5"})
    assert tail.status == 206 and tail.body == bytes(5) and tail.headers["Content-Range"].endswith("/%d" % size)

    def pieces():
        for _ in range(64):
            yield bytes(1 << 20)
            peak[:] = [max(a, b) for a, b in zip(peak, grown())]

    c = api.connection(280)
    c.request("PUT", api.file_path(session, "/home/user/up"), pieces(), {**api.headers(), "Content-Length": str(64 << 20)})
    assert c.getresponse().status == 201
    c.close()
    assert max(peak) < most, peak

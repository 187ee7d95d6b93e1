"""The file API where something is not as the client thinks: versions, ranges, names, uploads that break off."""
import http.client
import json

import pytest

from harness.gateway import wait_for


@pytest.fixture
def files(session):
    return "/v1/sessions/%s/files/home/user/" % session


def refused(answer, status, reason):
    assert answer.status == status, answer
    assert answer.json()["reason"] == reason and answer.json()["message"], answer
    return answer


def test_a_range_beyond_the_end_is_416_with_the_length(api, files):
    api.request("PUT", files + "a.csv", b"12345678")
    for value in ("bytes=8-", "bytes=100-200", "bytes=-0"):
        r = refused(api.get(files + "a.csv", headers={"Range": value}), 416, "bad_range")
        assert r.headers["Content-Range"] == "bytes */8", r.headers
    r = api.get(files + "a.csv", headers={"Range": "bytes=6-100"})
    assert (r.status, r.body, r.headers["Content-Range"]) == (206, b"78", "bytes 6-7/8")
    r = api.get(files + "a.csv", headers={"Range": "bytes=8-", "If-Range": '"another"'})
    assert (r.status, r.body) == (200, b"12345678")
    assert api.get(files + "a.csv", headers={"Range": "lines=1-2"}).status == 200


def test_a_lost_version_is_412_and_nothing_is_written(api, files):
    first = api.request("PUT", files + "v.txt", b"first").headers["ETag"]
    second = api.request("PUT", files + "v.txt", b"second", headers={"If-Match": first})
    assert second.status == 200 and second.headers["ETag"] != first
    refused(api.request("PUT", files + "v.txt", b"late", headers={"If-Match": first}), 412, "precondition_failed")
    refused(api.request("PUT", files + "v.txt", b"new", headers={"If-None-Match": "*"}), 412, "precondition_failed")
    refused(api.request("PUT", files + "none.txt", b"x", headers={"If-Match": "*"}), 412, "precondition_failed")
    refused(api.get(files + "v.txt", headers={"If-Match": first}), 412, "precondition_failed")
    assert api.get(files + "v.txt").body == b"second" and api.get(files + "none.txt").status == 404


def test_a_file_that_changes_while_it_is_read_does_not_arrive_as_whole(api, files):
    size = 24 << 20
    assert api.request("PUT", files + "big.bin", b"a" * size).status == 201
    c = api.connection(60)
    c.request("GET", files + "big.bin", headers=api.headers())
    r = c.getresponse()
    assert r.status == 200 and int(r.headers["Content-Length"]) == size
    begun = r.read(1000)
    assert api.request("PUT", files + "big.bin", b"b" * size).status == 200
    with pytest.raises((http.client.IncompleteRead, ConnectionError)):
        rest = r.read()
        assert set(begun + rest) == {ord("a")} and len(begun + rest) < size, "two versions were mixed"
    c.close()
    assert set(api.get(files + "big.bin").body) == {ord("b")}


@pytest.mark.parametrize("name,status,reason", [
    ("n" * 255, 201, None), ("n" * 256, 400, "bad_path"), ("n" * 4096, 400, "bad_path"),
    ("/".join(["d" * 200] * 22), 400, "bad_path"), ("a%00b", 400, None), ("..%2f..%2fetc%2fpasswd", 403, "path_outside")])
def test_names_at_and_beyond_their_limits(api, files, name, status, reason):
    r = api.request("PUT", files + name, b"x")
    assert r.status == status, r
    if reason:
        refused(r, status, reason)
        refused(api.get(files + name), status, reason)
    elif status == 201:
        assert api.get(files + name).body == b"x"


def test_a_move_to_a_name_that_is_too_long_is_refused(api, files):
    api.request("PUT", files + "m.txt", b"x")
    refused(api.post(files + "m.txt", {"action": "move", "to": "n" * 4096}), 400, "bad_path")
    refused(api.post(files + "m.txt", {"action": "move", "to": "../../../etc/x"}), 403, "path_outside")
    assert api.get(files + "m.txt").body == b"x"


def test_an_upload_that_breaks_off_leaves_the_version_that_was_there(gateway, api, files):
    import socket
    api.request("PUT", files + "keep.bin", b"whole")
    s = socket.create_connection(("127.0.0.1", gateway.port), 10)
    s.sendall(("PUT %s HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\nContent-Length: 3000000\r\n\r\n"
               % (files + "keep.bin", api.token)).encode() + b"x" * 2000000)
    s.close()
    wait_for("the session to be at rest", 20, lambda: api.get(files + "keep.bin").body == b"whole")
    names = [e["name"] for e in api.get(files.rstrip("/")).json()["entries"]]
    assert names == ["keep.bin"], names


def test_an_upload_in_chunks_that_ends_early_writes_nothing(gateway, api, files):
    import socket
    s = socket.create_connection(("127.0.0.1", gateway.port), 10)
    s.sendall(("PUT %s HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\nZZ\r\n"
               % (files + "chunks.txt", api.token)).encode())
    assert b" 400 " in s.recv(4000).splitlines()[0]
    s.close()
    assert api.get(files + "chunks.txt").status == 404


# --- fields -----------------------------------------------------------------------------------------------

S = "/v1/sessions"
WRONG = [
    ("POST", S, {"nme": "x"}, "nme"), ("POST", S, {"name": ""}, "name"), ("POST", S, {"name": 7}, "name"),
    ("POST", S, {"name": "n" * 201}, "name"), ("POST", S, {"template": "other"}, "template"),
    ("POST", S, {"memory_mb": "512"}, "memory_mb"), ("POST", S, {"memory_mb": 0}, "memory_mb"),
    ("POST", S, {"env": {"1A": "x"}}, "env"), ("POST", S, {"env": {"A": 1}}, "env"), ("POST", S, {"env": []}, "env"),
    ("POST", S, {"env": {"A": "x" * (129 << 10)}}, "env"), ("POST", S, {"timeouts": {"cell_s": -1}}, "timeouts.cell_s"),
    ("POST", S, {"timeouts": {"cel_s": 1}}, "cel_s"), ("POST", S, {"timeouts": {"idle_s": 604801}}, "timeouts.idle_s"),
    ("POST", S, {"artifact_ignore": ".cache"}, "artifact_ignore"), ("POST", S, {"artifact_ignore": ["a/b"]}, "artifact_ignore"),
    ("PATCH", S + "/{s}", {"artifact_ignore": []}, "artifact_ignore"),
    ("POST", S, {"metadata": "x"}, "metadata"), ("POST", S, {"metadata": {"x": "y" * 70000}}, "metadata"),
    ("PATCH", S + "/{s}", {"env": {}}, "env"), ("PATCH", S + "/{s}", {"memory_mb": 5}, "memory_mb"),
    ("POST", S + "/{s}/cells", {"cod": "1"}, "cod"), ("POST", S + "/{s}/cells", {"code": 1}, "code"),
    ("POST", S + "/{s}/cells", {"code": "1", "timeout_s": 0}, "timeout_s"),
    ("POST", S + "/{s}/cells", {"code": "1", "timeout_s": 604801}, "timeout_s"),
    ("POST", S + "/{s}/cells", {"code": "1", "silent": "yes"}, "silent"),
    ("POST", S + "/{s}/cells", {"code": "1", "stdin": 7}, "stdin"), ("POST", S + "/{s}/cells", {"code": "1", "stdin": [1]}, "stdin"),
    ("POST", S + "/{s}/cells", {"code": "1", "stdin": ["x"] * 10001}, "stdin"),
    ("POST", S + "/{s}/cells", {"code": "1", "output": {"strip": True}}, "strip"),
    ("POST", S + "/{s}/cells", {"code": "1", "output": {"max_image_edge": 8}}, "max_image_edge"),
    ("POST", S + "/{s}/commands", {}, "cmd"), ("POST", S + "/{s}/commands", {"cmd": "x", "argv": ["x"]}, "argv"),
    ("POST", S + "/{s}/commands", {"argv": []}, "argv"), ("POST", S + "/{s}/commands", {"argv": [1]}, "argv"),
    ("POST", S + "/{s}/commands", {"cmd": "x", "cwd": 7}, "cwd"), ("POST", S + "/{s}/commands", {"cmd": "x", "shell": 1}, "shell"),
    ("POST", S + "/{s}/commands", {"cmd": "x" * (129 << 10)}, "cmd"),
    ("POST", S + "/{s}/commands", {"cmd": "x", "env": {"A=B": "x"}}, "env"),
    ("POST", S + "/{s}/commands", {"cmd": "x", "timeout_s": -1}, "timeout_s"),
    ("POST", S + "/{s}/commands", {"cmd": "x", "stdin": 1}, "stdin"),
    ("POST", S + "/{s}/files/home/user/x", {"action": "copy"}, "action"), ("POST", S + "/{s}/files/home/user/x", {}, "action"),
    ("POST", S + "/{s}/files/home/user/x", {"action": "move"}, "to"),
    ("POST", S + "/{s}/files/home/user/x", {"action": "mkdir", "mode": 1}, "mode"),
    ("POST", S + "/{s}/fork", {"count": 0}, "count"), ("POST", S + "/{s}/fork", {"n": 1}, "n"),
    ("POST", S + "/{s}/checkpoints", {"name": "a/b"}, "name"), ("POST", S + "/{s}/rollback", {}, "checkpoint"),
]


@pytest.fixture(scope="module")
def kept(gateway):
    return gateway.client().create()


@pytest.mark.parametrize("method,path,body,word", WRONG)
def test_a_wrong_field_is_400_and_named(api, kept, method, path, body, word):
    r = api.request(method, path.format(s=kept), body)
    assert r.status == 400, r
    assert word in r.json()["message"] and len(r.json()["message"]) < 400, r
    assert api.session(kept)["state"] in ("idle", "busy")


@pytest.mark.parametrize("path", [S + "/{s}", S + "/{s}/cells", S + "/{s}/commands"])
def test_text_that_is_not_utf8_is_400(api, kept, path):
    r = api.request("PATCH" if path.endswith("{s}") else "POST", path.format(s=kept), b'{"name":"\xff","cmd":"\xff","code":"\xff"}')
    assert r.status == 400 and r.json()["reason"] == "bad_utf8" and "byte" in r.json()["message"], r


# --- many sessions ----------------------------------------------------------------------------------------

def test_sessions_are_found_by_metadata_and_come_in_pages(gateway):
    api = gateway.client()
    made = [api.create(name="p%d" % i, metadata={"user": "ada" if i % 2 else "bob", "n": i, "deep": {"a": [1]}}) for i in range(5)]
    try:
        def found(query):
            r = api.get("/v1/sessions?" + query)
            assert r.status == 200, r
            return [s["id"] for s in r.json() if s["id"] in made], r.headers["Link"]

        def by(**metadata):
            from urllib.parse import quote
            return "metadata=" + quote(json.dumps(metadata))

        assert found(by(user="ada"))[0] == [made[1], made[3]]
        assert found(by(user="ada", n=3))[0] == [made[3]] and found(by(deep={"a": [1]}))[0] == made
        assert found(by(user="eve"))[0] == [] and found(by())[0] == made
        assert found("name=p2")[0] == [made[2]]
        seen, query = [], "limit=2&" + by(deep={"a": [1]})
        for _ in range(3):
            page, link = found(query)
            seen += page
            query = "limit=2&after=%s&%s" % (page[-1], by(deep={"a": [1]}))
            assert bool(link) == (len(seen) < 5), (link, seen)
            if link:
                assert link.startswith("</v1/sessions?after=") and 'rel="next"' in link
        assert seen == made
    finally:
        for sid in made:
            api.delete("/v1/sessions/" + sid)

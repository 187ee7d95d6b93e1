"""Folders as tar archives, both ways, with the real tar of the guest: what comes back is what went in,
and an archive of a stranger writes nothing outside of its folder and nothing in part."""
import io
import os
import socket
import tarfile

import pytest

HOME = "home/user"


def url(sid, path):
    return "/v1/sessions/%s/files/%s?archive=tar" % (sid, path)


def archive(*members):
    """(name, bytes) is a file, (name, None) a folder, (name, "-> target") a symbolic link."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as t:
        for name, data in members:
            info = tarfile.TarInfo(name)
            if data is None:
                info.type, info.mode = tarfile.DIRTYPE, 0o755
            elif isinstance(data, str):
                info.type, info.linkname = tarfile.SYMTYPE, data[3:]
            else:
                info.size = len(data)
            t.addfile(info, io.BytesIO(data) if isinstance(data, bytes) else None)
    return out.getvalue()


def put(api, sid, path, body):
    return api.request("PUT", url(sid, path), body, timeout=150)


def run(api, sid, cmd):
    return api.post("/v1/sessions/%s/commands" % sid, {"cmd": cmd}, timeout=150).json()["stdout"]


def leftovers(api, sid):
    return run(api, sid, "ls -A /var/tmp")


def test_a_folder_goes_up_and_comes_back_whole(api, shared):
    big = os.urandom(3_000_000)
    body = archive(("d", None), ("d/naïve ä.txt", "grüße\n".encode()), ("d/deep/er/big.bin", big), ("d/link", "-> deep"),
                   ("d/empty", None))
    r = put(api, shared, HOME + "/in", body)
    assert r.status == 200 and r.json()["type"] == "dir", r
    assert api.get_file(shared, "/home/user/in/d/naïve ä.txt").body == "grüße\n".encode()
    r = api.get(url(shared, HOME + "/in"), timeout=150)
    assert r.status == 200 and r.headers["Content-Type"] == "application/x-tar"
    assert 'filename="in.tar"' in r.headers["Content-Disposition"] and len(r.body) == int(r.headers["Content-Length"])
    with tarfile.open(fileobj=io.BytesIO(r.body)) as t:
        names = {m.name for m in t.getmembers()}
        assert {"in", "in/d/empty", "in/d/naïve ä.txt", "in/d/link"} <= names
        assert t.extractfile("in/d/deep/er/big.bin").read() == big and t.getmember("in/d/link").linkname == "deep"
    # Into a folder that is there: what is there and not in the archive stays.
    assert put(api, shared, HOME + "/in", archive(("d/new.txt", b"n"))).status == 200
    assert run(api, shared, "cat in/d/new.txt; ls in/d | wc -l") == "n5\n"
    assert leftovers(api, shared) == ""


def test_what_went_up_is_not_an_artifact_of_the_next_cell(api, shared):
    put(api, shared, HOME + "/quiet", archive(("a.txt", b"a")))
    c = api.cell(shared, "print(open('quiet/a.txt').read())", timeout=150)
    assert c["stdout"] == "a\n" and c["artifacts"] == []


@pytest.mark.parametrize("name", ["../outside.txt", "/home/user/outside.txt", "a/../../outside.txt", ".."])
def test_a_member_outside_is_refused_and_nothing_is_unpacked(api, shared, name):
    r = put(api, shared, HOME + "/hostile", archive(("fine.txt", b"f"), (name, b"x")))
    assert r.status == 403 and r.json()["reason"] == "path_outside", r
    assert run(api, shared, "ls hostile outside.txt 2>/dev/null") == ""
    assert leftovers(api, shared) == ""


def test_a_link_is_no_way_out(api, shared):
    run(api, shared, "mkdir -p target; echo before > target/file")
    r = put(api, shared, HOME + "/escape", archive(("link", "-> /home/user/target"), ("link/file", b"through the link")))
    assert run(api, shared, "cat target/file") == "before\n", r


@pytest.mark.parametrize("body", [b"this is no archive, whatever it is called" * 40, archive(("a.txt", b"a" * 5000))[:3000]])
def test_what_is_no_whole_archive_is_400(api, shared, body):
    r = put(api, shared, HOME + "/broken", body)
    assert r.status == 400 and r.json()["reason"] == "bad_archive", r
    assert run(api, shared, "ls -A broken 2>/dev/null") == "" and leftovers(api, shared) == ""


def test_an_upload_cut_off_unpacks_nothing(api, shared):
    body = archive(("cut.txt", b"c" * 200_000))
    s = socket.create_connection((api.host, api.port))
    s.sendall(("PUT %s HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer %s\r\nContent-Length: %d\r\n\r\n"
               % (url(shared, HOME + "/cut"), api.token, len(body))).encode() + body[:100_000])
    s.close()
    assert run(api, shared, "sleep 1; ls cut 2>/dev/null") == "" and leftovers(api, shared) == ""


def test_wrong_targets_have_their_status(api, shared):
    run(api, shared, "echo x > plain.txt")
    assert put(api, shared, HOME + "/plain.txt", archive(("a", b"a"))).status == 409
    assert api.get(url(shared, HOME + "/plain.txt"), timeout=150).status == 409
    assert api.get(url(shared, HOME + "/absent"), timeout=150).status == 404
    assert put(api, shared, "etc/nope", archive(("a", b"a"))).status in (403, 409)
    assert api.get("/v1/sessions/%s/files/etc?archive=tar" % shared, timeout=150).status == 403  # shadow is unreadable
    assert api.get("/v1/sessions/%s/files/home/user?archive=zip" % shared, timeout=150).status == 400
    r = api.request("HEAD", url(shared, HOME), timeout=150)
    assert r.status == 200 and r.headers["Content-Type"] == "application/x-tar" and r.body == b""

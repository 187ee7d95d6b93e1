"""Files whose names are not UTF-8: Linux lets a program give any bytes. They are listed, found, read,
renamed and removed like all others, by URLs that carry the bytes themselves."""
import pytest

NAME = b"caf\xe9 \xff.txt"  # Latin-1, as an old archive brings them
QUOTED = "caf%E9%20%FF.txt"
SHOWN = "caf\ufffd \ufffd.txt"


@pytest.fixture
def files(api, session):
    return "/v1/sessions/%s/files" % session


def test_a_cell_makes_one_and_its_artifact_can_be_fetched(api, session, files):
    cell = api.cell(session, "touch:%s:7" % QUOTED)
    artifact, = cell["artifacts"]
    assert artifact["path"] == "/home/user/" + SHOWN and artifact["name"] == SHOWN
    assert artifact["url"] == files + "/home/user/" + QUOTED
    r = api.get(artifact["url"])
    assert (r.status, r.body) == (200, b"f" * 7)
    assert r.headers["Content-Disposition"] == 'inline; filename="caf_ _.txt"'


def test_a_listing_says_where_it_is(api, session, files):
    api.cell(session, "touch:odd/%s\ntouch:odd/plain.txt" % QUOTED)
    entries = {e["name"]: e for e in api.get(files + "/home/user/odd").json()["entries"]}
    assert set(entries) == {SHOWN, "plain.txt"}
    assert bytes.fromhex(entries[SHOWN]["name_raw_hex"]) == NAME
    assert "url" not in entries["plain.txt"]
    for method in ("GET", "HEAD"):
        assert api.request(method, entries[SHOWN]["url"]).status == 200
    assert api.get(entries[SHOWN]["url"], headers={"Range": "bytes=0-1"}).status == 206
    assert api.get(files + "/home/user/odd/caf%EF%BF%BD%20%EF%BF%BD.txt").status == 404  # what is shown is not its name


def test_it_is_written_renamed_and_removed(api, session, files):
    url = files + "/home/user/" + QUOTED
    r = api.request("PUT", url, b"first")
    assert r.status == 201 and r.json()["name"] == SHOWN and bytes.fromhex(r.json()["name_raw_hex"]) == NAME, r
    r = api.request("PUT", url, b"second", headers={"If-Match": r.headers["ETag"]})
    assert r.status == 200 and api.get(url).body == b"second"
    assert api.cell(session, "print:x")["artifacts"] == []  # a client's own file
    r = api.post(url, {"action": "move", "to": "caf\u00e9.txt"})
    assert r.status == 200 and r.json()["path"] == "/home/user/caf\u00e9.txt", r
    assert api.get(url).status == 404 and api.get(files + "/home/user/caf%C3%A9.txt").body == b"second"
    r = api.post(files + "/home/user/d%FF", {"action": "mkdir"})
    assert r.status == 201 and r.json()["name"] == "d\ufffd", r
    folder = api.get(files + "/home/user/d%FF").json()
    assert (folder["path"], folder["path_raw_hex"]) == ("/home/user/d\ufffd", b"/home/user/d\xff".hex())
    assert api.delete(files + "/home/user/d%FF").status == 204


@pytest.mark.parametrize("path", ["/v1/sessions/%FF", "/api/kernels/%FF", "/api/kernelspecs/%FF", "/%FF", "/v1/%FF/x",
                                  "/kernelspecs/python3/%FF", "/v1/sessions/%FF/cells/x"])
def test_elsewhere_bytes_that_are_not_utf8_are_refused(api, path):
    r = api.get(path)
    assert r.status in (400, 404) and r.json()["message"], r


def test_a_query_must_be_utf8(api, session):
    assert api.get("/v1/sessions?name=%FF").status in (200, 400)
    assert api.get("/v1/sessions").status == 200

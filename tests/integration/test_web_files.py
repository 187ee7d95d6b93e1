"""The web front-end's files as they go over the wire, from a small bundle of its own: forms, policies, caching."""
import http.client
import os

import pytest

from harness.gateway import Gateway, NotReady, scratch
from integration.conftest import checked_end


def ask(gw, path, method="GET", **headers):
    c = http.client.HTTPConnection("127.0.0.1", gw.port, timeout=20)
    c.request(method, path, headers=headers)
    r = c.getresponse()
    body = r.read()
    c.close()
    return r, body


@pytest.fixture(scope="module")
def bundle():
    d = scratch("w")
    os.makedirs(os.path.join(d, "assets"))
    files = {"index.html": b'<base href="__CK_BASE__/">', "embed.html": b"embed", "sandbox.html": b"sandbox",
             "favicon.svg": b"<svg/>", "assets/big.js": b"x" * 3_000_000, "assets/big.js.br": b"small",
             "assets/a.css": b"a{}", "assets/a.css.gz": b"gz"}
    for name, data in files.items():
        with open(os.path.join(d, name), "wb") as f:
            f.write(data)
    return d


@pytest.fixture(scope="module")
def served(fake, bundle):
    gw = Gateway(*fake.options(), "--web-dir", bundle, "--base-url", "/deep/box", "--pool-size", "0").start()
    yield gw
    checked_end(gw)


def test_the_pages_need_no_token_and_know_their_base(served):
    for path in ("/deep/box", "/deep/box/", "/deep/box/?token=wrong"):
        r, body = ask(served, path)
        assert (r.status, body) == (200, b'<base href="/deep/box/">')
        assert r.getheader("Content-Type") == "text/html; charset=utf-8"
        assert r.getheader("Cache-Control") == "no-cache" and r.getheader("Referrer-Policy") == "no-referrer"


def test_no_page_allows_inline_script_or_a_foreign_host(served):
    policies = {p: ask(served, "/deep/box/" + p)[0].getheader("Content-Security-Policy") for p in ("", "embed", "sandbox")}
    for page in ("", "embed"):
        words = dict(d.strip().split(" ", 1) for d in policies[page].split(";") if d.strip())
        assert words["script-src"] == "'self'" and words["default-src"] == "'none'" and words["connect-src"] == "'self'"
        assert "http" not in policies[page]
    assert "frame-ancestors 'none'" in policies[""] and "frame-ancestors *" in policies["embed"]
    assert policies["sandbox"].startswith("sandbox allow-scripts; default-src 'none'")
    assert "allow-same-origin" not in policies["sandbox"] and "connect-src" not in policies["sandbox"]


def test_a_file_is_sent_in_the_form_that_the_client_takes(served):
    r, body = ask(served, "/deep/box/assets/big.js")
    assert (r.status, len(body), r.getheader("Content-Encoding")) == (200, 3_000_000, None)
    r, body = ask(served, "/deep/box/assets/big.js", **{"Accept-Encoding": "gzip, br"})
    assert (body, r.getheader("Content-Encoding"), r.getheader("Vary")) == (b"small", "br", "Accept-Encoding")
    r, body = ask(served, "/deep/box/assets/a.css", **{"Accept-Encoding": "br, gzip"})
    assert (body, r.getheader("Content-Encoding")) == (b"gz", "gzip")
    assert r.getheader("X-Content-Type-Options") == "nosniff" and "immutable" in r.getheader("Cache-Control")
    r, body = ask(served, "/deep/box/assets/big.js", "HEAD")
    assert (r.status, r.getheader("Content-Length"), body) == (200, "3000000", b"")


def test_an_etag_belongs_to_one_form(served):
    plain = ask(served, "/deep/box/assets/a.css")[0].getheader("ETag")
    zipped = ask(served, "/deep/box/assets/a.css", **{"Accept-Encoding": "gzip"})[0].getheader("ETag")
    assert plain != zipped
    for tag, want in ((plain, 304), ("W/" + plain, 304), (zipped, 200), ('"other"', 200)):
        r, body = ask(served, "/deep/box/assets/a.css", **{"If-None-Match": tag})
        assert r.status == want, tag
        assert want == 200 or body == b""


def test_only_files_of_the_bundle_can_be_had(served):
    for path in ("assets/none.js", "assets/a.css.gz", "assets/..%2findex.html", "assets/%2e%2e/index.html",
                 "assets/..%2f..%2f..%2fetc%2fpasswd", "index.html", "assets/", "assets/" + "a" * 600):
        r, body = ask(served, "/deep/box/" + path)
        assert r.status == 404 and b'"reason"' in body, path
    assert ask(served, "/deep/box/", "POST")[0].status == 405


def test_a_bundle_that_is_none_is_said_at_the_start(start):
    with pytest.raises(NotReady) as e:
        start("--web-dir", scratch("e"))
    assert e.value.code == 1 and "web front-end" in e.value.stderr

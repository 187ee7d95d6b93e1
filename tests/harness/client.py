"""A plain HTTP client for the gateway: requests, Server-Sent Events, and the cell API's shorthands."""
import http.client
import json
import re
import urllib.parse


class Answer:
    def __init__(self, status, headers, body):
        self.status, self.headers, self.body = status, headers, body

    def json(self):
        return json.loads(self.body)

    def __repr__(self):
        return "<%d %r>" % (self.status, self.body[:300])


class Event:
    def __init__(self, kind, ident, data):
        self.kind, self.id, self.data = kind, ident, data

    def json(self):
        return json.loads(self.data)

    def __repr__(self):
        return "<%s %s %.120s>" % (self.kind, self.id, self.data)


class Client:
    def __init__(self, host, port, token, timeout=60):
        self.host, self.port, self.token, self.timeout = host, port, token, timeout

    def connection(self, timeout=None):
        return http.client.HTTPConnection(self.host, self.port, timeout=timeout or self.timeout)

    def headers(self, extra=None):
        h = {"Authorization": "Bearer " + self.token} if self.token else {}
        h.update(extra or {})
        return h

    def request(self, method, path, body=None, headers=None, timeout=None):
        """body: bytes, text, or anything else as JSON."""
        if body is not None and not isinstance(body, (bytes, str)):
            body = json.dumps(body)
        if isinstance(body, str):
            body = body.encode()
        c = self.connection(timeout)
        try:
            c.request(method, path, body, self.headers(headers))
            r = c.getresponse()
            return Answer(r.status, r.headers, r.read())
        finally:
            c.close()

    def get(self, path, **kw):
        return self.request("GET", path, **kw)

    def post(self, path, body=None, **kw):
        return self.request("POST", path, body, **kw)

    def delete(self, path, **kw):
        return self.request("DELETE", path, **kw)

    def events(self, method, path, body=None, headers=None, timeout=None):
        """Generator of Event; closing it closes the connection."""
        c = self.connection(timeout)
        try:
            c.request(method, path, None if body is None else json.dumps(body).encode(),
                      self.headers({"Accept": "text/event-stream", **(headers or {})}))
            r = c.getresponse()
            if r.status != 200:
                raise AssertionError("no event stream: %d %r" % (r.status, r.read()[:500]))
            assert r.headers["Content-Type"].startswith("text/event-stream")
            kind, ident, data = "message", None, []
            for raw in r:
                line = raw.decode().rstrip("\r\n")
                if not line:
                    if data:
                        yield Event(kind, ident, "\n".join(data))
                    kind, data = "message", []
                elif line.startswith("event:"):
                    kind = line[6:].strip()
                elif line.startswith("id:"):
                    ident = int(line[3:])
                elif line.startswith("data:"):
                    data.append(line[5:].removeprefix(" "))
        finally:
            c.close()

    # --- the cell API ---------------------------------------------------------------------------

    def create(self, **fields):
        r = self.post("/v1/sessions", fields, timeout=120)
        assert r.status == 201, r
        return r.json()["id"]

    def session(self, sid):
        r = self.get("/v1/sessions/" + sid)
        assert r.status == 200, r
        return r.json()

    def cell(self, sid, code, timeout=None, **fields):
        r = self.post("/v1/sessions/%s/cells" % sid, {"code": code, **fields}, timeout=timeout)
        assert r.status == 200, r
        return r.json()

    def file_path(self, sid, path):
        return "/v1/sessions/%s/files/%s" % (sid, urllib.parse.quote(path.lstrip("/")))

    def put_file(self, sid, path, data):
        r = self.request("PUT", self.file_path(sid, path), data)
        assert r.status in (200, 201, 204), r
        return r

    def get_file(self, sid, path, **kw):
        return self.get(self.file_path(sid, path), **kw)


def kept_and_dropped(cell):
    """Bytes of stdout that the cell shows and those it says it left out; the marker itself is not output."""
    text, marks = re.subn(r"\n\[… (\d+) bytes left out …\]\n", "", cell["stdout"])
    dropped = cell["truncated"]["stdout_bytes"]
    assert marks == (1 if dropped else 0)
    return len(text) + dropped

"""/openapi.json and the list of metrics, held against what the server really answers."""
import json
import os
import re

import pytest

from harness.gateway import ROOT, wait_for

SESSION = "/v1/sessions/{id}"


@pytest.fixture(scope="module")
def doc(gateway):
    return gateway.client().get("/openapi.json").json()


def resolve(doc, schema):
    while "$ref" in schema:
        schema = doc["components"]["schemas"][schema["$ref"].rsplit("/", 1)[1]]
    return schema


def fits(doc, schema, value, where):
    """What OpenAPI says of our schemas: types, required and known members, enumerations."""
    schema = resolve(doc, schema)
    if "oneOf" in schema:
        errors = []
        for one in schema["oneOf"]:
            try:
                return fits(doc, one, value, where)
            except AssertionError as e:
                errors.append(str(e))
        raise AssertionError(errors)
    kinds = {"object": dict, "array": list, "string": str, "integer": int, "number": (int, float), "boolean": bool,
             "null": type(None)}
    types = schema.get("type", [])
    types = [types] if isinstance(types, str) else types
    assert not types or any(isinstance(value, kinds[t]) and (t == "boolean" or not isinstance(value, bool)) for t in types), \
        "%s: %r is no %s" % (where, value, types)
    assert "enum" not in schema or value in schema["enum"], "%s: %r" % (where, value)
    if isinstance(value, dict) and "properties" in schema:
        for key in schema.get("required", []):
            assert key in value, "%s lacks %s" % (where, key)
        for key, v in value.items():
            assert key in schema["properties"], "%s.%s is not described" % (where, key)
            fits(doc, schema["properties"][key], v, where + "." + key)
    if isinstance(value, list) and "items" in schema:
        for i, v in enumerate(value):
            fits(doc, schema["items"], v, "%s[%d]" % (where, i))


class Walk:
    """One request for each operation, in an order that makes each of them succeed."""

    def __init__(self, api, doc):
        self.api, self.doc, self.done = api, doc, set()

    def go(self, method, path, /, body=None, query="", raw=None, headers=None, **values):
        operation = self.doc["paths"][path][method]
        assert body is None or "requestBody" in operation, path
        if body is not None:
            content = operation["requestBody"]["content"]["application/json"]
            fits(self.doc, content["schema"], body, "%s %s request" % (method, path))
        r = self.api.request(method.upper(), path.format(**values) + query, raw if raw is not None else body,
                             headers=headers, timeout=120)
        where = "%s %s" % (method, path)
        assert str(r.status) in operation["responses"], "%s answered %s, which is not described" % (where, r)
        assert r.status < 400, (where, r)
        self.done.add(operation["operationId"])
        content = operation["responses"][str(r.status)].get("content", {})
        if r.headers["Content-Type"] and r.headers["Content-Type"].startswith("application/json") and "application/json" in content:
            fits(self.doc, content["application/json"]["schema"], r.json(), where)
            return r.json()
        assert r.status in (101, 204) or content, where
        return r


def test_every_operation_answers_as_it_is_described(gateway, doc):
    api = gateway.client()
    w = Walk(api, doc)
    wait_for("a machine of the pool", 60, lambda: api.get("/readyz").status == 200)
    for path in ("/openapi.json", "/healthz", "/readyz", "/metrics", "/v1/templates"):
        w.go("get", path)
    s = w.go("post", "/v1/sessions", {"name": "walk", "env": {"A": "b"}, "timeouts": {"cell_s": 60}, "metadata": {"a": 1}})
    try:
        walk_session(w, s["id"])
    finally:
        token = w.go("post", "/v1/tokens", {"name": "walk", "max_sessions": 1})
        w.go("get", "/v1/tokens")
        w.go("delete", "/v1/tokens/{token}", token=token["id"])
        for fork in w.forks:
            api.delete("/v1/sessions/" + fork)
        w.go("delete", SESSION, id=s["id"])
    every = {op["operationId"] for path in doc["paths"].values() for op in path.values()}
    assert every - w.done == {"streamWebsocket", "streamEvents"}, every - w.done  # tests/integration/test_stream.py


def walk_session(w, sid):
    w.forks = []
    w.go("get", "/v1/sessions", query="?limit=5")
    w.go("get", SESSION, id=sid)
    w.go("patch", SESSION, {"name": "walked", "metadata": {}}, id=sid)
    cell = w.go("post", SESSION + "/cells", {"code": "png\npngfile:c.png\nbigpng:4000:3000\nx", "timeout_s": 30, "stdin": "a\n",
                                             "output": {"strip_ansi": True, "max_image_edge": 100}}, id=sid)
    assert cell["images"] and cell["artifacts"][0]["display"] == 0
    failed = w.go("post", SESSION + "/cells", {"code": "error:ValueError:x"}, id=sid)
    assert failed["error"]["ename"] == "ValueError"
    w.go("get", SESSION + "/cells/{cell}", id=sid, cell=cell["id"])
    running = w.api.events("POST", "/v1/sessions/%s/cells" % sid, {"code": "input:name? ", "stdin": True})
    asks = next(e for e in running if e.kind == "input").json()["cell"]
    w.go("get", SESSION + "/cells/{cell}", id=sid, cell=asks)
    w.go("post", SESSION + "/cells/{cell}/stdin", {"value": "Ada"}, id=sid, cell=asks)
    list(running)
    for method, path in (("post", "/cancel"), ("delete", "")):
        running = w.api.events("POST", "/v1/sessions/%s/cells" % sid, {"code": "print:x\nsleep:600000"})
        cell = next(e for e in running if e.kind == "stream").json()["cell"]
        w.go(method, SESSION + "/cells/{cell}" + path, id=sid, cell=cell)
        list(running)
    files = SESSION + "/files/{path}"
    w.go("put", files, raw=b"x", id=sid, path="home/user/a.txt")
    w.go("put", files, raw=b"y", id=sid, path="home/user/a.txt")
    w.go("get", files, id=sid, path="home/user/a.txt")
    w.go("get", files, id=sid, path="home/user")
    w.go("get", files, id=sid, path="home/user/a.txt", headers={"Range": "bytes=0-0"})
    w.go("post", files, {"action": "mkdir"}, id=sid, path="home/user/d")
    w.go("post", files, {"action": "move", "to": "b.txt"}, id=sid, path="home/user/a.txt")
    w.go("delete", files, id=sid, path="home/user/b.txt")
    w.go("post", SESSION + "/commands", {"cmd": "echo x", "env": {"A": "b"}, "timeout_s": 5, "stdin": "x"}, id=sid)
    walk_life(w, sid)


def walk_life(w, sid):
    for verb in ("interrupt", "restart", "pause", "resume"):
        w.go("post", SESSION + "/" + verb, id=sid)
    made = w.go("post", SESSION + "/checkpoints", {"name": "one"}, id=sid)
    w.go("get", SESSION + "/checkpoints", id=sid)
    w.go("get", SESSION + "/checkpoints/{checkpoint}", id=sid, checkpoint=made["id"])
    w.forks = [s["id"] for s in w.go("post", SESSION + "/fork", {"count": 1}, id=sid)]
    w.go("post", SESSION + "/rollback", {"checkpoint": "one"}, id=sid)
    w.go("delete", SESSION + "/checkpoints/{checkpoint}", id=sid, checkpoint="one")


def test_every_metric_is_in_the_documented_list_and_the_other_way_round(api, session):
    text = api.get("/metrics").body.decode()
    typed = dict(re.findall(r"^# TYPE (\S+) (\S+)$", text, re.M))
    samples = re.findall(r"^([a-z_]+)(?:\{[^}]*\})? [-+0-9.e]+$", text, re.M)
    assert len(samples) == len([line for line in text.splitlines() if line and not line.startswith("#")]), "not Prometheus text"
    families = {re.sub(r"_(sum|count)$", "", s) if re.sub(r"_(sum|count)$", "", s) in typed else s for s in samples}
    assert families == set(typed), families ^ set(typed)
    with open(os.path.join(ROOT, "docs", "OPERATIONS.md")) as f:
        documented = dict(re.findall(r"^\| `((?:cellkeep|process)_[a-z_]+)[^`]*` \| (\w+) \|", f.read(), re.M))
    assert documented == typed, json.dumps({k: v for k, v in typed.items() if documented.get(k) != v})
    helps = dict(re.findall(r"^# HELP (\S+) (.+)$", text, re.M))
    assert set(helps) == set(typed)

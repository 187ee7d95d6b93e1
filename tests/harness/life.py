"""Shorthands for the verbs of a session's life."""
import json
import os


def verb(api, sid, what, body=None, **kw):
    return api.post("/v1/sessions/%s/%s" % (sid, what), {} if body is None else body, **kw)


def done(api, sid, what, body=None, status=200, **kw):
    r = verb(api, sid, what, body, **kw)
    assert r.status == status, (what, r)
    return r.json()


def pause(api, sid):
    s = done(api, sid, "pause")
    assert s["state"] == "paused", s
    return s


def state(api, sid):
    return api.session(sid)["state"]


def reason(answer):
    return json.loads(answer.body)["reason"] if answer.status >= 400 else ""


def folder(gateway, sid, *more):
    return os.path.join(gateway.state, "sessions", sid, *more)

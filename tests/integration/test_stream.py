"""WS /v1/sessions/{id}/stream: everything that a client can say on it, and where it may begin to read."""
import json

import pytest
import websocket

from harness.gateway import TOKEN


class Stream:
    def __init__(self, gateway, sid, start="now"):
        self.ws = websocket.create_connection("ws://127.0.0.1:%d/v1/sessions/%s/stream?from=%s&token=%s"
                                              % (gateway.port, sid, start, TOKEN), timeout=60)

    def say(self, **message):
        self.ws.send(json.dumps(message))

    def until(self, *types, **fields):
        """Everything up to the first message of one of these types with these fields."""
        seen = []
        while True:
            seen.append(json.loads(self.ws.recv()))
            if seen[-1]["type"] in types and all(seen[-1].get(k) == v for k, v in fields.items()):
                return seen


@pytest.fixture
def stream(gateway, session):
    made = []

    def begin(start="now"):
        made.append(Stream(gateway, session, start))
        return made[-1]

    yield begin
    for s in made:
        s.ws.close()


def test_a_cell_is_answered_on_the_stream(stream):
    s = stream()
    s.say(type="execute", ref="a", code="input:name? \ninput:more? ", stdin=True)
    cell = s.until("accepted", ref="a")[-1]["cell"]
    assert s.until("input")[-1]["prompt"] == "name? "
    s.say(type="stdin", ref="b", cell=cell, value="Ada")
    s.until("input", prompt="more? ")
    s.say(type="stdin", cell=cell, value="Bob")
    done = s.until("done", cell=cell)[-1]
    assert done["finished"]["stdout"] == "got Ada\ngot Bob\n" and done["status"] == "ok"
    s.say(type="stdin", ref="c", cell=cell, value="late")
    assert s.until("refused", ref="c")[-1]["status"] in (404, 409)


def test_cancel_and_interrupt(stream):
    s = stream()
    for verb, status in (("cancel", "cancelled"), ("interrupt", "interrupted")):
        s.say(type="execute", ref=verb, code="print:on\nsleep:600000")
        cell = s.until("accepted", ref=verb)[-1]["cell"]
        s.until("stream", cell=cell)
        s.say(**({"type": "cancel", "cell": cell} if verb == "cancel" else {"type": "interrupt"}))
        assert s.until("done", cell=cell)[-1]["status"] == status


def test_a_second_reader_begins_at_any_number(stream, api, session):
    api.cell(session, "count:20:0")
    first = stream("0").until("done")
    numbers = [m["seq"] for m in first]
    assert numbers == sorted(set(numbers)), "not in order, or twice"
    for at in (numbers[3], numbers[-1]):
        again = stream(str(at)).until("done")
        assert [m["seq"] for m in again] == [n for n in numbers if n >= at]
        assert again == first[-len(again):]
    late = stream(str(numbers[-1] + 1))
    late.say(type="execute", code="print:next")
    assert all(m.get("seq", numbers[-1] + 1) > numbers[-1] for m in late.until("done"))


@pytest.mark.parametrize("message,word", [
    ("{bad", "column"), ("[]", "object"), ('{"type":"run"}', "type"), ('{"type":"execute"}', "code"),
    ('{"type":"execute","code":"1","stdin":"x"}', "stdin"), ('{"type":"execute","code":"1","cod":1}', "cod"),
    ('{"type":"execute","code":"1","output":{"strip_ansi":true}}', "output"), ('{"type":"cancel","cell":"x"}', "cell"),
    ('{"type":"stdin","cell":"00000000-0000-4000-8000-000000000000"}', "value"), ('{"type":"interrupt","now":1}', "now"),
    ('{"type":"interrupt","ref":"%s"}' % ("r" * 201), "ref")])
def test_what_is_wrong_is_refused_and_the_stream_goes_on(stream, message, word):
    s = stream()
    s.ws.send(message)
    refused = s.until("refused")[-1]
    assert refused["status"] == 400 and word in refused["message"], refused
    s.say(type="execute", code="print:on")
    assert s.until("done")[-1]["finished"]["stdout"] == "on\n"


@pytest.mark.parametrize("start", ["-1", "x", "1.5", "18446744073709551616"])
def test_a_number_that_is_none_is_refused(gateway, api, session, start):
    with pytest.raises(websocket.WebSocketBadStatusException) as e:
        Stream(gateway, session, start)
    assert e.value.status_code == 400
    r = api.get("/v1/sessions/%s/events?from=%s" % (session, start))
    assert r.status == 400 and "from" in r.json()["message"], r


def test_the_queue_can_be_seen(api, session):
    first = api.events("POST", "/v1/sessions/%s/cells" % session, {"code": "sleep:600000"})
    one = next(first).json()["cell"]
    second = api.events("POST", "/v1/sessions/%s/cells" % session, {"code": "print:two"})
    two = next(second).json()["cell"]
    states = [api.get("/v1/sessions/%s/cells/%s" % (session, c)).json() for c in (one, two)]
    assert states[1] == {"id": two, "status": "queued"} and states[0]["status"] in ("queued", "running")
    assert api.session(session)["state"] == "busy"
    assert api.post("/v1/sessions/%s/cells/%s/cancel" % (session, one)).json() == {"id": one, "cancelled": True}
    assert [e for e in second if e.kind == "done"][0].json()["stdout"] == "two\n"
    first.close()

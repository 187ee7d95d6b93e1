"""What a session's memory is good for, and what becomes of it."""

PROMISED_MIB = 180  # README.md says "about 200 MB" for the default of 512


def test_a_cell_has_the_memory_that_is_promised(api, session):
    c = api.cell(session, "x = bytearray(b'1') * (%d << 20)\nlen(x) >> 20" % PROMISED_MIB, timeout=150)
    assert (c["status"], c["result"]["text/plain"]) == ("ok", str(PROMISED_MIB)), c


def test_the_libraries_work_beside_large_data(api, session):
    c = api.cell(session, "x = bytearray(b'1') * (150 << 20)\nimport pandas, matplotlib.pyplot as plt\n"
                 "pandas.DataFrame({'a': range(1000)}).describe().plot()\nplt.show()", timeout=150)
    assert c["status"] == "ok" and [list(d["data"])[0] for d in c["displays"]], c


def test_memory_filled_through_dev_shm_is_there_again_for_the_next_kernel(api, session):
    c = api.cell(session, "f = open('/dev/shm/all', 'wb')\nwhile True: f.write(bytes(1 << 20))", timeout=280)
    assert c["status"] in ("oom", "error"), c
    if c["status"] == "error":  # no space left in /dev/shm itself
        assert api.post("/v1/sessions/%s/restart" % session, {}).status == 200
    code = "import os\nx = bytearray(b'1') * (%d << 20)\nos.listdir('/dev/shm')" % PROMISED_MIB
    c = api.cell(session, code, timeout=150)
    assert (c["status"], c["result"]["text/plain"]) == ("ok", "[]"), c


def test_another_size_than_the_templates_is_refused_with_what_to_do(api):
    r = api.post("/v1/sessions", {"memory_mb": 4096})
    assert r.status == 409 and r.json()["reason"] == "template_not_built", r
    assert "template build --memory-mb 4096" in r.json()["message"], r

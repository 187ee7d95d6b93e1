"""Bridges that were being started when their gateway ended."""
import signal
import time

import pytest


@pytest.mark.parametrize("after", [0.3, 0.6, 1.0])
def test_a_bridge_whose_gateway_died_while_it_started_ends_by_itself(start, after):
    gw = start("--pool-size", "1")
    time.sleep(after)  # the pool's first launch is under way
    gw.kill()
    second = start("--pool-size", "1", "--on-exit", "kill", state=gw.state)
    sid = second.client().create()
    assert second.client().cell(sid, "1+1")["status"] == "ok"
    assert second.stop(40) == 0
    assert second.leftovers(5) == {}
    assert gw.leftovers(5) == {}


def test_a_gateway_that_ends_while_it_fills_the_pool_leaves_nothing(start):
    for after in (0.26, 0.4, 0.8):
        gw = start("--pool-size", "2")
        time.sleep(after)
        gw.note_processes()
        gw.proc.send_signal(signal.SIGTERM)
        assert gw.proc.wait(20) == 0
        assert gw.leftovers(5) == {}

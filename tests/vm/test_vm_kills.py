"""The gateway is killed under load, over real machines. How it behaves over a hundred kills is
tests/integration/test_kills.py's; CELLKEEP_TEST_VM_KILLS sets how often here (3)."""
import os

import pytest

from harness.killing import Load, Speech, kill_again_and_again, report

KILLS = int(os.environ.get("CELLKEEP_TEST_VM_KILLS", "3"))


@pytest.mark.timeout(300 + 30 * KILLS)
def test_kills_at_random_moments_lose_no_message_and_no_session(home, start):
    gw = start("--pool-size", "0", "--on-exit", "kill", state=home)
    load = Load(gw, Speech, sessions=2, spare=1)
    load.begin()
    slowest = kill_again_and_again(load, KILLS, 4.0)
    load.end()
    report(load, KILLS, slowest)
    load.check()
    assert gw.stop(60) == 0
    assert gw.leftovers() == {}
    assert os.listdir(os.path.join(home, "sessions")) == []

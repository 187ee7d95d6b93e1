"""A gateway that is killed at random moments under load, again and again. CELLKEEP_TEST_KILLS sets how often
(15 by default; `script/bench kills` has 100), CELLKEEP_TEST_SEED the moments."""
import os

import pytest

from harness.killing import FakeSpeech, Load, kill_again_and_again, report

KILLS = int(os.environ.get("CELLKEEP_TEST_KILLS", "15"))
SEED = int(os.environ.get("CELLKEEP_TEST_SEED", "1"))


@pytest.mark.timeout(180 + 10 * KILLS)
def test_kills_at_random_moments_lose_no_message_and_no_session(home, start):
    gw = start("--pool-size", "1", "--spare", "1", "--on-exit", "kill", state=home)
    load = Load(gw, FakeSpeech, pool=1, spare=1, seed=SEED)
    load.begin()
    slowest = kill_again_and_again(load, KILLS, 1.0)
    load.end()
    report(load, KILLS, slowest)
    load.check()
    assert gw.stop(60) == 0
    assert gw.leftovers() == {}
    assert os.listdir(os.path.join(home, "sessions")) == []

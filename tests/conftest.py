"""Shared by the Python tiers: the scratch folder, and what a failed test prints."""
import os
import shutil
import tempfile

import pytest


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    report = (yield).get_result()
    setattr(item, "report_" + report.when, report)


def pytest_configure(config):
    if "CELLKEEP_TEST_TMP" not in os.environ:  # pytest was started by hand
        os.environ["CELLKEEP_TEST_TMP"] = tempfile.mkdtemp(prefix="ck-test.", dir="/tmp")
        config.add_cleanup(lambda: _sweep(os.environ["CELLKEEP_TEST_TMP"]))
    os.chmod(os.environ["CELLKEEP_TEST_TMP"], 0o755)  # bridges run as users of their own


def pytest_make_parametrize_id(config, val, argname):
    """Names of tests stay readable: a parameter of kilobytes is named by its beginning and length."""
    if isinstance(val, (str, bytes)) and len(val) > 40:
        return "%s..%d" % (ascii(val[:30]).strip("b'\""), len(val))
    return None


@pytest.fixture
def home():
    """A state folder that outlasts the gateways on it; its bridges' log lies beside it."""
    from harness.gateway import scratch
    d = scratch("k")
    yield d
    shutil.rmtree(d, ignore_errors=True)
    if os.path.exists(d + ".log"):
        os.unlink(d + ".log")


def _sweep(folder):
    from harness.sweep import sweep
    sweep(folder)
    shutil.rmtree(folder, ignore_errors=True)

"""One real browser for the tests that open reports, and what happens without one.

Where there is none the tests that need it are left out, and the summary says so. Under
CI=true they stay, and fail.
"""

import os
import shutil

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome")
FLAGS = ("headless", "no-sandbox", "disable-gpu", "disable-background-networking")
LEFT_OUT = pytest.StashKey[int]()


def find_chromium():
    """The program's path, or None where there is none."""
    return next(filter(None, map(shutil.which, NAMES)), None)


@pytest.fixture(scope="session")
def browser():
    """Chromium, without a window."""
    path = find_chromium()
    if path is None:
        pytest.fail(
            "There is no Chromium to open the reports in: apt-get install -y chromium"
        )
    from playwright.sync_api import sync_playwright

    with sync_playwright() as driver:
        started = driver.chromium.launch(
            executable_path=path, args=[f"--{flag}" for flag in FLAGS]
        )
        yield started
        started.close()


def pytest_collection_modifyitems(config, items):
    """Leave out the tests that need the browser where there is none."""
    if find_chromium() or os.environ.get("CI") == "true":
        return
    left_out = [i for i in items if "browser" in getattr(i, "fixturenames", ())]
    config.stash[LEFT_OUT] = len(left_out)
    config.hook.pytest_deselected(items=left_out)
    items[:] = [item for item in items if item not in left_out]


def pytest_sessionfinish(session):
    """Tell the process that prints the summary, if this is one of its workers."""
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["left out"] = session.config.stash.get(LEFT_OUT, 0)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node):
    """Hear it; every worker collects all tests, so that all say the same number."""
    node.config.stash[LEFT_OUT] = getattr(node, "workeroutput", {}).get("left out", 0)


def pytest_terminal_summary(terminalreporter, config):
    """Say it, where it cannot be missed."""
    if n := config.stash.get(LEFT_OUT, 0):
        terminalreporter.write_line(
            "There is no Chromium here, so the tests that open reports in a browser "
            f"({n}) were left out: apt-get install -y chromium",
            yellow=True,
        )

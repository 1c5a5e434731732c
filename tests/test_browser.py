"""What make and pytest say where there is no browser, and that CI=true is stricter."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PYTEST = (
    sys.executable,
    "-m",
    "pytest",
    "-p",
    "tests.browser",
    "-p",
    "no:cacheprovider",
)
TESTS = "def test_page(browser): ...\ndef test_number(): ..."


@pytest.fixture
def without_browser(tmp_path):
    """Run a command where no program can be found, but for a few; ``ci`` sets CI."""
    (tmp_path / "make").symlink_to(shutil.which("make"))
    (tmp_path / "Makefile").symlink_to(ROOT / "Makefile")
    (tmp_path / "test_page.py").write_text(TESTS)
    (tmp_path / "id").write_text(
        "#!/bin/sh\necho 1000\n"
    )  # not root: nothing installed
    (tmp_path / "id").chmod(0o755)

    def run(*command, ci):
        environment = {"PATH": str(tmp_path), "CI": ci, "PYTHONPATH": str(ROOT)}
        return subprocess.run(
            command, cwd=tmp_path, env=environment, capture_output=True, text=True
        )

    return run


def test_make_says_so_in_one_sentence_and_goes_on(without_browser):
    done = without_browser("make", "-s", "browser", ci="")
    assert done.returncode == 0
    assert done.stdout == (
        "There is no Chromium here, so the tests that open reports in a browser are "
        "left out (apt-get install -y chromium brings them back).\n"
    )


def test_under_ci_make_stops(without_browser):
    done = without_browser("make", "-s", "browser", ci="true")
    assert done.returncode != 0
    assert "apt-get install -y chromium" in done.stdout


@pytest.mark.parametrize("processes", ["0", "1"])
def test_pytest_leaves_them_out_and_says_so(without_browser, processes):
    done = without_browser(*PYTEST, "-n", processes, "test_page.py", ci="")
    assert done.returncode == 0
    assert "1 passed" in done.stdout
    assert (
        "There is no Chromium here, so the tests that open reports in a browser (1) "
        "were left out: apt-get install -y chromium"
    ) in done.stdout


def test_under_ci_they_fail(without_browser):
    done = without_browser(*PYTEST, "test_page.py", ci="true")
    assert "1 passed, 1 error" in done.stdout
    assert "There is no Chromium to open the reports in" in done.stdout

"""Progress as a terminal, a log file and a quiet caller see it."""

import io
import itertools
import subprocess
import sys
from types import SimpleNamespace

import pytest

from invariance import progress
from invariance.progress import Progress, tell, tell_loading


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture
def terminal(monkeypatch):
    monkeypatch.delenv("CI", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "120")
    return Terminal()


def count(file, n=4, **how):
    with Progress(n, file=file, **how) as shown:
        for k in range(n):
            shown.advance(note=f"loss {k}")
        shown.say("a [bold] sentence")
    return file.getvalue()


def test_a_terminal_has_a_live_line_and_sentences_above_it(terminal):
    text = count(terminal)
    assert "4/4 images" in text and "loss 3" in text and "100 %" in text
    assert "a [bold] sentence" in text and "\x1b[" in text


@pytest.mark.parametrize("value", ["1", "true", "TRUE"])
def test_under_ci_a_terminal_gets_plain_lines(terminal, monkeypatch, value):
    monkeypatch.setenv("CI", value)
    text = count(terminal, every=0)
    assert "\x1b[" not in text and "\r" not in text
    assert text.splitlines()[1].startswith("  2/4 images, ")
    assert "loss 1" in text and " s left" in text


def test_a_file_gets_a_line_now_and_then(monkeypatch):
    seconds = itertools.count(0.0, 3.0)
    clock = SimpleNamespace(monotonic=lambda: next(seconds))
    monkeypatch.setattr(progress, "time", clock)
    lines = count(io.StringIO(), n=30, every=60).splitlines()
    assert 2 <= len(lines) < 10 and lines[-1] == "a [bold] sentence"


def test_hours_that_are_left_are_said_in_hours(monkeypatch):
    seconds = itertools.count(0.0, 3.0)
    clock = SimpleNamespace(monotonic=lambda: next(seconds))
    monkeypatch.setattr(progress, "time", clock)
    file = io.StringIO()
    with progress.Progress(100_000, file=file, every=0) as shown:
        shown.advance(100)
    assert file.getvalue().rstrip().endswith(" min left") and " h " in file.getvalue()


def test_no_plain_lines_where_the_caller_writes_its_own():
    assert count(io.StringIO(), every=None) == "a [bold] sentence\n"


@pytest.mark.parametrize("make", [Terminal, io.StringIO])
def test_quiet_says_nothing(make, terminal):
    assert count(make(), quiet=True, every=0) == ""
    file = make()
    tell("nothing", quiet=True, file=file)
    assert file.getvalue() == ""


def test_a_total_nobody_knows(terminal):
    for file in (terminal, io.StringIO()):
        with Progress(None, unit="steps", file=file, every=0) as shown:
            shown.reach(1234)
        assert "1,234 steps" in file.getvalue() and "left" not in file.getvalue()


def test_work_done_before_does_not_count_as_speed(monkeypatch):
    moments = iter([0.0, 4.0])
    clock = SimpleNamespace(monotonic=lambda: next(moments))
    monkeypatch.setattr(progress, "time", clock)
    shown = Progress(10, done=8, quiet=True)
    shown.done = 10
    assert shown.rate == 0.5


def test_importing_it_loads_neither_rich_nor_torch():
    code = "import sys, invariance.progress, invariance.devices as d; print([m in "
    code += "sys.modules for m in ('rich', 'torch')])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout.strip() == "[False, False]", done.stderr


def test_a_python_that_may_keep_no_bytecode_is_told_what_that_costs(
    tmp_path, monkeypatch, capsys
):
    (tmp_path / "torch").mkdir()
    (tmp_path / "torch" / "__init__.py").write_text("")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "torch")
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    tell_loading()
    assert "PYTHONDONTWRITEBYTECODE" in capsys.readouterr().err
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    tell_loading()
    assert capsys.readouterr().err == "loading PyTorch ...\n"

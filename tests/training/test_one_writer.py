"""A run folder has one writer at a time, and a stop is no error to swallow."""

import errno
import json
import os
import signal
import subprocess
import sys

import filelock
import pytest

import invariance as inv
from invariance.errors import DataError, TrainingError
from invariance.folder import hold_run, keep_rows

HOLD = """
import sys, time
from pathlib import Path
from invariance.folder import hold_run
with hold_run(Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(600)
"""


@pytest.fixture
def holder(one_thread):
    """A process that holds a run folder."""
    started = []

    def start(folder):
        process = subprocess.Popen(
            [sys.executable, "-c", HOLD, str(folder)],
            env=one_thread,
            stdout=subprocess.PIPE,
            text=True,
        )
        started.append(process)
        assert process.stdout.readline() == "held\n"
        return process

    yield start
    for process in started:
        process.kill()
        process.wait()
        process.stdout.close()


def test_a_second_writer_is_refused_by_name(
    small, pictures, stopped_after, holder, readings
):
    folder = stopped_after(2, small(), data=pictures)
    process, before = holder(folder), readings(folder)
    who = rf"another process \(pid {process.pid} on \S+, since \d+"
    with pytest.raises(TrainingError, match=who):
        inv.train(inv.Train(resume=str(folder), quiet=True), data=pictures)
    assert readings(folder) == before
    process.kill()  # a crashed holder does not block
    process.wait()
    assert (folder / ".writer.json").exists()
    inv.train(inv.Train(resume=str(folder), quiet=True), data=pictures)
    assert not (folder / ".writer.json").exists()


def test_a_run_that_goes_on_can_be_looked_at(small, pictures, stopped_after, holder):
    folder = stopped_after(2, small(), data=pictures)
    holder(folder)
    found = inv.train(
        inv.Train(resume=str(folder), dry_run=True, quiet=True), data=pictures
    )
    assert found.done == 2
    keep_rows(folder, [{"value": 0.5, "protocol": "knn"}])
    assert json.loads((folder / "evaluation.jsonl").read_text())["value"] == 0.5


def test_without_locks_a_sentence(tmp_path, monkeypatch):
    def fail(*_, **__):
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(filelock.FileLock, "acquire", fail)
    said = []
    with hold_run(tmp_path, said.append):
        keep_rows(tmp_path, [{"value": 0.5}])
    (sentence,) = said
    assert "cannot be locked (No locks available): make sure that no" in sentence


def test_those_who_add_scores_wait_for_each_other(tmp_path, monkeypatch):
    monkeypatch.setattr("invariance.folder._lock.PATIENCE", 0.1)
    with (
        filelock.FileLock(tmp_path / ".scores.lock"),
        pytest.raises(DataError, match="Another process has been writing in"),
    ):
        keep_rows(tmp_path, [{"value": 0.5}])
    keep_rows(tmp_path, [{"value": 0.5}])


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_stop_while_scoring_says_how_to_go_on(number, small, pictures, monkeypatch):
    handler = signal.getsignal(number)
    ask = lambda *_: os.kill(os.getpid(), number)  # noqa: E731
    monkeypatch.setattr("invariance.training._train.finish", ask)
    with pytest.raises(inv.Stopped, match=r"scoring; .* Score it with: .*--resume"):
        inv.train(small(), data=pictures)
    assert signal.getsignal(number) == handler


def test_a_stop_is_no_exception_and_says_how_to_go_on(small, pictures, monkeypatch):
    import contextlib

    @contextlib.contextmanager
    def asked():
        yield lambda: True

    monkeypatch.setattr("invariance.training._train.catch_signals", asked)
    assert not issubclass(inv.Stopped, Exception)
    with pytest.raises(
        inv.Stopped, match=r"Stopped after step 1 of 8 and saved\. Continue"
    ):
        try:
            inv.train(small(), data=pictures)
        except Exception:
            pytest.fail("swallowed")

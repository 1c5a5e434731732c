"""Readings handed on to other tools."""

import sys
import types

import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

import invariance as inv
from invariance.training import TRACKERS

READING = {"step": 3, "loss": 1.5, "time/data_wait": 0.1}


def test_tensorboard_gets_every_reading(tmp_path):
    TRACKERS["tensorboard"](tmp_path, {}, 0)(READING)
    events = EventAccumulator(str(tmp_path / "tensorboard")).Reload()
    assert events.Tags()["scalars"] == ["train/loss", "time/data_wait"]
    (scalar,) = events.Scalars("train/loss")
    assert (scalar.step, scalar.value) == (3, 1.5)


def test_wandb_stays_offline_and_keeps_one_run(tmp_path, monkeypatch):
    calls, logged = [], []

    class Run:
        def log(self, values, step):
            logged.append((values, step))

    def init(**settings):
        calls.append(settings)
        return Run()

    monkeypatch.delenv("WANDB_MODE", raising=False)
    fake = types.SimpleNamespace(init=init)
    monkeypatch.setitem(sys.modules, "wandb", fake)
    TRACKERS["wandb"](tmp_path / "a", {"epochs": 2}, 0)(READING)
    assert calls[0]["id"] == calls[0]["name"] == "a"
    assert calls[0]["config"] == {"epochs": 2}
    assert calls[0]["resume"] == "allow"
    assert logged == [(READING, 3)]
    assert __import__("os").environ["WANDB_MODE"] == "offline"


def test_a_missing_tracker_is_named_with_how_to_get_it(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "wandb", None)
    with pytest.raises(inv.InvarianceError, match=r"pip install 'invariance\[wandb\]'"):
        TRACKERS["wandb"](tmp_path, {}, 0)

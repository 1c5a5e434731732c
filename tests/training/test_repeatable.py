"""Arithmetic that repeats: what is set while training, and what is said."""

import dataclasses
import warnings

import numpy as np
import pytest
import torch
from torch import nn

import invariance as inv
from invariance.training import Machine


class Spy(nn.Module):
    """A network that notes the arithmetic in force when it runs."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Conv2d(3, 8, 3, 2)
        self.seen = None

    def forward(self, x):
        self.seen = flags()
        return self.layer(x).mean((2, 3))


class Unrepeatable(nn.Module):
    """A network with an operation that has no deterministic form."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Conv2d(3, 8, 3, 2)

    def forward(self, x):
        with torch.no_grad():
            torch.zeros(2).put_(torch.tensor([0]), torch.ones(1))
        return self.layer(x).mean((2, 3))


def flags():
    return (
        torch.are_deterministic_algorithms_enabled(),
        torch.backends.cudnn.deterministic,
        torch.backends.cudnn.benchmark,
    )


@pytest.mark.parametrize("exact", [True, False])
def test_arithmetic_holds_while_training_and_is_put_back(small, pictures, exact):
    before, spy = flags(), Spy()
    settings = dataclasses.replace(small(), machine=Machine(deterministic=exact))
    inv.train(settings, data=pictures, encoder=spy)
    assert spy.seen == (exact, exact, not exact)
    assert flags() == before


def test_an_operation_that_cannot_repeat_is_named_once(small, pictures, capsys):
    with warnings.catch_warnings():
        warnings.simplefilter("default")
        inv.train(
            dataclasses.replace(small(), quiet=True),
            data=pictures,
            encoder=Unrepeatable(),
        )
    said = "".join(capsys.readouterr())
    assert said.count("put_, which this network uses, has no deterministic form") == 1
    assert "use_deterministic_algorithms" not in said


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("method", ["simclr", "moco", "byol", "la"])
def test_on_a_gpu_runs_repeat_and_resume_to_the_bit(small, stopped_after, method):
    images = np.random.default_rng(0).integers(0, 256, (96, 32, 32, 3), dtype=np.uint8)
    settings = dataclasses.replace(
        small(), method=method, encoder="resnet18", machine=Machine(device="cuda")
    )
    first, second = (inv.train(settings, data=images) for _ in range(2))
    folder = stopped_after(5, settings, data=images)
    resumed = inv.train(inv.Train(resume=str(folder), quiet=True), data=images)
    for run in (second, resumed):
        assert without_clock(run) == without_clock(first)
        weights = run.encoder().state_dict()
        assert all(
            torch.equal(v, weights[k]) for k, v in first.encoder().state_dict().items()
        )


def without_clock(run):
    """All readings but those of time."""
    return [
        {k: v for k, v in m.items() if not k.startswith("time/")} for m in run.metrics
    ]

"""A run that blows up stops in words, and its last good state is kept."""

import weakref
from pathlib import Path

import pytest
import torch
from torch import nn

from invariance.errors import TrainingError
from invariance.objectives import NTXent
from invariance.training import Optim, load, newest_checkpoint, train


def all_finite(folder):
    state = newest_checkpoint(folder / "checkpoints")
    tensors = [t for t in state["learner"].values() if t.is_floating_point()]
    return all(bool(t.isfinite().all()) for t in tensors)


def folder_of(settings):
    return Path(settings.out) / settings.name


def test_a_rate_that_is_far_too_high(small, pictures):
    optim = Optim(name="sgd", lr=1e30, lr_scaling="none", warmup=0.0)
    settings = small(optim=optim, checkpoint_seconds=0.0, name="high")
    with pytest.raises(TrainingError, match="Training diverged at step"):
        train(settings, data=pictures)
    kept = list((folder_of(settings) / "checkpoints").iterdir())
    assert not kept or all_finite(folder_of(settings))


def test_a_loss_that_is_not_a_number(small, pictures, monkeypatch):
    calls = []

    def spoiled(self, u, v, forward=NTXent.forward):
        calls.append(1)
        return forward(self, u, v) * (float("nan") if len(calls) == 4 else 1.0)

    monkeypatch.setattr(NTXent, "forward", spoiled)
    settings = small(checkpoint_seconds=0.0, name="nan")
    message = r"diverged at step 4: the loss is nan.*last good state is kept.*lower"
    with pytest.raises(TrainingError, match=message):
        train(settings, data=pictures)
    folder = folder_of(settings)
    assert newest_checkpoint(folder / "checkpoints")["step"] == 3
    assert all_finite(folder)
    features = load(folder)(torch.rand(2, 3, 16, 16))
    assert bool(features.isfinite().all())


class BadGradient(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    def backward(ctx, gradient):
        return gradient * float("nan")


def test_a_bad_gradient_of_a_good_loss_is_not_saved(small, pictures, monkeypatch):
    calls = []

    def spoiled(self, u, v, forward=NTXent.forward):
        calls.append(1)
        return forward(self, BadGradient.apply(u) if len(calls) == 3 else u, v)

    monkeypatch.setattr(NTXent, "forward", spoiled)
    settings = small(checkpoint_seconds=0.0, name="gradient")
    with pytest.raises(TrainingError, match="step 3: the weights are no longer finite"):
        train(settings, data=pictures)
    folder = folder_of(settings)
    assert newest_checkpoint(folder / "checkpoints")["step"] == 2
    assert all_finite(folder)


def test_embeddings_that_are_not_finite(small, pictures):
    class Broken(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Conv2d(3, 4, 3)

        def forward(self, x):
            return self.layer(x) / (0.0 if self.training else 1.0)

    with pytest.raises(TrainingError, match=r"diverged at step 0: u has NaN"):
        train(
            small(head="none", hidden=None, width=None), data=pictures, encoder=Broken()
        )


@pytest.fixture
def little_memory(monkeypatch):
    """A learner that runs out of memory above so many samples."""
    from invariance.methods import JointEmbedding

    def limit(most, error):
        real = JointEmbedding.forward

        def forward(self, views, *rest):
            if len(views[0]) > most:
                raise error
            return real(self, views, *rest)

        monkeypatch.setattr(JointEmbedding, "forward", forward)

    return limit


@pytest.mark.parametrize(
    "error",
    [
        torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB."),
        RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried"),
    ],
    ids=["gpu", "cpu"],
)
def test_out_of_memory_names_a_batch_that_fits(error, small, pictures, little_memory):
    little_memory(5, error)
    with pytest.raises(TrainingError) as told:
        train(small(batch_size=32), data=pictures)
    advice = "batches of 32: a trial with 4 went through, so use --batch-size 4, or"
    assert f"Out of memory with {advice} --micro-batch 4, which" in str(told.value)


def test_what_did_not_fit_is_let_go_before_less_is_tried(small, pictures):
    """The advice was far too small: the failed batch stood in the way of the trials."""
    alive = weakref.WeakSet()

    class Ballast:
        def __init__(self, n):
            self.n = n

    class Hungry(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Conv2d(3, 4, 3)

        def forward(self, x):
            ballast = Ballast(len(x))
            alive.add(ballast)
            if sum(each.n for each in alive) > 100:
                raise torch.OutOfMemoryError("out of memory")
            return self.layer(x)

    with pytest.raises(TrainingError, match="--batch-size 32, or --micro-batch 32"):
        train(small(batch_size=64), data=pictures, encoder=Hungry())


def test_when_nothing_fits(small, pictures, little_memory):
    little_memory(1, torch.OutOfMemoryError("out of memory"))
    with pytest.raises(TrainingError, match="not even two samples fit"):
        train(small(), data=pictures)


def test_other_errors_are_not_called_memory(small, pictures, little_memory):
    little_memory(1, RuntimeError("a bug"))
    with pytest.raises(RuntimeError, match="a bug"):
        train(small(), data=pictures)


@pytest.mark.parametrize("method", ["simclr", "moco", "ir", "la", "nnclr", "byol"])
def test_every_kind_of_method_gets_advice(method, small, pictures):
    """Methods with a memory need to be told which samples they see, in a trial too."""

    class Hungry(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Conv2d(3, 4, 3)

        def forward(self, x):
            if len(x) > 20:
                raise torch.OutOfMemoryError("out of memory")
            return self.layer(x)

    settings = small(method=method, batch_size=32)
    with pytest.raises(TrainingError, match=r"--batch-size (8|16), or"):
        train(settings, data=pictures, encoder=Hungry())
    settings = small(method=method, batch_size=64, micro_batch=32)
    with pytest.raises(TrainingError, match=r"use --micro-batch (8|16)\."):
        train(settings, data=pictures, encoder=Hungry())

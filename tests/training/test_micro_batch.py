"""--micro-batch: steps of a batch in pieces are those of the whole batch."""

from typing import ClassVar

import pytest
import torch
from tests.image_methods import IMAGE_METHODS
from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm

import invariance as inv
from invariance.encoders import Encoder
from invariance.errors import SettingError, TrainingError
from invariance.training import Optim, make_plan
from invariance.views import RandomHorizontalFlip, ViewSet

OPTIONS = {
    "moco": {"size": 64},
    "moco_v1": {"size": 64},
    "nnclr": {"size": 64},
    "swav": {"n_prototypes": 6},
    "pcl": {"size": 64, "n_clusters": 4, "warmup": 0.0},
    "ir_sampled": {"n_draws": 10},
    "ir_nce": {"n_draws": 10},
    "vince": {"n_proposals": 16},
    "vince_plus": {"n_proposals": 16},
    "la": {"k": 20, "n_clusters": 4, "warmup": 0.0},
    "info_nce": {"temperature": "learned"},
}


class Pooled(nn.Module):
    """An encoder of images of any size; notes how many come at once."""

    n_images: ClassVar[list] = []

    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(
            nn.AdaptiveAvgPool2d(4), nn.Flatten(), nn.Linear(48, 16), nn.LayerNorm(16)
        )

    def forward(self, images):
        self.n_images.append(len(images))
        return self.layers(images)


# places need an encoder with a feature map: methods/test_deep_infomax tries them
WHOLE_IMAGES = [k for k, m in IMAGE_METHODS.items() if m.positives != "places"]


@pytest.mark.parametrize("sizes", [(16, 16), (16, 16, 8)], ids=["views", "crops"])
@pytest.mark.parametrize("name", WHOLE_IMAGES)
def test_a_step_in_pieces_is_the_whole_step(name, sizes):
    """Loss, gradients, readings and memories, in float64; batch norms stand still."""
    results = []
    for micro_batch in (None, 5):
        torch.manual_seed(0)
        encoder = Encoder(Pooled(), input_shape=(3, 16, 16))
        options = OPTIONS.get(name, {})
        learner = inv.build(name, encoder, n_samples=48, **options).double()
        learner.micro_batch = micro_batch
        for module in learner.modules():
            if isinstance(module, _BatchNorm):
                module.eval()
        for ids in torch.randperm(48).chunk(3):  # a memory fills up
            learner.before_epoch(0.5)
            views = [torch.randn(16, 3, s, s, dtype=torch.float64) for s in sizes]
            step = learner(views, ids % 4, ids)
            learner.zero_grad()
            step.loss.backward()
            step = step.with_ess().with_information()
            learner.after_step(0.5)
        numbers = {"loss": step.loss.detach(), **step.readings, **step.parts}
        slopes = {n: p.grad for n, p in learner.named_parameters() if p.requires_grad}
        results.append((numbers, slopes, dict(learner.named_buffers())))
    for mine, theirs in zip(*results, strict=True):
        assert mine.keys() == theirs.keys()
        for key, x in mine.items():
            torch.testing.assert_close(
                x, theirs[key], atol=1e-10, rtol=1e-10, equal_nan=True
            )


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"storage": "streamed", "workers": 0},
        {"optim": Optim(accumulate=2), "batch_size": 8},
        {"micro_batch": 5},  # sixteen in four pieces of four
    ],
)
def test_a_run_in_pieces_is_the_whole_run(changes, small, pictures, monkeypatch):
    """The same views, whether they are made together or piece by piece."""
    losses = []
    for pieces in ({"micro_batch": 4} | changes, changes | {"micro_batch": None}):
        monkeypatch.setattr(Pooled, "n_images", [])
        torch.manual_seed(0)
        settings = small(head="linear", hidden=None, **pieces)
        run = inv.train(settings, data=pictures, encoder=Pooled())
        losses.append([reading["loss"] for reading in run.metrics])
        whole = settings.micro_batch is None
        assert Pooled.n_images[-1] == 2 * (settings.batch_size if whole else 4)
    assert losses[0] == pytest.approx(losses[1], rel=1e-5)


def test_a_view_of_one_s_own_sees_the_whole_batch(small, pictures):
    seen = []

    def look(images):
        seen.append(len(images))
        return images - images.mean(0)

    views = ViewSet([[look], [RandomHorizontalFlip()]])
    inv.train(small(micro_batch=4, epochs=1), data=pictures, views=views)
    assert set(seen) == {16}


def test_settings_without_sense_are_refused(small, pictures):
    with pytest.raises(SettingError, match="micro_batch 16 is a piece of a larger"):
        make_plan(small(micro_batch=16), data=pictures)
    make_plan(small(micro_batch=16), data=pictures, started=True)
    with pytest.raises(SettingError, match="each of 2 processes has 8 of its 16"):
        make_plan(small(micro_batch=10), data=pictures, processes=2)
    for processes in (1, 2):
        with pytest.raises(SettingError, match="batch norms see one sample at a time"):
            make_plan(small(micro_batch=1), data=pictures, processes=processes)
    plain = {"head": "linear", "hidden": None, "micro_batch": 1}
    make_plan(small(**plain), data=pictures, encoder=Pooled())
    with pytest.raises(SettingError, match="micro_batch must be at least 1: got 0"):
        inv.train(small(micro_batch=0), data=pictures)
    sharded = inv.Machine(strategy="fsdp")
    with pytest.raises(SettingError, match=r"use --machine\.strategy ddp"):
        inv.train(small(micro_batch=4, machine=sharded), data=pictures)


def test_an_encoder_that_does_not_repeat_is_refused(small, pictures):
    class Moody(Pooled):
        n_calls = 0

        def forward(self, images):
            self.n_calls += 1
            return super().forward(images) * self.layers[2].weight[0, self.n_calls]

    with pytest.raises(TrainingError, match="the second time gives other embeddings"):
        inv.train(small(micro_batch=4), data=pictures, encoder=Moody())


def test_it_is_said_what_is_done(small, pictures, capsys):
    inv.train(small(micro_batch=4, dry_run=True, quiet=False), data=pictures)
    said = capsys.readouterr().out
    assert "of 16 samples, encoded 4 at a time, 4 per epoch" in said
    assert "projections (16, 8)" in said

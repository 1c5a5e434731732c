"""Recipes and view sets: the same views whatever the batch, and clear errors."""

import subprocess
import sys

import pytest
import torch
from torch import nn
from torchvision.transforms import v2

import invariance.views as views_package
from invariance.errors import SettingError, ShapeError
from invariance.views import (
    RECIPES,
    GaussianBlur,
    Normalize,
    RandomHorizontalFlip,
    RandomResizedCrop,
    RandomSolarize,
    ViewSet,
    byol,
    multi_crop,
    simclr,
)

PIECE_BYTES = "invariance.views._view_set.PIECE_BYTES"  # no setting, but shrunk here


def batch(n=10, c=3, size=24):
    g = torch.Generator().manual_seed(0)
    return torch.randint(256, (n, c, size, size), generator=g, dtype=torch.uint8)


@pytest.mark.parametrize("recipe", RECIPES)
@pytest.mark.parametrize("channels", [1, 3, 4])
def test_every_recipe_runs_for_any_channels(recipe, channels):
    images, ids = batch(c=channels), torch.arange(10)
    out = ViewSet(RECIPES[recipe](20, channels))(images, samples=ids, seed=0, epoch=0)
    assert all(v.shape[:2] == (10, channels) and v.isfinite().all() for v in out)
    assert all(v.dtype == torch.float32 and v.min() >= -1e-6 for v in out)
    assert out[0].shape[2:] == (20, 20)


@pytest.mark.parametrize("recipe", ["simclr", "byol", "multi_crop"])
def test_views_do_not_depend_on_the_batch(recipe):
    view_set, images = ViewSet(RECIPES[recipe](72)), batch(size=40)
    ids = torch.tensor([5, 900, 2, 7, 11, 13, 17, 19, 2**40, 0])
    whole = view_set(images, samples=ids, seed=3, epoch=7)
    order = torch.randperm(10, generator=torch.Generator().manual_seed(1))
    mixed = view_set(images[order], samples=ids[order], seed=3, epoch=7)
    halves = [
        view_set(images[i::2], samples=ids[i::2], seed=3, epoch=7) for i in range(2)
    ]
    for v, view in enumerate(whole):
        torch.testing.assert_close(mixed[v], view[order], rtol=0, atol=1e-5)
        for i in range(2):
            torch.testing.assert_close(halves[i][v], view[i::2], rtol=0, atol=1e-5)


def test_pieces_give_what_the_whole_gives(monkeypatch):
    view_set, images, ids = ViewSet(simclr(24)), batch(), torch.arange(10)
    whole = view_set(images, samples=ids, seed=0, epoch=0)
    monkeypatch.setattr(PIECE_BYTES, 4 * images[0].numel() * 3)
    pieces = view_set(images, samples=ids, seed=0, epoch=0)
    for a, b in zip(whole, pieces, strict=True):
        torch.testing.assert_close(a, b, rtol=0, atol=1e-5)


def test_seed_epoch_sample_and_view_all_matter():
    view_set, images = ViewSet(simclr(24)), batch(1).expand(10, -1, -1, -1)
    ids = torch.arange(10)
    u, v = view_set(images, samples=ids, seed=0, epoch=0)
    assert not torch.equal(u, v) and not torch.equal(u[0], u[1])
    for keys in ({"seed": 1, "epoch": 0}, {"seed": 0, "epoch": 1}):
        assert not torch.equal(view_set(images, samples=ids, **keys)[0], u)
    again = view_set(images, samples=ids, seed=0, epoch=0)
    assert torch.equal(again[0], u) and torch.equal(again[1], v)


def test_bytes_and_floats_are_one():
    view_set, images, ids = ViewSet(simclr(24)), batch(), torch.arange(10)
    a = view_set(images, samples=ids, seed=0, epoch=0)
    for floats in (images / 255, (images / 255).double()):
        b = view_set(floats, samples=ids, seed=0, epoch=0)
        torch.testing.assert_close(a[0], b[0], rtol=0, atol=1e-6)


def test_multi_crop_sizes():
    out = ViewSet(multi_crop(32, n_local=3, local_size=12))(
        batch(), samples=torch.arange(10), seed=0, epoch=0
    )
    assert [v.shape[-1] for v in out] == [32, 32, 12, 12, 12]


def test_recipes_are_the_published_settings():
    small, large = simclr(32)[0], simclr(224)[0]
    assert small[2].operation.brightness == pytest.approx(0.4)
    assert large[2].operation.hue == pytest.approx(0.2)
    assert not any(isinstance(getattr(o, "operation", o), GaussianBlur) for o in small)
    assert large[-1].p == 0.5 and isinstance(large[-1].operation, GaussianBlur)
    first, second = byol(224)
    assert first[4].p == 1.0 and second[4].p == 0.1
    assert not any(isinstance(o, RandomSolarize) for o in first)
    assert second[5] == RandomSolarize(0.5, p=0.2)
    assert len(simclr(32, n_views=5)) == 5
    normalize = Normalize((0.5,) * 3, (0.2,) * 3)
    assert all(view[-1] == normalize for view in byol(32, normalize=normalize))
    with pytest.raises(SettingError, match="n_views is at least 1"):
        simclr(32, n_views=0)


def test_any_callable_is_an_operation():
    class Half(nn.Module):
        def forward(self, images):
            return images / 2

    def shift(images, draws):
        return images + draws.uniform(1).view(-1, 1, 1, 1)

    images, ids = torch.zeros(6, 3, 8, 8), torch.arange(6)
    pipelines = [[lambda x: x + 1, Half()], [shift], [torch.neg], [v2.Resize(4)]]
    a, b, c, d = ViewSet(pipelines)(images, samples=ids, seed=0, epoch=0)
    assert (a == 0.5).all() and (c == 0).all() and d.shape == (6, 3, 4, 4)
    assert b[:, 0, 0, 0].unique().numel() == 6


def test_a_callable_sees_the_whole_batch(monkeypatch):
    monkeypatch.setattr(PIECE_BYTES, 1)
    sizes = []
    ViewSet([[lambda x: (sizes.append(len(x)), x)[1]]])(
        batch(), samples=torch.arange(10), seed=0, epoch=0
    )
    assert sizes == [10]


@pytest.mark.parametrize(
    ("images", "samples", "message"),
    [
        (torch.zeros(3, 8, 8), torch.arange(3), r"four axes, n c h w .*images\[None\]"),
        (torch.zeros(2, 3, 8, 8, dtype=torch.long), torch.arange(2), "must be uint8"),
        (torch.zeros(2, 8, 8, 3), torch.arange(2), "channels last"),
        (torch.zeros(2, 3, 8, 8), torch.arange(3), "each of the 2 images"),
        (torch.zeros(0, 3, 8, 8), torch.arange(0), "images is empty"),
    ],
)
def test_bad_input_is_named(images, samples, message):
    with pytest.raises(ShapeError, match=message):
        ViewSet(simclr(8))(images, samples=samples, seed=0, epoch=0)


def test_bad_pipelines_are_named():
    with pytest.raises(SettingError, match=r"write ViewSet\(\[\[...\]\]\)"):
        ViewSet([RandomHorizontalFlip()])
    with pytest.raises(SettingError, match="operations or callables"):
        ViewSet([["flip"]])
    with pytest.raises(ShapeError, match=r"Operation 1 of view 0.*one image for each"):
        ViewSet([[RandomResizedCrop(8), lambda x: x[:1]]])(
            batch(), samples=torch.arange(10), seed=0, epoch=0
        )


def test_every_public_name_has_a_docstring():
    for name in views_package.__all__:
        assert name == "RECIPES" or getattr(views_package, name).__doc__, name


def test_a_view_set_compiles_without_a_break():
    """In a process of its own: compiling needs annotations that are not checked."""
    program = """
import torch
from invariance.views import ViewSet, simclr
views = ViewSet(simclr(72))
images = torch.randint(256, (4, 3, 80, 80), dtype=torch.uint8)
keys = dict(samples=torch.arange(4), seed=0, epoch=0)
eager, compiled = views(images, **keys), torch.compile(
    views.__call__, backend="eager", fullgraph=True)(images, **keys)
for a, b in zip(eager, compiled):
    torch.testing.assert_close(a, b, rtol=0, atol=1e-5)
"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=120)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("recipe", RECIPES)
def test_a_gpu_makes_the_same_views_and_is_never_waited_for(recipe):
    normalize = Normalize((0.5,) * 3, (0.2,) * 3)
    view_set = ViewSet(RECIPES[recipe](72, normalize=normalize))
    images, ids = batch(size=80), torch.arange(10)
    here = view_set(images, samples=ids, seed=0, epoch=0)
    there = images.cuda()
    for samples in (ids, ids.cuda()):
        torch.cuda.set_sync_debug_mode("error")
        try:
            views = view_set(there, samples=samples, seed=0, epoch=0)
        finally:
            torch.cuda.set_sync_debug_mode("default")
        for a, b in zip(here, views, strict=True):
            torch.testing.assert_close(b.cpu(), a, rtol=0, atol=1 / 255)

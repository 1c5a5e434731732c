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
    KINDS_OF,
    RECIPES,
    ColorJitter,
    GaussianBlur,
    GaussianNoise,
    Normalize,
    RandomAffine,
    RandomHorizontalFlip,
    RandomResizedCrop,
    RandomSolarize,
    Sometimes,
    ViewSet,
    byol,
    multi_crop,
    name_operation,
    simclr,
    weaken,
)

IMAGE_RECIPES = [name for name in RECIPES if name not in KINDS_OF]

PIECE_BYTES = "invariance.views._view_set.PIECE_BYTES"  # no setting, but shrunk here


def batch(n=10, c=3, size=24):
    g = torch.Generator().manual_seed(0)
    return torch.randint(256, (n, c, size, size), generator=g, dtype=torch.uint8)


@pytest.mark.parametrize("recipe", IMAGE_RECIPES)
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
        (torch.zeros(2, 3, 8, 8), torch.arange(3), "each of the 2"),
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
    with pytest.raises(ShapeError, match=r"Operation 1 of view 0.*one sample for each"):
        ViewSet([[RandomResizedCrop(8), lambda x: x[:1]]])(
            batch(), samples=torch.arange(10), seed=0, epoch=0
        )


def test_every_public_name_has_a_docstring():
    for name in views_package.__all__:
        assert (
            name in ("KINDS_OF", "RECIPES") or getattr(views_package, name).__doc__
        ), name


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
@pytest.mark.parametrize("recipe", IMAGE_RECIPES)
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


# ---------------------------------------------------------------- weaker views


@pytest.mark.parametrize("recipe", ["simclr", "byol", "weak", "shapes", "multi_crop"])
def test_every_operation_of_a_recipe_can_be_weakened_and_left_out(recipe):
    images = torch.rand(16, 3, 72, 72)
    keys = {"samples": torch.arange(16), "seed": 0, "epoch": 0}
    views = RECIPES[recipe](72)
    plain = ViewSet(views)(images, **keys)
    names = {name_operation(operation) for view in views for operation in view}
    assert "crop" in names and "" not in names
    for name in names:
        for strength in (0, 0.25):
            weaker = weaken(views, {name: strength})
            left = {name_operation(operation) for view in weaker for operation in view}
            assert (name in left) is (strength > 0)
            out = ViewSet(weaker)(images, **keys)
            assert [v.shape for v in out] == [v.shape for v in plain]
            assert any(not torch.equal(a, b) for a, b in zip(out, plain, strict=True))
    assert weaken(views, {}) == [list(view) for view in views]


def test_a_weaker_operation_is_nearer_to_none():
    views = [
        [
            RandomResizedCrop(16, scale=(0.2, 0.8), ratio=(0.25, 4.0)),
            RandomHorizontalFlip(0.5),
            Sometimes(0.8, ColorJitter(0.4, (0.6, 1.8), 0.0, hue=(-0.1, 0.3))),
            RandomAffine(10, translate=(0.2, 0.4), scale=(0.5, 2.0), shear=(4, 8)),
            GaussianNoise(0.2),
            GaussianBlur((0.2, 2.0)),
        ]
    ]
    names = ("crop", "flip", "color", "affine", "noise", "blur")
    ((crop, flip, jitter, affine, noise, blur),) = weaken(
        views, dict.fromkeys(names, 0.5)
    )
    assert crop.scale == (0.6, 0.9) and crop.ratio == (0.5, 2.0)
    assert flip.p == 0.25 and jitter.p == 0.8
    assert jitter.operation.brightness == 0.2
    assert jitter.operation.contrast == pytest.approx((0.8, 1.4))
    assert jitter.operation.hue == (-0.05, 0.15)
    assert affine == RandomAffine(5, (0.1, 0.2), (0.75, 1.5), (2, 4))
    assert (noise.sigma, blur.sigma) == (0.1, (0.1, 1.0))


@pytest.mark.parametrize(
    "strengths, message",
    [
        ({"blur": 0}, "Unknown operation 'blur'.* made of color, crop, flip, gray"),
        ({"colour": 0}, "Did you mean 'color'"),
        ({"foo": 0}, "Unknown operation 'foo'. These views are made of"),
        ({"crop": 1}, "The strength of crop lies between 0, which leaves it out, and"),
        ({"crop": -0.1}, "got -0.1"),
    ],
)
def test_what_cannot_be_weakened(strengths, message):
    with pytest.raises(SettingError, match=message):
        weaken(RECIPES["simclr"](32), strengths)


@pytest.mark.parametrize(
    "recipe, settings, message",
    [
        ("multi_crop", {"local_size": 32}, "small ones of fewer pixels than the 32"),
        ("multi_crop", {"n_global": 0}, "at least one large crop"),
        ("multi_crop", {"split": 0.01}, "from 0.05 to 1: got 0.01"),
        ("multi_crop", {"channels": 4, "strength": 1.0}, "images with 4 channels"),
        ("simclr", {"strength": 3.0}, "strength is for the colors, from 0 to 2.5"),
        ("simclr", {"blur": 2.0}, "blur is a probability"),
        ("simclr", {"channels": 4, "strength": 1.0}, "images with 4 channels"),
    ],
)
def test_what_a_recipe_cannot_be_told(recipe, settings, message):
    with pytest.raises(SettingError, match=message):
        RECIPES[recipe](32, **settings)

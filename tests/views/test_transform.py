"""Views as a transform of single images, alone and in the workers of a DataLoader."""

import multiprocessing
import pickle
import subprocess
import sys

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image
from torch.utils.data import DataLoader, Dataset
from torchvision.datasets import FakeData
from torchvision.transforms import v2

import invariance as inv
from invariance.errors import SettingError, ShapeError
from invariance.views import (
    KINDS_OF,
    RECIPES,
    GaussianNoise,
    RandomHorizontalFlip,
    ViewSet,
    transform,
)

IMAGE_RECIPES = [name for name in RECIPES if name not in KINDS_OF]

PIXELS = np.random.default_rng(0).integers(0, 256, (20, 24, 3), dtype=np.uint8)


class Same(Dataset):
    """One image again and again, so that views differ by their draws alone."""

    def __init__(self, transform, n=8):
        self.transform, self.n = transform, n

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        return self.transform(Image.fromarray(PIXELS))


def invert(images):
    return 1 - images


def epoch_of(data, *, workers, seed=0, context=None):
    loader = DataLoader(
        data,
        batch_size=2,
        num_workers=workers,
        generator=torch.Generator().manual_seed(seed),
        multiprocessing_context=context,
    )
    return [torch.cat(views) for views in zip(*loader, strict=True)]


@pytest.mark.parametrize("recipe", IMAGE_RECIPES)
@pytest.mark.parametrize("channels", [1, 3])
def test_every_recipe_takes_a_pillow_image(recipe, channels):
    views = transform(recipe, 16, channels=channels)(Image.fromarray(PIXELS))
    assert len(views) == len(RECIPES[recipe](16))
    for view in views:
        assert view.shape[0] == channels and view.dtype == torch.float32
        assert view.ndim == 3 and 0 <= view.min() <= view.max() <= 1 + 1e-6


@settings(max_examples=20, deadline=None)
@given(h=st.integers(3, 30), w=st.integers(3, 30), channels=st.sampled_from([1, 3]))
def test_all_kinds_of_images_give_the_same_views(h, w, channels):
    pixels = np.resize(PIXELS, (h, w, channels))
    tensor = torch.from_numpy(pixels).permute(2, 0, 1)
    kinds = [
        Image.fromarray(pixels[:, :, 0] if channels == 1 else pixels),
        pixels,
        pixels.astype(np.float64) / 255,
        tensor,
        tensor / 255,
        *([pixels[:, :, 0], tensor[0]] if channels == 1 else []),
    ]
    two_views = transform("simclr", size=8, channels=channels)
    first, *others = (
        two_views(image, generator=torch.Generator().manual_seed(1)) for image in kinds
    )
    assert not torch.equal(*first)
    for views in others:
        for a, b in zip(first, views, strict=True):
            torch.testing.assert_close(a, b, rtol=0, atol=1e-6)


def test_torchs_generator_decides_and_moves_on():
    two_views = transform("simclr", size=12)
    torch.manual_seed(5)
    first, second = two_views(PIXELS)[0], two_views(PIXELS)[0]
    torch.manual_seed(5)
    assert torch.equal(two_views(PIXELS)[0], first)
    assert not torch.equal(first, second)
    before = torch.get_rng_state()
    two_views(PIXELS, generator=torch.Generator())
    assert torch.equal(torch.get_rng_state(), before)


def test_workers_draw_different_views_and_the_same_ones_again():
    data = Same(transform("simclr", size=12))
    u, v = epoch_of(data, workers=2)
    assert u.shape == v.shape == (8, 3, 12, 12)
    rows = torch.cat([u, v]).flatten(1)
    assert len(rows.unique(dim=0)) == 16  # no worker repeats the other
    again, _ = epoch_of(data, workers=2)
    other, _ = epoch_of(data, workers=2, seed=1)
    assert torch.equal(again, u) and not torch.equal(other, u)


def test_each_epoch_has_new_views():
    loader = DataLoader(Same(transform("weak", size=12), n=2), num_workers=1)
    first, second = (torch.cat([u for u, _ in loader]) for _ in range(2))
    assert not torch.equal(first, second)


@pytest.mark.skipif(
    "spawn" not in multiprocessing.get_all_start_methods(), reason="needs spawn"
)
def test_a_transform_travels_to_a_fresh_process():
    views = [[RandomHorizontalFlip(), torch.neg], [v2.Resize(4)]]
    data = FakeData(4, image_size=(3, 9, 9), transform=transform(views))
    loader = DataLoader(data, 2, num_workers=2, multiprocessing_context="spawn")
    (u, v), labels = next(iter(loader))
    assert (u <= 0).all() and v.shape == (2, 3, 4, 4) and labels.shape == (2,)


def test_a_pickled_transform_makes_the_same_views():
    mine = transform(ViewSet([[inv.views.Sometimes(0.5, invert)], [invert]]))
    copy = pickle.loads(pickle.dumps(mine))
    ours, theirs = (
        views(PIXELS, generator=torch.Generator().manual_seed(3))
        for views in (mine, copy)
    )
    assert all(torch.equal(a, b) for a, b in zip(ours, theirs, strict=True))


def test_arrays_of_any_strides_and_byte_order():
    keep = transform([[]])
    for array in (PIXELS[..., ::-1], PIXELS[:, ::-1], (PIXELS / 255).astype(">f4")):
        plain = np.array(array, array.dtype.newbyteorder("="), order="C")
        assert torch.equal(keep(array)[0], keep(plain)[0])


def test_noise_on_images_is_asked_for_by_its_operations():
    with pytest.raises(SettingError, match=r"\[\[GaussianNoise\(0.3\)\], \[G"):
        transform("noise", size=8)
    noisy = transform([[GaussianNoise(0.3)], [GaussianNoise(0.3)]], channels=3)
    assert [v.shape for v in noisy(PIXELS)] == 2 * [(3, 20, 24)]


def test_without_channels_an_image_keeps_its_own():
    keep = transform([[]])
    image = Image.fromarray(PIXELS)
    assert keep(image)[0].shape == (3, 20, 24)
    assert keep(image.convert("L"))[0].shape == (1, 20, 24)
    assert keep(image.convert("P"))[0].shape == (3, 20, 24)
    assert keep(torch.zeros(5, 8, 8))[0].shape == (5, 8, 8)
    four = transform("weak", size=8, channels=4)
    assert four(image.convert("RGBA"))[0].shape == (4, 8, 8)


@pytest.mark.parametrize(
    ("image", "message"),
    [
        ("cat.png", "takes one image.*Got str"),
        (torch.zeros(2, 3, 8, 8), r"of shape \(2, 3, 8, 8\). For a batch use ViewSet"),
        (torch.zeros(1, 8, 8), "1 channel and the views 3.*channels=1"),
        (np.zeros((8, 8), np.float32) + 200, "views 3"),
        (torch.full((3, 8, 8), 200.0), r"lie in \[0, 1\]: got 200 to 200. Divide"),
        (torch.zeros(3, 8, 8, dtype=torch.long), "must be uint8"),
        (Image.new("I;16", (8, 8)), "more than 8 bits per channel"),
    ],
    ids=["text", "batch", "one channel", "bright", "too bright", "whole", "16 bits"],
)
def test_a_bad_image_is_named(image, message):
    with pytest.raises(ShapeError, match=message):
        transform("simclr", size=8)(image)


def test_the_public_parts_open_without_an_import_of_their_own():
    program = """
import sys, invariance as inv
assert {"data", "encoders", "methods", "views"} <= {*dir(inv), *inv.__all__}
assert "torch" not in sys.modules
inv.views.transform, inv.data.load, inv.encoders.build_encoder, inv.methods.METHODS
"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=120)


def test_a_bad_transform_is_named():
    with pytest.raises(SettingError, match="Did you mean 'simclr'"):
        transform("simclt", size=8)
    with pytest.raises(SettingError, match=r"write transform\('byol', size=32\)"):
        transform("byol")
    with pytest.raises(SettingError, match="got size, n_views"):
        transform([[]], 8, n_views=3)

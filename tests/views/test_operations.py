"""Distributions, probabilities, purity, batch independence and bad settings."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from torchvision.transforms import v2

from invariance.errors import SettingError, ShapeError
from invariance.views import (
    ColorJitter,
    Draws,
    GaussianBlur,
    GaussianNoise,
    Normalize,
    RandomAffine,
    RandomGrayscale,
    RandomHorizontalFlip,
    RandomResizedCrop,
    RandomRotation,
    RandomSolarize,
    Resize,
    Sometimes,
)

OPERATIONS = [
    RandomResizedCrop(9),
    Resize(9),
    RandomHorizontalFlip(),
    ColorJitter(0.8, 0.8, 0.8, 0.2),
    RandomGrayscale(0.5),
    GaussianBlur(kernel_size=3),
    RandomSolarize(0.5),
    RandomRotation(30, "bilinear"),
    RandomAffine(30, (0.1, 0.1), (0.8, 1.2), (10, 10), "bilinear"),
    GaussianNoise((0.01, 0.1)),
    Sometimes(0.5, ColorJitter(0.4, 0.4, 0.4, 0.1)),
    Sometimes(0.5, Sometimes(0.5, GaussianNoise(0.1))),
]
EACH = pytest.mark.parametrize("operation", OPERATIONS, ids=lambda o: type(o).__name__)


def source(n, **keys):
    return Draws(
        **{"seed": 0, "epoch": 0, "samples": torch.arange(n), "view": 0} | keys
    )


@EACH
def test_a_row_never_sees_its_batch_and_images_stay(operation):
    images = torch.rand(13, 3, 12, 15, generator=torch.Generator().manual_seed(1))
    before, d = images.clone(), source(13)
    whole = operation(images, d)
    assert torch.equal(images, before)
    order = torch.randperm(13, generator=torch.Generator().manual_seed(2))
    mixed = operation(images[order], d.rows(order))
    torch.testing.assert_close(mixed, whole[order], rtol=0, atol=1e-6)
    parts = [operation(images[i::4], d.rows(slice(i, None, 4))) for i in range(4)]
    for i, part in enumerate(parts):
        torch.testing.assert_close(part, whole[i::4], rtol=0, atol=1e-6)


@EACH
@settings(max_examples=8, deadline=None)
@given(
    n=st.integers(1, 5),
    c=st.sampled_from([1, 3]),
    h=st.integers(2, 20),
    w=st.integers(2, 20),
)
def test_any_size_gives_finite_pixels_in_range(operation, n, c, h, w):
    images = torch.rand(n, c, h, w)
    out = operation(images, source(n))
    assert out.shape[:2] == (n, c) and out.dtype == torch.float32
    assert out.isfinite().all() and out.min() >= -1e-6 and out.max() <= 1 + 1e-6


@EACH
def test_coins_on_the_device_and_on_the_host_agree(operation, monkeypatch):
    images, d = torch.rand(9, 3, 12, 12), source(9)
    on_host = operation(images, d)
    monkeypatch.setattr(torch.compiler, "is_compiling", lambda: True)
    torch.testing.assert_close(operation(images, d), on_host, rtol=0, atol=1e-6)


@pytest.mark.parametrize(
    ("shape", "scale", "ratio"),
    [
        ((32, 32), (0.08, 1.0), (3 / 4, 4 / 3)),
        ((30, 60), (0.2, 1.0), (3 / 4, 4 / 3)),
        ((20, 80), (0.5, 1.0), (0.9, 1.1)),  # most tries fail: the fallback is common
    ],
    ids=str,
)
def test_boxes_are_distributed_as_torchvisions(shape, scale, ratio):
    ours = RandomResizedCrop(8, scale, ratio).draw(source(4000), (4000, 3, *shape))
    torch.manual_seed(0)
    image, crop = torch.zeros(3, *shape), v2.RandomResizedCrop(8, scale, ratio)
    rows = [crop.make_params([image]) for _ in range(4000)]
    theirs = torch.tensor([[r[k] for k in KEYS] for r in rows])
    for a, b in zip(ours.unbind(1), theirs.unbind(1), strict=True):
        assert stats.ks_2samp(a.numpy(), b.numpy()).pvalue > 1e-3


KEYS = ("top", "left", "height", "width")


@settings(max_examples=40, deadline=None)
@given(
    h=st.integers(1, 50),
    w=st.integers(1, 50),
    low=st.floats(0.01, 1),
    ratio=st.floats(0.2, 5),
)
def test_boxes_lie_inside(h, w, low, ratio):
    crop = RandomResizedCrop(4, (low, 1.0), (ratio, ratio * 1.1))
    top, left, height, width = crop.draw(source(64), (64, 3, h, w)).unbind(1)
    assert (top >= 0).all() and (left >= 0).all()
    assert (height > 0).all() and (width > 0).all()
    assert (top + height <= h).all() and (left + width <= w).all()


def test_when_no_try_fits_the_centered_box_is_taken():
    crop = RandomResizedCrop(4, (1.0, 1.0), (3.0, 4.0))
    boxes = crop.draw(source(5), (5, 3, 20, 20))
    assert boxes.tolist() == [[6, 0, 7, 20]] * 5


def test_factors_fill_their_ranges():
    jitter = ColorJitter(0.4, (0.5, 3.0), 2.0, 0.1).draw(source(5000), (5000, 3, 8, 8))
    ranges = [(0.6, 1.4), (0.5, 3.0), (0.0, 3.0), (-0.1, 0.1)]
    for column, (low, high) in zip(jitter.factors.unbind(1), ranges, strict=True):
        spread = (column - low) / (high - low)
        assert stats.kstest(spread.numpy(), "uniform").pvalue > 1e-3


@pytest.mark.parametrize("p", [0.0, 0.3, 1.0])
def test_a_picked_share_of_the_images_changes(p):
    images = torch.rand(3000, 3, 2, 2)
    for operation in (
        RandomHorizontalFlip(p),
        RandomGrayscale(p),
        RandomSolarize(0.0, p),
        Sometimes(p, lambda some: 1 - some),
    ):
        changed = (operation(images, source(3000)) != images).flatten(1).any(1)
        assert changed.float().mean().item() == pytest.approx(p, abs=0.04)


def test_only_picked_images_are_worked_on():
    seen = []

    def count(some):
        seen.append(len(some))
        return some

    Sometimes(0.25, count)(torch.rand(400, 1, 2, 2), source(400))
    assert len(seen) == 1 and 60 < seen[0] < 140


def test_one_channel_has_brightness_and_contrast_only():
    images, d = torch.rand(5, 1, 6, 6), source(5)
    still = ColorJitter(saturation=0.9, hue=0.5)(images, d)
    torch.testing.assert_close(still, images, rtol=0, atol=1e-6)
    assert not torch.allclose(ColorJitter(brightness=0.9)(images, d), images)
    assert torch.equal(RandomGrayscale(1.0)(images, d), images)


@pytest.mark.parametrize("operation", [ColorJitter(0.5), RandomGrayscale(1.0)])
def test_color_needs_one_or_three_channels(operation):
    with pytest.raises(ShapeError, match="1 or 3 channels, got 4"):
        operation(torch.rand(2, 4, 6, 6), source(2))


def test_other_operations_take_any_channels():
    images = torch.rand(2, 5, 12, 12)
    for operation in (RandomResizedCrop(6), GaussianBlur(), RandomRotation(9)):
        assert operation(images, source(2)).shape[1] == 5


def test_autocast_does_not_touch_the_pixels():
    images, d = torch.rand(3, 3, 16, 16), source(3)
    crop = RandomResizedCrop(16)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        inside = crop(images, d)
    assert torch.equal(inside, crop(images, d))


def test_float64_stays_float64():
    images = torch.rand(3, 3, 16, 16, dtype=torch.float64)
    for operation in (RandomResizedCrop(8), GaussianBlur(), RandomHorizontalFlip()):
        assert operation(images, source(3)).dtype == torch.float64


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: RandomResizedCrop(0), "size is a number of pixels"),
        (lambda: RandomResizedCrop(8, scale=(0.5, 0.2)), "scale needs two numbers"),
        (lambda: RandomResizedCrop(8, scale=(0.5, 2.0)), "from 0 to 1"),
        (lambda: RandomResizedCrop(8, ratio=(0.0, 1.0)), "leaves no box"),
        (lambda: RandomHorizontalFlip(1.5), "is a probability"),
        (lambda: RandomGrayscale(-0.1), "is a probability"),
        (lambda: Sometimes(2.0, RandomGrayscale()), "is a probability"),
        (lambda: Sometimes(0.5, "blur"), "operations or callables"),
        (lambda: ColorJitter(hue=0.7), "hue needs two numbers"),
        (lambda: ColorJitter(brightness=(-1.0, 1.0)), "brightness needs two"),
        (lambda: GaussianBlur(kernel_size=4), "odd and positive: got 4. Try 5"),
        (lambda: GaussianBlur(sigma=(0.0, 1.0)), "above 0"),
        (lambda: RandomSolarize(threshold=2.0), "threshold is a pixel value"),
        (lambda: RandomAffine(0, scale=(0.0, 1.0)), "scale needs two"),
        (lambda: RandomAffine(0, translate=(2.0, 0.0)), "translate is the largest"),
        (lambda: RandomAffine(0, shear=(95, 0)), "shear is the largest"),
        (lambda: GaussianNoise(-0.1), "sigma needs two"),
        (lambda: Normalize((0.5,), (0.0,)), "std above 0"),
        (lambda: Normalize((0.5,), (0.5, 0.5)), "for each channel"),
    ],
)
def test_a_bad_setting_is_named(make, message):
    with pytest.raises(SettingError, match=message):
        make()


def test_a_bad_image_is_named():
    with pytest.raises(ShapeError, match="at least 12 pixels"):
        GaussianBlur(kernel_size=23)(torch.rand(1, 3, 8, 8), source(1))
    with pytest.raises(ShapeError, match="Normalize has 1 channels"):
        Normalize((0.5,), (0.5,)).apply(torch.rand(1, 3, 8, 8))
    with pytest.raises(ShapeError, match="keeps the shape"):
        Sometimes(1.0, RandomResizedCrop(4))(torch.rand(2, 3, 8, 8), source(2))

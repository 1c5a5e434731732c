"""Same parameters, same pixels as torchvision.transforms.v2.functional.

The tolerance is 1/255 at most; what is asserted is what holds, mostly far less.
"""

import itertools

import pytest
import torch
from torchvision.transforms.v2 import InterpolationMode
from torchvision.transforms.v2 import functional as F

from invariance.views import (
    ColorJitter,
    Draws,
    GaussianBlur,
    GaussianNoise,
    Jitter,
    Motion,
    Normalize,
    RandomAffine,
    RandomGrayscale,
    RandomHorizontalFlip,
    RandomResizedCrop,
    RandomRotation,
    RandomSolarize,
    Resize,
)

EXACT, CLOSE, LEVEL = 1e-6, 2e-5, 1 / 255
N = 12


def batch(n=N, c=3, h=24, w=31, seed=0):
    g = torch.Generator().manual_seed(seed)
    images = torch.rand(n, c, h, w, generator=g)
    images[0] = 0.5  # flat: no contrast, no hue
    images[1] = images[1].round()  # black, white and pure colours
    return images


def source(n=N, **keys):
    return Draws(
        **{"seed": 0, "epoch": 0, "samples": torch.arange(n), "view": 0} | keys
    )


def difference(ours, theirs):
    return (ours - torch.stack(theirs)).abs().max().item()


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize(
    ("shape", "size"),
    [((32, 32), 32), ((24, 31), (17, 9)), ((40, 28), 64), ((64, 64), 7)],
    ids=str,
)
def test_random_resized_crop(channels, shape, size):
    images = batch(c=channels, h=shape[0], w=shape[1])
    crop = RandomResizedCrop(size)
    boxes = crop.draw(source(), images.shape)
    pair = [size, size] if isinstance(size, int) else list(size)
    theirs = [
        F.resized_crop(image, *box, size=pair, antialias=True)
        for image, box in zip(images, boxes.tolist(), strict=True)
    ]
    assert difference(crop.apply(images, boxes), theirs) < CLOSE


def test_random_resized_crop_of_bytes_is_within_one_level():
    """Torchvision resizes uint8 with rounded weights; ours are exact."""
    images = (batch() * 255).round().byte()
    crop = RandomResizedCrop(16)
    boxes = crop.draw(source(), images.shape)
    theirs = [
        F.resized_crop(image, *box, size=[16, 16], antialias=True) / 255
        for image, box in zip(images, boxes.tolist(), strict=True)
    ]
    assert difference(crop.apply(images / 255, boxes), theirs) <= LEVEL


def test_resize():
    images = batch(h=32, w=32)
    theirs = [F.resize(image, [20, 20], antialias=True) for image in images]
    assert difference(Resize(20)(images, source()), theirs) < CLOSE
    wide = batch(h=20, w=30)
    assert torch.equal(Resize(20)(wide[..., 5:25], source()), wide[..., 5:25])
    assert difference(Resize(20)(wide, source()), list(wide[..., 5:25])) < EXACT


def test_horizontal_flip():
    images, picked = batch(), torch.arange(N) % 2 == 0
    ours = RandomHorizontalFlip().apply(images, picked)
    theirs = [
        F.horizontal_flip(x) if p else x for x, p in zip(images, picked, strict=True)
    ]
    assert difference(ours, theirs) == 0


def torchvision_jitter(image, order, factors):
    changes = [
        F.adjust_brightness,
        F.adjust_contrast,
        F.adjust_saturation,
        F.adjust_hue,
    ]
    for kind in order.tolist():
        image = changes[kind](image, factors[kind].item())
    return image


@pytest.mark.parametrize("channels", [1, 3])
def test_color_jitter_in_all_24_orders(channels):
    orders = torch.tensor(list(itertools.permutations(range(4))))
    images = batch(24, channels, 16, 16)
    jitter = ColorJitter(0.8, 0.8, 0.8, 0.5)
    for seed in range(3):
        factors = jitter.draw(source(24, seed=seed), images.shape).factors
        ours = jitter.apply(images, Jitter(orders, factors))
        theirs = [
            torchvision_jitter(*row)
            for row in zip(images, orders, factors, strict=True)
        ]
        assert difference(ours, theirs) < CLOSE


@pytest.mark.parametrize("kind", range(4))
def test_each_colour_change_alone(kind):
    images = batch(6)
    factors = torch.tensor([1.0, 1.0, 1.0, 0.0]).repeat(6, 1)
    values = [-0.5, -0.3, 0.0, 0.1, 1 / 3, 0.5] if kind == 3 else [0, 0.5, 1, 1.5, 2, 9]
    factors[:, kind] = torch.tensor(values)
    order = torch.arange(4).repeat(6, 1)
    ours = ColorJitter(hue=0.5).apply(images, Jitter(order, factors))
    theirs = [
        torchvision_jitter(image, torch.tensor([kind]), f)
        for image, f in zip(images, factors, strict=True)
    ]
    assert difference(ours, theirs) < CLOSE


@pytest.mark.parametrize("channels", [1, 3])
def test_grayscale(channels):
    images = batch(c=channels)
    ours = RandomGrayscale().apply(images, torch.ones(N, dtype=torch.bool))
    theirs = [F.rgb_to_grayscale(x, num_output_channels=channels) for x in images]
    assert difference(ours, theirs) < EXACT


@pytest.mark.parametrize(("shape", "k"), [((24, 31), 3), ((16, 16), 9), ((12, 20), 23)])
def test_gaussian_blur(shape, k):
    images = batch(c=3, h=shape[0], w=shape[1])
    blur = GaussianBlur(kernel_size=k)
    sigma = blur.draw(source(), images.shape)
    theirs = [
        F.gaussian_blur(image, [k, k], [s, s])
        for image, s in zip(images, sigma.tolist(), strict=True)
    ]
    assert difference(blur.apply(images, sigma), theirs) < CLOSE


@pytest.mark.parametrize("threshold", [0.0, 0.3, 1.0])
def test_solarize(threshold):
    images = batch()
    ours = RandomSolarize(threshold).apply(images, torch.ones(N, dtype=torch.bool))
    assert difference(ours, [F.solarize(x, threshold) for x in images]) == 0


MODES = {"nearest": InterpolationMode.NEAREST, "bilinear": InterpolationMode.BILINEAR}


def mostly_equal(ours, theirs, interpolation):
    """Nearest: a source that falls on the edge of two pixels may go either way."""
    apart = (ours - torch.stack(theirs)).abs()
    if interpolation == "bilinear":
        assert apart.max() < 2e-4  # coordinates are rounded to float32
    else:
        assert (apart > EXACT).float().mean() < 2e-3


@pytest.mark.parametrize("interpolation", MODES)
def test_rotation(interpolation):
    images = batch()
    rotation = RandomRotation(180, interpolation)
    angles = rotation.draw(source(), images.shape)
    theirs = [
        F.rotate(image, angle, interpolation=MODES[interpolation])
        for image, angle in zip(images, angles.tolist(), strict=True)
    ]
    mostly_equal(rotation.apply(images, angles), theirs, interpolation)


@pytest.mark.parametrize("interpolation", MODES)
def test_affine(interpolation):
    images = batch()
    affine = RandomAffine(180, (0.3, 0.2), (0.5, 2.0), (30, 20), interpolation)
    motion = affine.draw(source(), images.shape)
    theirs = [
        F.affine(
            image,
            angle=motion.angle[i].item(),
            translate=motion.translate[i].tolist(),
            scale=motion.scale[i].item(),
            shear=motion.shear[i].tolist(),
            interpolation=MODES[interpolation],
        )
        for i, image in enumerate(images)
    ]
    mostly_equal(affine.apply(images, motion), theirs, interpolation)


def test_affine_that_does_nothing():
    images, one = batch(), torch.ones(N)
    still = Motion(0 * one, torch.zeros(N, 2), one, torch.zeros(N, 2))
    assert difference(RandomAffine().apply(images, still), list(images)) == 0


def test_noise_is_added_and_clamped():
    images, noise = batch(), GaussianNoise((0.1, 0.3))
    drawn = noise.draw(source(), images.shape)
    assert difference(
        noise.apply(images, drawn), list((images + drawn).clamp(0, 1))
    ) == pytest.approx(0)
    spread = drawn.flatten(1).std(1)
    assert spread.min() > 0.08 and spread.max() < 0.33
    assert GaussianNoise(0.5, clip=False)(images, source()).max() > 1


@pytest.mark.parametrize("channels", [1, 3, 5])
def test_normalize(channels):
    images = batch(c=channels)
    mean = tuple(0.1 * (i + 1) for i in range(channels))
    std = tuple(0.2 + 0.1 * i for i in range(channels))
    theirs = [F.normalize(x, list(mean), list(std)) for x in images]
    assert difference(Normalize(mean, std).apply(images), theirs) < CLOSE

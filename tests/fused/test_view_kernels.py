"""Views made by kernels against the same views made operation by operation.

Interpreted on a CPU (TRITON_INTERPRET=1, as ``make test`` does) or on a CUDA device.
"""

import pytest
import torch

from invariance.views import (
    RECIPES,
    ColorJitter,
    DeviceViews,
    GaussianBlur,
    Normalize,
    RandomAffine,
    RandomGrayscale,
    RandomHorizontalFlip,
    RandomResizedCrop,
    RandomRotation,
    RandomSolarize,
    Resize,
    Sometimes,
    ViewSet,
    byol,
    multi_crop,
    simclr,
    weak,
    weaken,
)

from .cases import DEVICE, INTERPRETED

CLOSE = 1e-5  # of pixels in [0, 1]; `NORMALIZE` spreads them over five times as much
N = 4 if INTERPRETED else 200
NORMALIZE = Normalize((0.4, 0.5, 0.6), (0.2, 0.25, 0.3))


def photos(c=3, h=24, w=31, n=2 * N, seed=0):
    generator = torch.Generator().manual_seed(seed)
    images = torch.randint(256, (n, c, h, w), generator=generator, dtype=torch.uint8)
    images[0] = 128  # flat: no contrast, no hue
    images[1] = images[1] // 128 * 255  # black, white and pure colors
    return images


def rows_of(images):
    """Some of them, in another order."""
    order = torch.randperm(len(images), generator=torch.Generator().manual_seed(1))
    return order[:N]


def compare(pipelines, images, seed=3, epoch=7):
    """Make views both ways, and check that they agree; what was made."""
    view_set, rows = ViewSet(pipelines), rows_of(images)
    views = DeviceViews(view_set, images.to(DEVICE))
    assert "fused kernels" in views.explain()
    made = views(rows.to(DEVICE), views.keys(seed, epoch))
    want = view_set(images[rows], samples=rows, seed=seed, epoch=epoch)
    for a, b in zip(made, want, strict=True):
        atol = CLOSE if b.min() >= 0 else 5 * CLOSE
        torch.testing.assert_close(a.cpu(), b, rtol=0, atol=atol)
    return made, want


JITTER = ColorJitter(0.8, 0.8, 0.8, 0.5)
PIPELINES = {
    "weak": weak(16),
    "simclr": simclr(20),
    "simclr, several blocks": simclr(72, normalize=NORMALIZE),
    "byol": byol(20, normalize=NORMALIZE),
    "multi_crop": multi_crop(20, n_local=1),
    "shrinking": [[RandomResizedCrop((5, 9), scale=(0.9, 1.0))]],
    "largest box": [[RandomResizedCrop(8, scale=(1.0, 1.0), ratio=(0.2, 0.3))]],
    "half pixels": [[RandomResizedCrop(8, scale=(0.25, 0.25), ratio=(1.0, 1.0))]],
    "weakened": weaken(simclr(16), {"crop": 0, "color": 0.3, "gray": 0}),
    "evaluation": [[Resize(12), NORMALIZE]],
    "no crop": [[RandomHorizontalFlip(), RandomHorizontalFlip(0.3), JITTER]],
    "another order": [
        [
            Sometimes(0.5, RandomGrayscale(0.5)),
            JITTER,
            Sometimes(0.7, RandomSolarize(0.5, p=0.8)),
            Sometimes(0.5, GaussianBlur((0.5, 3.0), kernel_size=7)),
            RandomGrayscale(0.3),
            Sometimes(0.6, NORMALIZE),
        ]
    ],
}


@pytest.mark.parametrize("name", PIPELINES)
def test_kernels_make_the_views_of_the_operations(name):
    compare(PIPELINES[name], photos())


def test_images_of_one_channel():
    compare(byol(20, 1), photos(c=1))
    compare(simclr(72, 1, blur=0.5), photos(c=1))


@pytest.mark.parametrize(
    "view",
    [
        [RandomRotation(180)],
        [Sometimes(0.5, RandomRotation((20, 40))), RandomResizedCrop(16)],
        RECIPES["shapes"](20)[0],
    ],
)
def test_turned_images(view):
    """A source on the edge of two pixels may go either way."""
    images, view_set = photos(), ViewSet([view])
    views = DeviceViews(view_set, images.to(DEVICE))
    assert "fused kernels" in views.explain()
    rows = rows_of(images)
    (made,) = views(rows.to(DEVICE), views.keys(3, 7))
    (want,) = view_set(images[rows], samples=rows, seed=3, epoch=7)
    apart = (made.cpu() - want).abs().amax((1, 2, 3))
    assert (apart < CLOSE).float().mean() >= 0.75
    assert (made.cpu() - want).abs().mean() < 1e-3


def test_other_shapes_and_strides():
    compare(simclr(13), photos(h=40, w=9))
    compare(simclr(16), photos().permute(0, 2, 3, 1).contiguous().permute(0, 3, 1, 2))
    compare([[RandomResizedCrop((8, 70))]], photos(h=61, w=33))


def test_factors_are_drawn_to_the_bit():
    """Of a white image brightness leaves the factor itself."""
    white = torch.full((2 * N, 1, 4, 4), 255, dtype=torch.uint8)
    views = [[ColorJitter(brightness=(0.1, 0.9))]] * 2
    for made, want in zip(*compare(views, white), strict=True):
        assert torch.equal(made.cpu(), want)


def test_any_seed_and_id():
    """Ids far apart, below zero, and seeds at the ends of their range."""
    view_set, images = ViewSet(simclr(12)), photos(n=4)
    samples = torch.tensor([0, 1, -7, 1, 2**40, 1, 2**62, 1])[::2]  # with gaps
    placed = images.to(DEVICE)
    views, plan = DeviceViews(view_set, placed), view_set.plan(placed)
    for seed, epoch in ((-1, 0), (2**63, 10**6)):
        made = plan.make(placed, samples.to(DEVICE), views.keys(seed, epoch))
        want = view_set(images, samples=samples, seed=seed, epoch=epoch)
        for a, b in zip(made, want, strict=True):
            torch.testing.assert_close(a.cpu(), b, rtol=0, atol=CLOSE)


@pytest.mark.parametrize("channels_last", [True, False])
def test_type_and_layout(channels_last):
    views = DeviceViews(
        ViewSet(simclr(16)),
        photos().to(DEVICE),
        dtype=torch.float16,
        channels_last=channels_last,
    )
    plain = DeviceViews(ViewSet(simclr(16)), photos().to(DEVICE))
    rows = torch.arange(N, device=DEVICE)
    layout = torch.channels_last if channels_last else torch.contiguous_format
    keys = views.keys(0, 0)
    for a, b in zip(views(rows, keys), plain(rows, keys), strict=True):
        assert a.is_contiguous(memory_format=layout) and a.dtype == torch.float16
        torch.testing.assert_close(a.float(), b, rtol=0, atol=6e-4)


@pytest.mark.parametrize(
    ("view", "reason"),
    [
        ([lambda x: x], "<lambda> has no kernel"),
        ([RandomHorizontalFlip(), Resize(8)], "only at the beginning"),
        ([Resize(8), RandomRotation(9)], "only at the beginning"),
        ([RandomRotation(9, "bilinear")], "a bilinear rotation"),
        ([RandomAffine(9)], "RandomAffine has no kernel"),
        ([Sometimes(0.5, Resize(8))], "a crop that happens sometimes"),
        ([JITTER, JITTER], "colors or a blur twice"),
        ([GaussianBlur(), JITTER], "colors after a blur"),
        ([GaussianBlur(kernel_size=99)], "wider than the image"),
        ([Normalize((0.5,), (0.5,))], "Normalize is for 1 channels, not 3"),
        ([RandomHorizontalFlip()] * 20, "over 15 operations"),
    ],
)
def test_why_there_is_no_kernel(view, reason):
    views = DeviceViews(ViewSet([view]), photos().to(DEVICE))
    assert reason in views.explain()
    four = DeviceViews(ViewSet(weak(8)), photos(c=4).to(DEVICE))
    assert "4 channels" in four.explain()


@pytest.mark.skipif(INTERPRETED, reason="needs CUDA")
class TestOnCuda:
    """What only a device can show."""

    @pytest.mark.parametrize("recipe", ["simclr", "byol", "multi_crop", "shapes"])
    @pytest.mark.parametrize("size", [32, 96])
    def test_a_captured_call_makes_new_views_from_new_rows_and_keys(self, recipe, size):
        images = photos(h=size, w=size).cuda()
        views = DeviceViews(ViewSet(RECIPES[recipe](size)), images, channels_last=True)
        rows, keys = torch.arange(8).cuda(), views.keys(0, 0)
        views(rows, keys)  # compiles
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            captured = views(rows, keys)
        for seed, epoch in ((0, 0), (4, 2)):
            rows.copy_(torch.randperm(len(images))[:8])
            keys.copy_(views.keys(seed, epoch))
            graph.replay()
            for a, b in zip(captured, views(rows, keys), strict=True):
                assert torch.equal(a, b)

    @pytest.mark.parametrize("size", [32, 64, 100])
    def test_a_device_repeats_itself_to_the_bit(self, size):
        images = photos(h=size, w=size).cuda()
        views = DeviceViews(ViewSet(byol(size)), images, dtype=torch.bfloat16)
        rows, keys = torch.arange(N).cuda(), views.keys(0, 0)
        first = views(rows, keys)
        for _ in range(20):
            for a, b in zip(first, views(rows, keys), strict=True):
                assert torch.equal(a, b)

    def test_a_view_set_uses_the_kernels(self):
        images, ids = photos(), torch.arange(2 * N)
        view_set = ViewSet(simclr(24))
        views = DeviceViews(view_set, images.cuda())
        for samples in (ids, ids.cuda()):
            made = view_set(images.cuda(), samples=samples, seed=1, epoch=2)
            same = views(ids.cuda(), views.keys(1, 2))
            for a, b in zip(made, same, strict=True):
                assert torch.equal(a, b)

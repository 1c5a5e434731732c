"""The loss, the views, a training step and decoding: each timed, with its limits.

A limit is the least time that the machine could take for the same work, were nothing
else in the way:

* arithmetic: the operations of the matrix products, at the rate of large ones;
* memory: every number that has to be read or written, at the rate of a copy;
* starts: the operations that were started, at the cost of one that does nothing;
* cores: what one core decodes, times the number of cores.

The highest of these is the one that binds; how near to it a time is, is its share.
"""

import contextlib
import io
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import numpy as np
import torch
from PIL import Image
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from ..data import crop_square, load, open_image
from ..encoders import build_encoder, build_head
from ..objectives import nt_xent
from ..training import Machine, Run, Train, train
from ..views import ViewSet, simclr
from ._ceilings import Ceilings, measure_seconds

LIMITS = {
    "arithmetic": "matrix products at the rate measured above",
    "memory": "bytes that must be read or written, at the rate of a copy",
    "starts": "operations to start, each at the cost of one that does nothing",
    "cores": "what one core decodes, times the cores",
}
WIDTH = 128  # of the rows that a loss compares
SIZE = 32  # pixels, of the images of CIFAR-10
PHOTO = (400, 300)  # pixels, of the images that are decoded


@dataclass(frozen=True)
class Work:
    """Something that was timed."""

    name: str
    seconds: float
    limits: dict[str, float]
    """The least seconds it could take, by what limits it."""
    images: int = 0
    """How many images went through in that time; 0 where nobody counts them."""

    @property
    def limit(self) -> str:
        """Which limit binds.

        >>> Work("loss", 2.0, {"arithmetic": 1.0, "memory": 0.1}).limit
        'arithmetic'
        """
        return max(self.limits, key=self.limits.__getitem__)

    @property
    def share(self) -> float:
        """How near to its limit it is: 1 is as fast as can be."""
        return self.limits[self.limit] / self.seconds

    def __str__(self) -> str:
        if self.images:
            return f"{self.images / self.seconds:,.0f} images/s"
        return f"{format_digits(1000 * self.seconds)} ms"


def format_digits(number: float) -> str:
    """Three digits, or as many as a whole number has.

    >>> format_digits(2314.2), format_digits(44.312), format_digits(0.00831)
    ('2,314', '44.3', '0.00831')
    """
    return f"{number:,.0f}" if number >= 100 else f"{number:.3g}"


def time_losses(
    ceilings: Ceilings, device: torch.device, *, quick: bool = False
) -> Iterator[Work]:
    """NT-Xent of a small and of a large batch, forward and backward.

    The least arithmetic for n rows of width d is 4 n² d: the scores are symmetric, so
    half of them is enough (n² d); they are too many to keep, so the backward pass has
    that half again (n² d); and their weights times the rows are the gradient (2 n² d).
    Whole scores both times would be 6 n² d, which a loss that uses the symmetry beats.
    """
    cuda = device.type == "cuda"
    precision = torch.bfloat16 if cuda else torch.float32
    large = 65_536 if cuda else 4096
    for pairs in (512,) if quick else (512, large):
        u, v = (
            torch.randn(pairs, WIDTH, device=device, dtype=precision).requires_grad_()
            for _ in range(2)
        )

        def step(u: Tensor = u, v: Tensor = v) -> None:
            torch.autograd.grad(nt_xent(u, v), (u, v))

        seconds = measure_seconds(step, device, 3 if quick else 7)
        rows = 2 * pairs
        n_bytes = 3 * rows * WIDTH * u.element_size()  # in twice, gradients out
        limits = {
            "arithmetic": 4 * rows**2 * WIDTH / ceilings.flops,
            "memory": n_bytes / ceilings.bytes,
            "starts": count_starts(step, device) * ceilings.start,
        }
        yield Work(f"loss of {pairs:,} pairs", seconds, limits)


def time_views(
    ceilings: Ceilings, device: torch.device, *, quick: bool = False
) -> Iterator[Work]:
    """SimCLR's two views of a batch of small images that lie on the device."""
    n = 512 if device.type == "cuda" else 128
    views, ids = ViewSet(simclr(SIZE)), torch.arange(n)
    images = make_images(n).to(device)

    def draw() -> list[Tensor]:
        return list(views(images, samples=ids, seed=0, epoch=0))

    made = draw()
    n_bytes = images.numel() + sum(x.numel() * x.element_size() for x in made)
    limits = {
        "memory": n_bytes / ceilings.bytes,
        "starts": count_starts(draw, device) * ceilings.start,
    }
    seconds = measure_seconds(draw, device, 3 if quick else 9)
    yield Work(f"two views of {n} images", seconds, limits, n)


def time_steps(
    ceilings: Ceilings, device: torch.device, *, quick: bool = False
) -> Iterator[Work]:
    """``invariance train`` on images in memory: a large batch and a small one."""
    cuda = device.type == "cuda"
    name = "resnet18" if cuda else "tiny"
    flops, n_bytes, starts = count_work(name, device)
    for batch, n_steps in ((512, 50), (32, 200)) if cuda else ((128, 3), (32, 12)):
        epochs = 2 if quick else 5
        n_steps = max(n_steps // 4, 2) if quick else n_steps
        # compiling takes most of a minute, and pays where a batch fills the device
        compiled = cuda and not quick and batch > 100
        images = make_images(batch * n_steps)
        rate = train_on(images, name, batch, epochs, device, compiled=compiled)
        views = 2 * batch
        limits = {
            "arithmetic": views * flops / ceilings.flops,
            "memory": views * n_bytes / ceilings.bytes,
            "starts": starts * ceilings.chained,
        }
        title = f"training step, {name}, batch {batch}" + ", compiled" * compiled
        yield Work(title, batch / rate, limits, batch)


def train_on(
    images: Tensor,
    name: str,
    batch: int,
    epochs: int,
    device: torch.device,
    *,
    compiled: bool,
) -> float:
    """Images per second of a run, once it is warm."""
    with (
        tempfile.TemporaryDirectory() as out,
        contextlib.redirect_stdout(io.StringIO()),
    ):
        settings = Train(
            encoder=name,
            epochs=epochs,
            batch_size=batch,
            log_every=len(images) // batch,  # what is read lies between the clocks
            evaluate=False,
            knn_every=0,
            quiet=True,
            out=out,
            machine=Machine(
                device=device.type,  # type: ignore[arg-type]
                compile=compiled,
            ),
        )
        run = train(settings, data=images)
        assert isinstance(run, Run)
        rates = [m.get("time/images_per_second") for m in run.metrics]
    return median(rate for rate in rates if rate is not None)


def count_work(name: str, device: torch.device) -> tuple[float, float, int]:
    """What training needs for one view: operations, bytes, and starts per step.

    Bytes are the outputs of convolutions and linear layers: written once, and read once
    on the way forward and once on the way back.
    """
    n = 4
    network = nn.Sequential(
        encoder := build_encoder(name, channels=3, image_size=SIZE),
        build_head("mlp2", encoder.width),
    ).to(device)
    numbers = 0

    def count(module: nn.Module, inputs: object, output: Tensor) -> None:
        nonlocal numbers
        numbers += output.numel()

    layers = (nn.Conv2d, nn.Linear)
    hooks = [
        module.register_forward_hook(count)
        for module in network.modules()
        if isinstance(module, layers)
    ]
    images = torch.rand(n, 3, SIZE, SIZE, device=device)
    with FlopCounterMode(display=False) as counter:
        network(images).sum().backward()
    for hook in hooks:
        hook.remove()
    width = 2 if device.type == "cuda" else 4
    starts = count_starts(lambda: network(images).sum().backward(), device)
    return counter.get_total_flops() / n, 3 * width * numbers / n, starts


def count_starts(call: Callable[[], object], device: torch.device) -> int:
    """How many kernels a call starts on a GPU; elsewhere nobody counts them: 0."""
    if device.type != "cuda":
        return 0
    from torch.autograd import DeviceType
    from torch.profiler import ProfilerActivity, profile

    call()  # what is compiled is compiled now
    torch.cuda.synchronize()
    with profile(activities=[ProfilerActivity.CUDA]) as seen:
        call()
        torch.cuda.synchronize()
    events = seen.key_averages()
    return sum(e.count for e in events if e.device_type == DeviceType.CUDA)


def time_decoding(
    ceilings: Ceilings, device: torch.device, *, quick: bool = False
) -> Iterator[Work]:
    """A folder of JPEG photos, read as ``invariance train`` reads it."""
    n = 48 if quick else 512 * ceilings.cores  # so that starting is a small part
    with tempfile.TemporaryDirectory() as place:
        paths = write_photos(Path(place), n)
        some = paths[:64]

        def decode_some() -> None:
            for path in some:
                crop_square(open_image(path, 128), 128, 3)

        one = measure_seconds(decode_some, torch.device("cpu"), 1) / len(some)

        def decode() -> None:
            load(place, split="all", image_size=128, storage="resident")

        seconds = measure_seconds(decode, torch.device("cpu"), 1)
    limits = {"cores": n * one / ceilings.cores}
    width, height = PHOTO
    yield Work(f"decoding {width} x {height} photos", seconds, limits, n)


def write_photos(folder: Path, n: int) -> list[Path]:
    """JPEG files with about as much detail as photos have; a few, many times over."""
    dice, (width, height) = np.random.default_rng(0), PHOTO
    files = []
    for _ in range(min(n, 32)):
        coarse = dice.integers(0, 256, (height // 10, width // 10, 3), dtype=np.uint8)
        image = Image.fromarray(coarse).resize(PHOTO, Image.Resampling.BICUBIC)
        image.save(file := io.BytesIO(), "jpeg", quality=90)
        files.append(file.getvalue())
    paths = [folder / f"{i:05}.jpg" for i in range(n)]
    for i, path in enumerate(paths):
        path.write_bytes(files[i % len(files)])
    return paths


def make_images(n: int) -> Tensor:
    """Noise, which trains as fast as anything."""
    dice = torch.Generator().manual_seed(0)
    shape = (n, 3, SIZE, SIZE)
    return torch.randint(256, shape, dtype=torch.uint8, generator=dice)

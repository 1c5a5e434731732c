"""A view as the kernels read it: a short list of stages, each a row of plain numbers.

A box of the image, perhaps turned before, is resized; whatever comes after works on
pixels where they are, and a blur looks at their neighbors. So a kernel makes a view
that

* begins with a rotation, a crop, both in this order, or neither,
* changes colors at most once, and before it blurs, at most once,

from images with one channel or three. All recipes are such views. Whatever else a list
holds is done operation by operation, and a `Plan` says why.
"""

import importlib.util
import math
import os
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from jaxtyping import Float, Int, UInt8
from torch import Tensor

from ._affine import RandomRotation, both_ways
from ._augment import Range
from ._blur import GaussianBlur, tenth
from ._coin_flips import RandomGrayscale, RandomHorizontalFlip, RandomSolarize
from ._color_jitter import ColorJitter
from ._crop import RandomResizedCrop, Resize, centered_box, height_width
from ._draws import child_stream
from ._pixels import Normalize
from ._sometimes import Sometimes

RANDOM_BOX, FIXED_BOX, TURN, FLIP, JITTER, GRAY, BLUR, SOLARIZE, NORMALIZE = range(9)

KINDS: dict[type, int] = {
    RandomResizedCrop: RANDOM_BOX,
    Resize: FIXED_BOX,
    RandomRotation: TURN,
    RandomHorizontalFlip: FLIP,
    ColorJitter: JITTER,
    RandomGrayscale: GRAY,
    GaussianBlur: BLUR,
    RandomSolarize: SOLARIZE,
    Normalize: NORMALIZE,
}
ALWAYS = 2.0  # a probability that no coin reaches
MOST_STAGES = 15  # four bits each, in a whole number


class Stage(NamedTuple):
    """One operation: where its random numbers come from, and its settings."""

    kind: int
    streams: tuple[int, int]
    """Of the coin of `Sometimes`; of the operation's own coin and numbers."""
    chances: tuple[float, float]
    """Of those two coins."""
    numbers: tuple[float, ...]
    """Ranges as (low, high - low); a box; a threshold; scales and shifts."""


class Group(NamedTuple):
    """Views that are made alike, hence together: the box first, then other stages."""

    views: tuple[int, ...]
    """Their places in the set."""
    size: tuple[int, int]
    stages: tuple[Stage, ...]
    half: int
    """Pixels that the blur reaches to either side."""

    @property
    def code(self) -> int:
        """The kinds of the stages, four bits each, the first lowest."""
        return sum(stage.kind << 4 * i for i, stage in enumerate(self.stages))

    def find(self, kind: int) -> int:
        """Which stage is of this kind; 0, where the box is, if none is."""
        return next((i for i, s in enumerate(self.stages) if s.kind == kind), 0)


class Plan(NamedTuple):
    """How kernels make a set of views; or, where `groups` is empty, why they do not."""

    groups: tuple[Group, ...]
    reason: str

    def make(
        self,
        images: UInt8[Tensor, "m c h w"],
        samples: Int[Tensor, " n"],
        keys: Int[Tensor, "1"],
        rows: Int[Tensor, " n"] | None = None,
        dtype: torch.dtype = torch.float32,
        channels_last: bool = False,
    ) -> list[Float[Tensor, "n _ _ _"]]:
        """The views of all images, or of some rows of them, in the set's order."""
        from ._pixel_kernel import make_group  # imports Triton, which not everyone has

        samples = samples.contiguous()
        rows = None if rows is None else rows.contiguous()
        views: dict[int, Tensor] = {}
        for group in self.groups:
            made = make_group(group, images, samples, keys, rows, dtype, channels_last)
            views.update(zip(group.views, made, strict=True))
        return [views[i] for i in range(len(views))]


class NoKernelError(Exception):
    """Why a view is made operation by operation, as the end of a sentence."""


def plan_views(pipelines: Sequence[Sequence[Any]], images: Tensor) -> Plan:
    """How to make these views of images like these."""
    try:
        _check_device(images)
        c, h, w = images.shape[1:]
        made = [_read_view(operations, (c, h, w)) for operations in pipelines]
    except NoKernelError as reason:
        return Plan((), str(reason))
    groups = [
        alike._replace(views=tuple(i for i, one in enumerate(made) if one == alike))
        for alike in dict.fromkeys(made)
    ]
    return Plan(tuple(groups), "")


def _check_device(images: Tensor) -> None:
    """What kernels of any views need; on a CPU they are interpreted, for tests."""
    kind = images.device.type
    if images.dtype != torch.uint8:
        raise NoKernelError("the kernels read bytes")
    if images.ndim != 4:
        raise NoKernelError("the kernels read images")
    if kind == "cpu" and os.environ.get("TRITON_INTERPRET") != "1":
        raise NoKernelError("the images are on a CPU")
    if kind not in ("cpu", "cuda"):
        raise NoKernelError(f"there are no kernels for {kind}")
    if images.is_cuda and torch.cuda.get_device_capability(images.device) < (8, 0):
        raise NoKernelError("the kernels need compute capability 8.0 or more")
    if importlib.util.find_spec("triton") is None:
        raise NoKernelError("the kernels need Triton, which is not installed")


def _read_view(operations: Sequence[Any], shape: tuple[int, int, int]) -> Group:
    c, h, w = shape
    if c not in (1, 3):
        raise NoKernelError(f"the images have {c} channels, neither 1 nor 3")
    stages = [_read_stage(i, item, shape) for i, item in enumerate(operations)]
    turns = int(bool(stages) and stages[0].kind == TURN)
    size, whole = (h, w), (0.0, 0.0, float(h), float(w))
    box = Stage(FIXED_BOX, (0, 0), (ALWAYS, ALWAYS), whole)
    if len(stages) > turns and stages[turns].kind in (RANDOM_BOX, FIXED_BOX):
        size, box = height_width(operations[turns].size), stages.pop(turns)
    stages.insert(0, box)
    _check_order([stage.kind for stage in stages], turns)
    half = max([_half(item, size) for item in operations], default=0)
    return Group((), size, tuple(stages), half)


def _read_stage(i: int, item: Any, shape: tuple[int, int, int]) -> Stage:
    inner = outer = child_stream(0, i)
    often, operation = ALWAYS, item
    if isinstance(item, Sometimes):
        often, operation, inner = float(item.p), item.operation, child_stream(outer, 0)
    kind = KINDS.get(type(operation))
    if kind is None:
        name = getattr(operation, "__name__", type(operation).__name__)
        raise NoKernelError(f"{name} has no kernel")
    if kind in (RANDOM_BOX, FIXED_BOX) and operation is not item:
        raise NoKernelError("a crop that happens sometimes has no kernel")
    chance = float(getattr(operation, "p", ALWAYS))
    numbers = _read_numbers(operation, shape)
    return Stage(kind, (outer, inner), (often, chance), numbers)


def _read_numbers(operation: Any, shape: tuple[int, int, int]) -> tuple[float, ...]:
    c, h, w = shape
    match operation:
        case RandomResizedCrop(scale=scale, ratio=ratio):
            shapes = (math.log(ratio[0]), math.log(ratio[1]))
            box = centered_box(h, w, ratio)
            return (*_spread(scale), *_spread(shapes), *map(float, box))
        case Resize(size=size):
            height, width = height_width(size)
            box = centered_box(h, w, (width / height, width / height))
            return tuple(map(float, box))
        case ColorJitter():
            return tuple(
                x for low_high in operation.ranges() for x in _spread(low_high)
            )
        case GaussianBlur(sigma=sigma):
            return _spread(sigma)
        case RandomRotation(degrees=degrees, interpolation=interpolation):
            if interpolation != "nearest":
                raise NoKernelError(f"a {interpolation} rotation has no kernel")
            return _spread(both_ways(degrees))
        case RandomSolarize(threshold=threshold):
            return (float(threshold),)
        case Normalize(mean=mean, std=std):
            if len(mean) != c:
                raise NoKernelError(f"Normalize is for {len(mean)} channels, not {c}")
            shifts = [-m / s for m, s in zip(mean, std, strict=True)]
            return (*(1 / s for s in std), *shifts)
    return ()


def _spread(low_high: Range) -> tuple[float, float]:
    return float(low_high[0]), float(low_high[1] - low_high[0])


def _half(item: Any, size: tuple[int, int]) -> int:
    operation = item.operation if isinstance(item, Sometimes) else item
    if not isinstance(operation, GaussianBlur):
        return 0
    half = (operation.kernel_size or tenth(min(size))) // 2
    if half >= min(size):
        raise NoKernelError("the blur is wider than the image")
    return half


def _check_order(kinds: list[int], turns: int) -> None:
    if len(kinds) > MOST_STAGES:
        raise NoKernelError(f"a view of over {MOST_STAGES} operations has no kernel")
    if {RANDOM_BOX, FIXED_BOX} & set(kinds[1:]) or TURN in kinds[1 + turns :]:
        raise NoKernelError("a rotation or a crop has a kernel only at the beginning")
    if kinds.count(JITTER) > 1 or kinds.count(BLUR) > 1:
        raise NoKernelError("colors or a blur twice in a view have no kernel")
    if BLUR in kinds and JITTER in kinds[kinds.index(BLUR) :]:
        raise NoKernelError("colors after a blur have no kernel")

"""Several views of one batch: a list of operations for each view.

The numbers behind view v of sample s in epoch e depend on (seed, e, s, v) and on the
operation's place in the list, and on nothing else.

Bytes on a CUDA device become views in two launches of fused kernels for all views that
are made alike; everything else is done operation by operation.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from jaxtyping import Float, Int, Shaped
from torch import Tensor

from ..errors import SettingError, ShapeError
from ..randomness import as_signed
from ._augment import Operation
from ._draws import Draws, epoch_key
from ._sometimes import Sometimes, Step, as_step
from ._stages import Plan, plan_views

# On a CPU a batch is worked on in pieces whose temporaries stay in the cache.
PIECE_BYTES = 1 << 21


@dataclass(frozen=True)
class ViewSet:
    """One view of the samples for each list of operations.

    An item of a list is an operation of this package, a function of samples, or a
    function of samples and draws. Images go in as uint8, or as floats in [0, 1]; views
    of them come out as float32, one tensor per view, of sizes that may differ. Other
    samples are what ``prepare`` makes of them: by default floats become float32, and
    whole numbers stay as they are.

    Nothing waits for a GPU: where kernels make the views they draw the parameters too,
    and otherwise those are drawn where `samples` is. For a step captured in a graph see
    `DeviceViews`, and for one image at a time, in a data set, `transform`.

    >>> from invariance.views import RandomHorizontalFlip, RandomResizedCrop, ViewSet
    >>> crop = [RandomResizedCrop(24), RandomHorizontalFlip()]
    >>> views = ViewSet([crop, crop, [lambda images: 1 - images]])
    >>> images = torch.randint(256, (4, 3, 32, 32), dtype=torch.uint8)
    >>> u, v, w = views(images, samples=torch.arange(4), seed=0, epoch=0)
    >>> u.shape, w.shape
    (torch.Size([4, 3, 24, 24]), torch.Size([4, 3, 32, 32]))
    """

    pipelines: Sequence[Any]
    prepare: Callable[[Tensor], Tensor] | None = None
    steps: list[list[Step]] = field(init=False, repr=False, compare=False)
    plans: dict[tuple[Any, ...], Plan] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not self.pipelines or not all(
            isinstance(pipeline, Sequence) for pipeline in self.pipelines
        ):
            raise SettingError(
                "ViewSet needs a list of views, each a list of operations: got "
                f"{self.pipelines!r}. For a single view write ViewSet([[...]])."
            )
        steps = [[as_step(operation) for operation in p] for p in self.pipelines]
        object.__setattr__(self, "steps", steps)
        object.__setattr__(self, "plans", {})

    def __len__(self) -> int:
        return len(self.pipelines)

    def __call__(
        self,
        images: Shaped[Tensor, "..."],
        *,
        samples: Int[Tensor, "..."],
        seed: int,
        epoch: int,
    ) -> list[Shaped[Tensor, "..."]]:
        """The views of this batch; `samples` says which of the set they are."""
        if images.ndim == 4 or self.takes_images:
            check_images(images)
        check_samples(images, samples)
        if images.is_cuda and not torch.compiler.is_compiling():
            plan = self.plan(images)
            if plan.groups:
                samples = samples.to(images.device, torch.long, non_blocking=True)
                keys = epoch_keys(seed, epoch, images.device)
                return plan.make(images, samples, keys)
        views: list[list[Tensor]] = [[] for _ in self.pipelines]
        for start in range(0, len(images), rows := self._rows(images)):
            piece = self.start(images[start : start + rows])
            ids = samples[start : start + rows]
            for view in range(len(self)):
                draws = Draws(seed, epoch, ids, view)
                views[view].append(self.make(view, piece, draws))
        return [torch.cat(v) if len(v) > 1 else v[0] for v in views]

    def plan(self, images: Tensor) -> Plan:
        """How kernels make the views of images like these, or why they do not."""
        key = (images.device, images.dtype, *images.shape[1:])
        if key not in self.plans:
            plain = self.prepare is None
            self.plans[key] = (
                plan_views(self.pipelines, images)
                if plain
                else Plan((), "the samples are prepared first")
            )
        return self.plans[key]

    @property
    def is_built_in(self) -> bool:
        """Whether all of it is this package's: a view then shows its image alone.

        Nobody knows what a function of one's own does, and it sees the whole batch.
        """
        return all(is_built_in(item) for view in self.pipelines for item in view)

    @property
    def takes_images(self) -> bool:
        """Whether some of its operations make sense of images alone."""
        return any(takes_images(item) for view in self.pipelines for item in view)

    def start(self, batch: Shaped[Tensor, "n ..."]) -> Shaped[Tensor, "n ..."]:
        """A batch as the first operation takes it."""
        if self.prepare is not None:
            return self.prepare(batch)
        bytes_or_floats = batch.dtype == torch.uint8 or batch.is_floating_point()
        return to_unit_interval(batch) if bytes_or_floats else batch

    def make(
        self, view: int, images: Shaped[Tensor, "n ..."], draws: Draws
    ) -> Shaped[Tensor, "n ..."]:
        """One of the views, operation by operation."""
        n = len(images)
        for i, step in enumerate(self.steps[view]):
            images = step(images, draws.substream(i))
            if not isinstance(images, Tensor) or images.shape[:1] != (n,):
                got = tuple(images.shape) if isinstance(images, Tensor) else images
                raise ShapeError(
                    f"Operation {i} of view {view}, {self.pipelines[view][i]!r}, must "
                    f"return one sample for each of the {n} it was given: got {got!r}."
                )
        return images

    def _rows(self, images: Tensor) -> int:
        """How many images at once."""
        if not images.is_cpu or torch.compiler.is_compiling() or not self.is_built_in:
            return len(images)
        return max(1, min(len(images), PIECE_BYTES // (4 * images[0].numel())))


def epoch_keys(seed: int, epoch: int, device: torch.device) -> Int[Tensor, "1"]:
    """What draws need to know of seed and epoch, on a device that is not waited for."""
    return torch.tensor([as_signed(epoch_key(seed, epoch))]).to(
        device, non_blocking=True
    )


def to_unit_interval(images: Shaped[Tensor, "n ..."]) -> Float[Tensor, "n ..."]:
    """Images as float32; bytes are divided by 255.

    >>> to_unit_interval(torch.full((1, 1, 1, 1), 255, dtype=torch.uint8)).item()
    1.0
    """
    return images.float().div_(255) if images.dtype == torch.uint8 else images.float()


def is_built_in(item: object) -> bool:
    """Whether an item of a view is an operation of this package, not the user's own."""
    if isinstance(item, Sometimes):
        return is_built_in(item.operation)
    ours = type(item).__module__.startswith(f"{__package__}.")
    return isinstance(item, Operation) and ours


def takes_images(item: object) -> bool:
    """Whether an item of a view is an operation on images."""
    inside = item.operation if isinstance(item, Sometimes) else item
    return isinstance(inside, Operation) and inside.images_only


def check_images(images: Tensor) -> None:
    """Raise on what is no batch of images."""
    if images.ndim != 4:
        raise ShapeError(
            "images needs four axes, n c h w (images, channels, height, width): got "
            f"{tuple(images.shape)}. One image alone is images[None]."
        )
    if 0 in images.shape:
        raise ShapeError(f"images is empty: got {tuple(images.shape)}.")
    if images.dtype != torch.uint8 and not images.is_floating_point():
        raise ShapeError(
            "images must be uint8 (0 to 255) or float (0 to 1): got "
            f"{images.dtype}. Convert with images.to(torch.uint8)."
        )
    if images.shape[1] > 4 and images.shape[3] in (1, 3, 4):
        raise ShapeError(
            f"images of shape {tuple(images.shape)} seem to have their channels "
            "last. Pass images.permute(0, 3, 1, 2)."
        )


def check_samples(images: Tensor, samples: Tensor) -> None:
    """Raise unless there is a number for each sample."""
    if 0 in images.shape:
        raise ShapeError(f"The batch is empty: got {tuple(images.shape)}.")
    if samples.shape != images.shape[:1] or samples.is_floating_point():
        raise ShapeError(
            f"samples needs one whole number for each of the {len(images)} of a batch: "
            f"got {samples.dtype} of shape {tuple(samples.shape)}."
        )

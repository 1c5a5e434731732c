"""Random application: a coin for each image decides whether it is worked on."""

import inspect
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from jaxtyping import Bool, Shaped
from torch import Tensor, nn

from ..errors import SettingError, ShapeError
from ..randomness import in_any_order
from ._augment import Images, Number, Operation, Shape, check_probability
from ._draws import Draws

Step = Callable[[Tensor, Draws], Tensor]


def on_picked(
    images: Shaped[Tensor, "n ..."],
    picked: Bool[Tensor, " n"],
    work: Callable[[Tensor, Any], Tensor],
) -> Shaped[Tensor, "n ..."]:
    """`work(images, rows)` for the picked images, the others as they are.

    Coins on the host tell which images to gather, so that only those are worked on. To
    read coins on a GPU would mean waiting for it: there all images are worked on, and
    the picked ones kept.
    """
    if not picked.is_cpu or torch.compiler.is_compiling():
        chosen = picked.to(images.device, non_blocking=True)
        chosen = chosen.view(-1, *[1] * (images.ndim - 1))
        return torch.where(chosen, work(images, slice(None)), images)
    rows = picked.nonzero()[:, 0]
    if len(rows) == 0:
        return images
    if len(rows) == len(images):
        return work(images, slice(None))
    index = rows.to(images.device, non_blocking=True)
    worked = work(images.index_select(0, index), rows)
    with in_any_order():
        return images.index_copy(0, index, worked)


@dataclass(frozen=True)
class Sometimes:
    """An operation, or any callable, for each image with probability p.

    >>> from invariance.views import Draws, GaussianBlur, Sometimes
    >>> blur = Sometimes(0.5, GaussianBlur(kernel_size=3))
    >>> draws = Draws(seed=0, epoch=0, samples=torch.arange(4), view=0)
    >>> blur(torch.rand(4, 3, 8, 8), draws).shape
    torch.Size([4, 3, 8, 8])
    """

    p: Number
    operation: Any
    step: Step = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        check_probability("Sometimes: p", self.p)
        object.__setattr__(self, "step", as_step(self.operation))

    def draw(self, draws: Draws, shape: Shape) -> Bool[Tensor, " n"]:
        """Which images are picked."""
        return draws.coin(self.p)

    def __call__(self, images: Images, draws: Draws) -> Images:
        """The operation on the picked images."""

        def work(some: Tensor, rows: Any) -> Tensor:
            out = self.step(some, draws.rows(rows).substream(0))
            if out.shape != some.shape:
                raise ShapeError(
                    "Sometimes needs an operation that keeps the shape: "
                    f"{self.operation} made {tuple(out.shape)} of {tuple(some.shape)}."
                )
            return out

        return on_picked(images, self.draw(draws, images.shape), work)


def as_step(operation: Any) -> Step:
    """Any callable as `f(images, draws)`; one that takes only images is wrapped."""
    if not callable(operation):
        raise SettingError(
            f"A view is a list of operations or callables: got {operation!r}."
        )
    if isinstance(operation, Operation | Sometimes) or _takes_draws(operation):
        return operation
    return WithoutDraws(operation)


@dataclass(frozen=True)
class WithoutDraws:
    """A function of images alone as a step; unlike a lambda it can be pickled."""

    operation: Callable[[Tensor], Tensor]

    def __call__(self, images: Tensor, draws: Draws) -> Tensor:
        """The operation on the images."""
        return self.operation(images)


def _takes_draws(operation: Callable[..., Any]) -> bool:
    target = operation.forward if isinstance(operation, nn.Module) else operation
    try:
        parameters = list(inspect.signature(target).parameters.values())
    except (TypeError, ValueError):  # some built-in functions have no signature
        return False
    positional = (
        inspect.Parameter.POSITIONAL_ONLY,
        inspect.Parameter.POSITIONAL_OR_KEYWORD,
    )
    return any(p.name == "draws" for p in parameters) or (
        sum(p.kind in positional and p.default is p.empty for p in parameters) >= 2
    )

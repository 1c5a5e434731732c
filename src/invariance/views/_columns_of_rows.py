r"""Columns of a row redrawn or hidden.

Redrawn, as SCARF has it (Bahri et al. 2022): a share s of the d columns, a set drawn
evenly, is replaced by what the same column has in some training row, each column by a
row of its own:

$$\tilde x_j \sim \hat p(x_j)\ \text{for}\ j \in J,\qquad \tilde x_j = x_j\
\text{else},\qquad |J| \approx s\,d$$

A column goes as a whole, so a category becomes another category, and a missing cell
turns up as often as in the data.
"""

from dataclasses import dataclass, field
from typing import ClassVar

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from ..errors import SettingError, ShapeError
from ._augment import Number, Operation, Shape, numbers
from ._draws import Draws

Rows = Float[Tensor, "n d"]


def choose_columns(turns: Rows, share: Number) -> Bool[Tensor, "n d"]:
    """A share of each row's columns, one at least and never all.

    >>> choose_columns(torch.tensor([[0.3, 0.1, 0.9, 0.2]]), 0.5)
    tensor([[False,  True, False,  True]])
    """
    order = turns.argsort(dim=1, stable=True).argsort(1)
    return order < max(1, min(round(share * turns.shape[1]), turns.shape[1] - 1))


@dataclass(frozen=True)
class RedrawColumns(Operation):
    """A share of the columns, each as some training row has it.

    Args:
        share: of the columns that are redrawn, the same number in every row.
        rows: training rows, which stand for what a column may be.

    >>> from invariance.views import Draws, RedrawColumns
    >>> redraw = RedrawColumns(share=0.5, rows=torch.tensor([[1.0, 2.0], [3.0, 4.0]]))
    >>> draws = Draws(seed=0, epoch=0, samples=torch.arange(3), view=0)
    >>> changed = redraw(torch.zeros(3, 2), draws) != 0
    >>> changed.sum(1)
    tensor([1, 1, 1])
    """

    images_only: ClassVar[bool] = False
    draws_on_device: ClassVar[bool] = True
    share: Number = 0.6
    rows: Rows = field(kw_only=True, repr=False, compare=False)

    def __post_init__(self) -> None:
        check_share(self.share)

    def draw(
        self, draws: Draws, shape: Shape
    ) -> tuple[Bool[Tensor, "n d"], Int[Tensor, "n d"]]:
        """Which columns are redrawn, and from which of the rows."""
        turns, places = draws.uniform(2 * shape[1]).chunk(2, 1)
        # a product in float32 may round up to the number of rows itself
        drawn = (places * len(self.rows)).long().clamp(max=len(self.rows) - 1)
        return choose_columns(turns, self.share), drawn

    def apply(
        self,
        images: Rows,
        parameters: tuple[Bool[Tensor, "n d"], Int[Tensor, "n d"]],
    ) -> Rows:
        """The rows with these columns redrawn."""
        if self.rows.shape[1:] != images.shape[1:]:
            raise ShapeError(
                f"RedrawColumns has rows of {self.rows.shape[1]} columns to draw from, "
                f"and samples are of shape {tuple(images.shape[1:])}."
            )
        chosen, places = (part.to(images.device) for part in parameters)
        drawn = self.rows.to(images).gather(0, places)
        return torch.where(chosen, drawn, images)


@dataclass(frozen=True)
class HideColumns(Operation):
    """A share of the columns replaced by what stands for nothing.

    Args:
        share: of the columns that are hidden, the same number in every row.
        blank: what a hidden column holds; NaN where rows may have missing cells.

    >>> from invariance.views import Draws, HideColumns
    >>> draws = Draws(seed=0, epoch=0, samples=torch.arange(3), view=0)
    >>> HideColumns(0.5, blank=(7.0, 7.0))(torch.zeros(3, 2), draws).sum(1)
    tensor([7., 7., 7.])
    """

    images_only: ClassVar[bool] = False
    draws_on_device: ClassVar[bool] = True
    share: Number
    blank: tuple[Number, ...]

    def __post_init__(self) -> None:
        check_share(self.share)

    def draw(self, draws: Draws, shape: Shape) -> Bool[Tensor, "n d"]:
        """Which columns are hidden."""
        return choose_columns(draws.uniform(shape[1]), self.share)

    def apply(self, images: Rows, parameters: Bool[Tensor, "n d"]) -> Rows:
        """The rows with these columns hidden."""
        hidden = parameters.to(images.device, non_blocking=True)
        return torch.where(hidden, numbers(self.blank, images), images)


def check_share(share: Number) -> None:
    """Some columns, but not all of them, may go."""
    if not 0 < share < 1:
        raise SettingError(
            "share is the part of a row's columns that is redrawn or hidden, between 0 "
            f"and 1: got {share}."
        )

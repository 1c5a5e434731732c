"""Columns: the first layer of an encoder of rows, which lays out a table's cells."""

import math

from jaxtyping import Float
from torch import Tensor, nn

from ..data import Kind, Row, expand
from ..errors import ShapeError


class Columns(nn.Module):
    """Cells as one number each in, what a network can work with out.

    Inside the encoder, so that whoever loads it hands over rows as ``kind.read`` gives
    them and need remember nothing of means, scales and categories.

    >>> import torch
    >>> from invariance.data import Column
    >>> columns = [Column("age", 50, 10), Column("color", categories=("blue", "red"))]
    >>> Columns(Row(columns))(torch.tensor([[70.0, 1.0]]))
    tensor([[2., 0., 1.]])
    """

    whose: Tensor
    role: Tensor
    place: Tensor
    mean: Tensor
    scale: Tensor

    def __init__(self, kind: Row) -> None:
        super().__init__()
        self.n_columns = kind.shape[0]
        names = ("whose", "role", "place", "mean", "scale")
        for name, part in zip(names, kind.layout, strict=True):
            self.register_buffer(name, part.clone(), persistent=False)

    def forward(self, rows: Float[Tensor, "n d"]) -> Float[Tensor, "n e"]:
        """The rows laid out."""
        if rows.ndim != 2 or rows.shape[1] != self.n_columns:
            raise ShapeError(
                f"This encoder takes rows of {self.n_columns} columns, (n, "
                f"{self.n_columns}): got {tuple(rows.shape)}. One row alone needs "
                "[None]."
            )
        return expand(rows, self.whose, self.role, self.place, self.mean, self.scale)

    def extra_repr(self) -> str:
        """For print(encoder)."""
        return f"{self.n_columns} columns -> {len(self.whose)}"


def lay_out(network: nn.Module, kind: Kind) -> nn.Module:
    """The network behind the first layer that rows need, if it is not there yet."""
    has_it = isinstance(network, nn.Sequential) and isinstance(network[0], Columns)
    if not isinstance(kind, Row) or has_it:
        return network
    return nn.Sequential(Columns(kind), network)


def count_inputs(kind: Kind) -> int:
    """How many numbers a sample is for a network.

    >>> from invariance.data import Column, Vector
    >>> count_inputs(Vector((5,))), count_inputs(Row([Column("a", missing=True)]))
    (5, 2)
    """
    return len(kind.layout[0]) if isinstance(kind, Row) else math.prod(kind.shape)

"""How rows are laid out for the kernels: padding, split widths, rounding.

A row of d numbers becomes WIDTH + REST numbers, both powers of two or zero, because a
matrix unit takes powers of two and 129 = 128 + 16 costs far less than 256. Rows wider
than ``WIDEST`` are read in steps. Free of Triton, so that shapes are known without it.
"""

from dataclasses import dataclass
from functools import cache

WIDEST = 272  # 256 + 16: up to here one program holds a row of the gradient
STEP = 64  # of a wider row, so much is multiplied at a time
SMALLEST = 16  # side of the smallest product of a matrix unit
ROW_PADDING = 256  # the largest tile side: no load of a tile needs a mask


@dataclass(frozen=True)
class Layout:
    """Widths of one row: ``width`` and ``rest``, or steps of a ``stride`` if wide."""

    width: int
    rest: int
    stride: int

    @property
    def wide(self) -> bool:
        """Whether rows are read in steps instead of whole."""
        return self.width == 0


@cache
def layout(d: int) -> Layout:
    """The cheapest layout that holds d numbers.

    >>> layout(128), layout(129)
    (Layout(width=128, rest=0, stride=128), Layout(width=128, rest=16, stride=144))
    >>> layout(250).stride, layout(512).wide
    (256, True)
    """
    if d > WIDEST:
        return Layout(0, 0, -(-d // STEP) * STEP)
    width = max(1 << (d.bit_length() - 1), SMALLEST)
    if d <= width:
        return Layout(width, 0, width)
    rest = max(1 << (d - width - 1).bit_length(), SMALLEST)
    if rest == width:
        return Layout(2 * width, 0, 2 * width)
    return Layout(width, rest, width + rest)


def power_of_two(n: int) -> int:
    """The smallest power of two that is no less than n."""
    return 1 << (n - 1).bit_length()


def padded(n: int) -> int:
    """Rows after padding with zeros."""
    return -(-n // ROW_PADDING) * ROW_PADDING


def tile_shape(n: int, d: int, exact: bool) -> tuple[int, int, int]:
    """Shape of rounded rows: their leading halves and, if exact, what those left."""
    return (2 if exact else 1, padded(n), layout(int(d)).stride)

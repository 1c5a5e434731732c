"""Rows divided by their length, and the gradient of that: one pass each."""

from typing import no_type_check

import torch
import triton
import triton.language as tl
from torch import Tensor

from .._layout import power_of_two
from ._launch import launch

ELEMENTS = 4096  # of one program


@triton.jit(do_not_specialize=["n"])
@no_type_check
def divide(
    x, out, lengths, n, least,
    D: tl.constexpr, ROWS: tl.constexpr, WIDTH: tl.constexpr,
):  # fmt: skip
    """Rows of length one in float32; a row shorter than ``least`` stays as it is."""
    rows = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    columns = tl.arange(0, WIDTH)
    inside = (rows < n)[:, None] & (columns < D)[None, :]
    at = rows.to(tl.int64)[:, None] * D + columns[None, :]
    value = tl.load(x + at, mask=inside, other=0.0).to(tl.float32)
    length = tl.sqrt_rn(tl.sum(value * value, 1))
    length = tl.where(length > least, length, 1.0)
    tl.store(out + at, tl.div_rn(value, length[:, None]), mask=inside)
    tl.store(lengths + rows, length, mask=rows < n)


@triton.jit(do_not_specialize=["n"])
@no_type_check
def divide_backward(
    x, lengths, gradient, out, n,
    D: tl.constexpr, ROWS: tl.constexpr, WIDTH: tl.constexpr,
):  # fmt: skip
    """The gradient without its part along the row, divided by the length."""
    rows = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    columns = tl.arange(0, WIDTH)
    inside = (rows < n)[:, None] & (columns < D)[None, :]
    at = rows.to(tl.int64)[:, None] * D + columns[None, :]
    length = tl.load(lengths + rows, mask=rows < n, other=1.0)
    unit = tl.load(x + at, mask=inside, other=0.0).to(tl.float32) / length[:, None]
    g = tl.load(gradient + at, mask=inside, other=0.0)
    # a row left as it was has no length to keep
    kept = tl.sum(unit * unit, 1) > 0.5
    along = tl.where(kept, tl.sum(unit * g, 1), 0.0)
    g = (g - unit * along[:, None]) / length[:, None]
    tl.store(out + at, g.to(out.dtype.element_ty), mask=inside)


def unit_rows(x: Tensor, least: float) -> tuple[Tensor, Tensor]:
    """Unit rows in float32, and the lengths."""
    (n, d), width = x.shape, power_of_two(x.shape[1])
    rows = max(ELEMENTS // width, 1)
    out = torch.empty((n, d), dtype=torch.float32, device=x.device)
    lengths = torch.empty(n, dtype=torch.float32, device=x.device)
    sizes = {"D": d, "ROWS": rows, "WIDTH": width}
    launch(divide, (-(-n // rows),), (x, out, lengths), (n, least), sizes)
    return out, lengths


def unit_rows_backward(x: Tensor, lengths: Tensor, gradient: Tensor) -> Tensor:
    """Gradient of the rows, in their own type."""
    (n, d), width = x.shape, power_of_two(x.shape[1])
    rows = max(ELEMENTS // width, 1)
    out = torch.empty_like(x)
    sizes = {"D": d, "ROWS": rows, "WIDTH": width}
    tensors = (x, lengths, gradient, out)
    launch(divide_backward, (-(-n // rows),), tensors, (n,), sizes)
    return out

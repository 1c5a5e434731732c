"""Launches of the forward kernels."""

from dataclasses import replace

import torch
from torch import Tensor

from .._layout import STEP
from ._configs import INTERPRETED, REPAIR, Config, config_for, processors
from ._functions import NUMBERS
from ._problem import Problem, spans
from ._sums import finish, repair, sum_rows

COLUMN_SUM_BYTES = 192 * 2**20  # for the columns' partial sums, one line a block
MOST_SPANS = 64
FINISH_BLOCK, FINISH_PARTS = 128, 32


def log_partitions(
    problem: Problem, scales: Tensor, columns: bool
) -> tuple[Tensor, Tensor]:
    """Log-partitions of the rows (k, n), and of the columns (1, m) or (k, 0)."""
    n, m, k = problem.n, problem.m, len(scales)
    rows = problem.bounds.new_empty(k, n)
    sides = problem.bounds.new_empty(k, m if columns else 0)
    for a in range(0, k, 2):  # two scales a pass
        some = scales[a : a + 2]
        by_row, by_column = _sums(problem, some, columns)
        _finish(problem, some, by_row, rows[a : a + 2])
        if by_column is not None:
            _finish(problem.turned(), some, by_column, sides)
    return rows, sides


def row_sums(
    problem: Problem, function: str, parameter: float, offset: float
) -> Tensor:
    """Sums of another function of the scores over each row: (n,)."""
    one = torch.ones(1, device=problem.device)
    code = NUMBERS[function], parameter, offset
    by_row, _ = _sums(problem, one, False, code)
    return by_row[:, 0].sum(0) if len(by_row) > 1 else by_row[0, 0]


def _sums(
    problem: Problem,
    scales: Tensor,
    columns: bool,
    code: tuple[int, float, float] = (0, 0.0, 0.0),
) -> tuple[Tensor, Tensor | None]:
    """Partial sums of rows (spans, k, n) and, if asked, of columns (parts, 1, m)."""
    config = config_for("sums", problem.shape, problem.exact, problem.device)
    n, k = problem.n, len(scales)
    tiles, each, parts = spans(problem, config, 1 if columns else MOST_SPANS)
    out = problem.bounds.new_empty(parts, k, n)
    if not columns:
        _launch(problem, config, scales, code, out, None, (tiles, each, parts))
        return out, None
    step = _rows_at_once(problem, config)
    sides = []
    for start in range(0, n, step):
        some = _row_slice(problem, start, min(start + step, n))
        blocks = -(-some.n // config.rows)
        part = problem.bounds.new_empty(blocks, problem.m)
        _launch(some, config, scales, code, out[:, :, start:], part, (tiles, each, 1))
        sides.append(part)
    if len(sides) == 1:
        return out, sides[0][:, None]
    return out, torch.stack([part.sum(0) for part in sides])[:, None]


def _launch(
    problem: Problem,
    config: Config,
    scales: Tensor,
    code: tuple[int, float, float],
    out: Tensor,
    sides: Tensor | None,
    cut: tuple[int, int, int],
) -> None:
    function, parameter, offset = code
    tiles, each, parts = cut
    arrays, names = problem.masks(config.columns)
    grid = (-(-problem.n // config.rows), parts)
    sum_rows[grid](
        *problem.arrays(), scales, *arrays, out, out if sides is None else sides,
        problem.n, problem.m, out.stride(1), problem.room, parameter, offset,
        tiles, each,
        FUNCTION=function, SCALES=len(scales), STEP=STEP, COLUMNS=sides is not None,
        BM=config.rows, BN=config.columns,
        **names, **problem.widths(), **config.launch,
    )  # fmt: skip


def _finish(problem: Problem, scales: Tensor, partial: Tensor, out: Tensor) -> None:
    """Logarithms of sums, and the rows that left float32's range computed again."""
    n, k = problem.n, len(scales)
    finish[(-(-n // FINISH_BLOCK), k)](
        partial, out, problem.bounds, scales, n, len(partial), problem.room,
        SCALES=k, BLOCK=FINISH_BLOCK, PARTS=FINISH_PARTS,
    )  # fmt: skip
    small = INTERPRETED if problem.device.type == "cpu" else REPAIR
    arrays, names = problem.masks(small.columns)
    row_ids, column_ids, _, _, *bands = arrays
    repair[(-(-n // small.rows), k)](
        *problem.arrays(), scales, row_ids, column_ids, *bands, out, n, problem.m,
        -(-problem.m // small.columns),
        STEP=STEP, BM=small.rows, BN=small.columns,
        **names, **problem.widths(), **small.launch,
    )  # fmt: skip


def _rows_at_once(problem: Problem, config: Config) -> int:
    """Rows whose blocks' column sums fit the budget, enough to fill the device."""
    fit = COLUMN_SUM_BYTES // (4 * max(problem.m, 1))
    return max(fit, 2 * processors(problem.device)) * config.rows


def _row_slice(problem: Problem, start: int, stop: int) -> Problem:
    ids = None if problem.row_ids is None else problem.row_ids[start:stop]
    return replace(problem, x=problem.x[:, start:], n=stop - start, row_ids=ids)

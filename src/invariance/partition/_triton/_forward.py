"""Launches of the forward kernels."""

import torch
from torch import Tensor

from ._configs import INTERPRETED, REPAIR, Config, config_for, processors
from ._functions import NUMBERS
from ._launch import launch
from ._problem import Problem, spans
from ._repair import repair
from ._sums import add_columns, finish, sum_rows

COLUMN_SUM_BYTES = 96 * 2**20  # for columns' partial sums, or as many as the rows take
MOST_SPANS = 64
# Of half a matrix some rows have much to do and others little: many small programs a
# processor even that out, if each has enough tiles to be worth its start.
PROGRAMS, LEAST_TILES = 16, 8
# Rows from which half of a symmetric matrix, with sums of both its sides, is faster
# than the whole with one.
TRIANGLE_FROM = {"cpu": 64, "cuda": 8192}
FINISH_BLOCK, FINISH_PARTS = 128, 32
Code = tuple[int, float, float]  # number of a function, its parameter, the offset


def log_partitions(
    problem: Problem, scales: Tensor, columns: bool
) -> tuple[Tensor, Tensor]:
    """Log-partitions of the rows (k, n), and of the columns (1, m) or (k, 0)."""
    n, m, k = problem.n, problem.m, scales.shape[0]
    rows = torch.empty((k, n), dtype=torch.float32, device=problem.device)
    sides = torch.empty(
        (k, m if columns else 0), dtype=torch.float32, device=problem.device
    )
    for a in range(0, k, 2):  # two scales a pass
        some = scales if k <= 2 else scales[a : a + 2]
        by_row, by_column = sums(problem, some, columns)
        _finish(problem, some, by_row, rows[a : a + 2])
        if by_column is not None:
            _finish(problem.turned(), some, by_column, sides)
    return rows, sides


def row_sums(
    problem: Problem, function: str, parameter: float, offset: float
) -> Tensor:
    """Sums of another function of the scores over each row: (n,)."""
    one = torch.ones(1, dtype=torch.float32, device=problem.device)
    code = NUMBERS[function], parameter, offset
    by_row, _ = sums(problem, one, False, code)
    return by_row[:, 0].sum(0) if len(by_row) > 1 else by_row[0, 0]


def sums(
    problem: Problem, scales: Tensor, columns: bool, code: Code = (0, 0.0, 0.0)
) -> tuple[Tensor, Tensor | None]:
    """Partial sums of rows (parts, k, n) and, if asked, of columns (parts, k, m)."""
    least = TRIANGLE_FROM[problem.device.type]
    upper = not columns and problem.symmetric and problem.n >= least
    both = columns or upper
    config = config_for(
        "triangle" if both else "sums", problem.shape, problem.exact, problem.device
    )
    n, k = problem.n, scales.shape[0]
    tiles, _, parts = spans(problem, config, MOST_SPANS)
    masks = problem.masks(config.columns)
    if not both:
        out = torch.empty((parts, k, n), dtype=torch.float32, device=problem.device)
        cut = (0, n, tiles, parts, upper)
        _launch(problem, config, scales, code, masks, out, None, cut)
        return out, None
    step = _rows_at_once(problem, config, k)
    wanted = -(
        -PROGRAMS * processors(problem.device) // -(-min(step, n) // config.rows)
    )
    parts = min(max(parts, wanted), MOST_SPANS, -(-tiles // LEAST_TILES))
    out = torch.empty((parts + upper, k, n), dtype=torch.float32, device=problem.device)
    side = out[parts:] if upper else out.new_empty((1, k, problem.m))
    for start in range(0, n, step):
        stop = min(start + step, n)
        blocks = -(-(stop - start) // config.rows)
        part = torch.empty(
            (blocks, k, problem.m), dtype=torch.float32, device=problem.device
        )
        cut = (start, stop - start, tiles, parts, upper)
        _launch(problem, config, scales, code, masks, out, part, cut)
        if not upper and blocks * config.rows >= n:
            return out, part
        sizes = {"SCALES": k, "UPPER": upper, "BM": config.rows}
        sizes |= {"BLOCK": FINISH_BLOCK, "PARTS": FINISH_PARTS}
        grid = (-(-problem.m // FINISH_BLOCK), k)
        numbers = (problem.m, blocks, start, int(start > 0))
        launch(add_columns, grid, (part, side), numbers, sizes)
    return out, None if upper else side


def _launch(
    problem: Problem,
    config: Config,
    scales: Tensor,
    code: Code,
    masks: tuple[Tensor, ...],
    out: Tensor,
    sides: Tensor | None,
    cut: tuple[int, int, int, int, bool],
) -> None:
    start, height, tiles, parts, upper = cut
    function, parameter, offset = code
    launch(
        sum_rows,
        (-(-height // config.rows), parts),
        (*problem.arrays(), scales, *masks, out, out if sides is None else sides),
        (
            *(problem.n, problem.m, problem.period, start, problem.room),
            *(parameter, offset, tiles, parts),
        ),
        problem.constants(config)
        | {"FUNCTION": function, "SCALES": scales.shape[0]}
        | {"COLUMNS": sides is not None, "UPPER": upper},
        config,
    )


def _finish(problem: Problem, scales: Tensor, partial: Tensor, out: Tensor) -> None:
    """Logarithms of sums, and the rows that left float32's range computed again."""
    n, k = problem.n, scales.shape[0]
    grid = (-(-n // FINISH_BLOCK), k)
    sizes = {"SCALES": k, "BLOCK": FINISH_BLOCK, "PARTS": FINISH_PARTS}
    numbers = (n, partial.shape[0], problem.room)
    launch(finish, grid, (partial, out, problem.bounds, scales), numbers, sizes)
    small = INTERPRETED if problem.device.type == "cpu" else REPAIR
    row_ids, column_ids, _, _, *bands = problem.masks(0)
    launch(
        repair,
        (-(-n // small.rows), k),
        (*problem.arrays(), scales, row_ids, column_ids, *bands, out),
        (n, problem.m, problem.period, -(-problem.m // small.columns)),
        problem.constants(small),
        small,
    )


def _rows_at_once(problem: Problem, config: Config, k: int) -> int:
    """Rows whose blocks' column sums fit the budget."""
    budget = max(COLUMN_SUM_BYTES, problem.x.numel() * 2)
    return max(budget // (4 * k * max(problem.m, 1)), 1) * config.rows

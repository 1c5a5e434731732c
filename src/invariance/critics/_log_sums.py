r"""Log-partitions of a critic's scores over the pairs of a batch, rows and columns.

$$R_i = \log\sum_{j\ne i} e^{a\,g(x_i, y_j)},\qquad
C_j = \log\sum_{i\ne j} e^{a\,g(x_i, y_j)}$$

Scores that are inner products of rows are summed by ``invariance.partition``. A critic
with work for each pair is called for a block of pairs at a time, and once more in the
backward pass. Either way memory is linear in the batch.
"""

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn.functional import pad

from ..partition import (
    Share,
    add_up,
    gather_last,
    gather_rows,
    number_rows,
    take_whole_gradient,
    two_sided_log_partition,
)
from ._critic import Critic, pairs_at_once


class LogSums(NamedTuple):
    """What a contrast of two views is made of."""

    positive: Float[Tensor, " n"]
    """Scores of partners, times the scale."""
    rows: Float[Tensor, " n"]
    """Log-partitions of x's rows over all rows of y but their partners."""
    columns: Float[Tensor, " n"]
    """Those of y's rows over all rows of x but their partners."""


def log_sums(
    critic: Critic,
    x: Float[Tensor, "n dx"],
    y: Float[Tensor, "n dy"],
    *,
    scale: float | int | Tensor = 1.0,
    power: float | int = 1.0,
    share: Share | None = None,
) -> LogSums:
    """Partners' scores, and log-partitions over everyone else.

    Args:
        critic: What scores them.
        x: One row per sample. Half precision is raised to float32.
        y: Its partner, row by row.
        scale: Inverse temperature, a number or a 0-d tensor to be learned.
        power: A further factor on the scores in the partitions alone.
        share: Where these are a process's rows of all: then the numbers are those of
            all rows, on every process, and parameters get the gradient that data-
            parallel training averages.

    >>> from invariance.critics import build_critic
    >>> x, y = torch.randn(2, 3, 4)
    >>> sums = log_sums(build_critic("bilinear", 4, 4), x, y)
    >>> (sums.rows - sums.positive).detach()  # all scores alike at first: log 2
    tensor([0.6931, 0.6931, 0.6931])
    """
    dtype = torch.promote_types(torch.promote_types(x.dtype, y.dtype), torch.float32)
    x, y = x.to(dtype), y.to(dtype)
    scale = take_whole_gradient(scale, share)
    with torch.autocast(x.device.type, enabled=False):
        rows = critic.rows(x, y)
        if rows is not None:
            positive = scale * (rows[0] * rows[1]).sum(1)
            ids = number_rows(x, share)
            how: Any = {"row_ids": ids, "column_ids": ids, "share": share}
            sums = two_sided_log_partition(*rows, scale=power * scale, **how)
        else:
            positive = scale * critic.score_pairs(x, y)
            factor = torch.as_tensor(power * scale, dtype=dtype, device=x.device)
            sums = _sum_blocks(critic, x, y, factor, share)
    return LogSums(gather_last(positive, share), *sums)


def _sum_blocks(
    critic: Critic, x: Tensor, y: Tensor, scale: Tensor, share: Share | None
) -> tuple[Tensor, Tensor]:
    """Own rows of x with all rows of y."""
    weights = tuple(critic.parameters())
    if share is None:
        return _LogSums.apply(critic, 0, scale, x, y, *weights)
    own_rows = share.own_rows
    # not gather_rows: each row of y has its part in the sums of every process
    padding = (0, 0, own_rows.start, share.total - own_rows.stop)
    everyone = add_up(pad(y, padding), share)
    rows, columns = _LogSums.apply(critic, own_rows.start, scale, x, everyone, *weights)
    one_each = share._replace(sizes=(1,) * share.n_processes)
    columns = gather_rows(columns[None], share=one_each).logsumexp(0)
    return gather_last(rows, share), columns


class _LogSums(torch.autograd.Function):
    """Log-sums of rows and columns, block by block, forth and back."""

    @staticmethod
    def forward(
        ctx: Any,
        critic: Critic,
        first: int,
        scale: Tensor,
        x: Tensor,
        y: Tensor,
        *weights: Tensor,
    ) -> tuple[Tensor, Tensor]:
        rows = x.new_full((len(x),), -math.inf)
        columns = y.new_full((len(y),), -math.inf)
        for i, j, partners in _cut(x, y, first):
            scores = scale * critic(x[i], y[j])
            scores = scores.masked_fill(partners, -math.inf)
            rows[i] = torch.logaddexp(rows[i], scores.logsumexp(1))
            columns[j] = torch.logaddexp(columns[j], scores.logsumexp(0))
        ctx.save_for_backward(scale, x, y, rows, columns)
        ctx.critic, ctx.first = critic, first
        return rows, columns

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, of_rows: Tensor, of_columns: Tensor) -> tuple[Any, ...]:
        scale, x, y, rows, columns = ctx.saved_tensors
        weights = tuple(ctx.critic.parameters())
        learning = [w for w in weights if w.requires_grad]
        of_scale, of_x, of_y = map(torch.zeros_like, (scale, x, y))
        of_weights = [torch.zeros_like(w) for w in learning]
        for i, j, partners in _cut(x, y, ctx.first):
            with torch.enable_grad(), torch.autocast(x.device.type, enabled=False):
                leaves = [t.detach().requires_grad_() for t in (scale, x[i], y[j])]
                scores = leaves[0] * ctx.critic(*leaves[1:])
            s = scores.detach()
            slopes = (s - rows[i, None]).exp() * of_rows[i, None]
            slopes += (s - columns[j]).exp() * of_columns[j]
            slopes.masked_fill_(partners, 0.0)
            parts = torch.autograd.grad(scores, [*leaves, *learning], slopes)
            of_scale += parts[0]
            of_x[i] += parts[1]
            of_y[j] += parts[2]
            torch._foreach_add_(of_weights, parts[3:])
        gradients = iter(of_weights)
        each = [next(gradients) if w.requires_grad else None for w in weights]
        return (None, None, of_scale, of_x, of_y, *each)


def _cut(x: Tensor, y: Tensor, first: int) -> Iterator[tuple[slice, slice, Tensor]]:
    """Blocks of rows and columns, and which of their pairs are partners."""
    side = math.isqrt(pairs_at_once(x))
    row = torch.arange(first, first + len(x), device=x.device)[:, None]
    column = torch.arange(len(y), device=y.device)
    for i in range(0, len(x), side):
        for j in range(0, len(y), side):
            some, others = slice(i, i + side), slice(j, j + side)
            yield some, others, row[some] == column[others]

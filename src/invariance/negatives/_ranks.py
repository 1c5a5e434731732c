"""Where in an anchor's ranking of the bank a rank lies, as a score.

The bands of ball and ring are scores, so that the log-partition can apply them tile by
tile. A limit lies halfway between two neighbouring scores: the log-partition computes
them in other tiles, and their last bits may differ. Rows of equal score stay together.
"""

from collections.abc import Sequence

import torch
from jaxtyping import Float, Int
from torch import Tensor

from ..errors import SettingError

CPU_BYTES = 128 * 2**20  # of scores held at a time: some anchors against the whole bank
DEVICE_BYTES = 512 * 2**20


def rank_of(name: str, value: float | int, n_others: int) -> int:
    """A rank from 0 to ``n_others``, from a rank or from a share up to 1.0.

    >>> rank_of("k", 10, 99), rank_of("k", 0.1, 99)
    (10, 10)
    >>> rank_of("k", 1, 99), rank_of("k", 1.0, 99)
    (1, 99)
    """
    is_share = isinstance(value, float) and value <= 1
    if not value >= 0 or not (is_share or float(value).is_integer()):
        raise SettingError(
            f"{name} is a rank (a whole number) or a share (up to 1.0): got {value}."
        )
    rank = round(value * n_others) if is_share else int(value)
    if rank > n_others:
        raise SettingError(
            f"{name} = {value} is more than the {n_others:,} other rows of the bank."
        )
    return rank


@torch.no_grad()
def limits(
    u: Float[Tensor, "n d"],
    z: Float[Tensor, "m d"],
    ids: Int[Tensor, " n"],
    ranks: Sequence[int],
) -> list[Float[Tensor, " n"]]:
    """For each rank r, a score that r of the other rows are above.

    Args:
        u: Anchors.
        z: The bank.
        ids: The anchors' own rows, which are not ranked.
        ranks: Each from 0 (infinity) to m - 1 (minus infinity).
    """
    budget = CPU_BYTES if u.device.type == "cpu" else DEVICE_BYTES
    dtype = torch.promote_types(u.dtype, z.dtype)
    step = max(budget // (len(z) * dtype.itemsize), 1)
    most = min(max(ranks) + 1, len(z) - 1)
    parts: list[list[Tensor]] = [[] for _ in ranks]
    for start in range(0, len(u), step):
        rows = slice(start, start + step)
        scores = exact_product(u[rows].to(dtype), z.to(dtype))
        scores.scatter_(1, ids[rows, None], -torch.inf)
        best = scores.topk(most, dim=1).values if most else scores[:, :0]
        infinity = scores.new_full((len(scores), 1), torch.inf)
        # 0: above the best; m - 1: below the worst
        edges = torch.cat([infinity, best, -infinity], dim=1)
        for part, rank in zip(parts, ranks, strict=True):
            part.append(_between(edges[:, rank], edges[:, rank + 1]))
    return [torch.cat(part) for part in parts]


def exact_product(
    x: Float[Tensor, "n d"], y: Float[Tensor, "m d"]
) -> Float[Tensor, "n m"]:
    """X y' in float32 proper: tf32 would mix up the ranks of near rows."""
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("highest")
    try:
        return x @ y.T
    finally:
        torch.set_float32_matmul_precision(before)


def _between(above: Tensor, below: Tensor) -> Tensor:
    """Halfway; infinite where one side is."""
    middle = below + (above - below) / 2
    middle = torch.where(above.isinf(), above, middle)
    return torch.where(below.isinf(), below, middle)

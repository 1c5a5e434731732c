"""How near the cosine over a temperature is to the optimal critic."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import normalize

from ...estimators import info_nce
from .._claim import About, Cell, Figure, Rows, Values, Verdict, plan
from .._figures import plot_values
from .._spread import Spread, compare
from ._known_pairs import average_batches

NATS = 2.0
SCALES = tuple(2 ** (k / 2) for k in range(15))  # inverse temperatures, 1 to 128
ENOUGH = 0.95


def measure(cell: Cell) -> Values:
    """What the best cosine critic reads, beside the exact one, and what it follows."""

    def read(x: Tensor, y: Tensor, exact: Tensor) -> Mapping[str, Any]:
        cosine = normalize(x, dim=1) @ normalize(y, dim=1).mT
        # as many strangers as partners, of which a matrix has few
        some = torch.stack([exact.diagonal(), exact.roll(1, 1).diagonal()]).flatten()
        of = torch.stack([cosine.diagonal(), cosine.roll(1, 1).diagonal()]).flatten()
        return {
            "exact": info_nce(exact),
            **{f"at {scale}": info_nce(scale * cosine) for scale in SCALES},
            "r2_log_ratio": _squared_correlation(of, some),
            "r2_ratio": _squared_correlation(of, some.exp()),
        }

    means = average_batches(cell, NATS, read, cell["width"])
    cosine = max(means.pop(f"at {scale}") for scale in SCALES)
    return {**means, "cosine": cosine, "kept": cosine / means["exact"]}


def _squared_correlation(a: Tensor, b: Tensor) -> Tensor:
    return torch.corrcoef(torch.stack([a, b]))[0, 1] ** 2


def judge(rows: Rows) -> Verdict:
    """What is kept in the highest dimension, and of what the cosine is a function."""
    low, high = (rows.where(width=f(rows["width"])) for f in (min, max))
    kept = {part[0]["width"]: Spread.of(part["kept"]) for part in (low, high)}
    logs, ratios = (Spread.of(high[f"r2_{n}"]) for n in ("log_ratio", "ratio"))
    shares = " and ".join(
        f"{100 * spread.mean:.1f} % in {width} dimensions"
        for width, spread in kept.items()
    )
    because = (
        f"Of what the optimal critic reads, the cosine at its best temperature reads "
        f"{shares}. In the latter case it explains {logs} of the variance of the log "
        f"ratio, but {ratios} of the variance of the ratio."
    )
    best = kept[high[0]["width"]]
    if best.high < ENOUGH:
        return Verdict("does not hold", because)
    if best.low < ENOUGH:
        return Verdict("not decided", because)
    rises = compare(high["r2_log_ratio"], high["r2_ratio"]).is_above_zero
    if rises or kept[low[0]["width"]].high < ENOUGH:
        return Verdict("holds within limits", because)
    return Verdict("holds", because)


def draw(rows: Rows, figure: Figure) -> None:
    """What is kept, and what the cosine explains, by dimension."""
    axes = figure.subplots()
    lines = {
        "kept": "share of the optimal critic's bound",
        "r2_log_ratio": "R² of the log ratio",
        "r2_ratio": "R² of the ratio, as printed",
    }
    plot_values(axes, rows, x="width", lines=lines)
    axes.axhline(1, color="black", linewidth=1)
    axes.set(xscale="log", ylim=(0, 1.05))
    axes.set(xlabel="dimensions", ylabel="share for the cosine")


ABOUT = About(
    where="theorem 9",
    says="In high dimension the cosine is a good approximation of the optimal critic, "
    "because the density ratio is roughly proportional to it.",
    run=f"Gaussians that share {NATS:g} nats in 2 to 256 dimensions (1,024 at full "
    f"size): the bound that the cosine reads at the best of {len(SCALES)} "
    "temperatures, beside that of the exact critic, in batches of 128 (512 at full "
    "size).",
    refuted_if=f"A cosine that reads less than {100 * ENOUGH:.0f} % of what the "
    "optimal critic reads, even in the highest dimension.",
    sizes=plan(
        tiny={"width": (2, 64), "n": 64, "batches": 10, "seeds": 2},
        quick={"width": (2, 4, 16, 64, 256), "n": 128, "batches": 60, "seeds": 5},
        full={
            "width": (2, 4, 16, 64, 256, 1024),
            "n": 512,
            "batches": 100,
            "seeds": 10,
        },
    ),
    columns={
        "dimensions": "width",
        "optimal critic, nats": "exact",
        "cosine, nats": "cosine",
        "kept": "kept",
        "R², log ratio": "r2_log_ratio",
        "R², ratio": "r2_ratio",
    },
    correction=r"""
    The **log** ratio is roughly linear in the cosine. (A ratio proportional to
    $c^\top x$ would be negative for half of all strangers.) For Gaussians with
    correlation $\rho$ in each of d columns,
    $\log r = \frac{\rho\,c^\top x}{1-\rho^2} -
    \frac{\rho^2(\lVert c\rVert^2 + \lVert x\rVert^2)}{2(1-\rho^2)} + \text{const}$.
    In high dimension both norms are $\sqrt d$ up to a relative error of
    $1/\sqrt{2d}$, so the first term is nearly $\frac{\rho d}{1-\rho^2}\cos(c, x)$: the
    cosine over a temperature of $(1-\rho^2)/\rho d$. The second deviates by about
    $\rho^2\sqrt d/(1-\rho^2)$, that is $\rho$ times what the first does for strangers.
    It may be dropped where $\rho$ is small, as it is if the same information is spread
    over many dimensions: $\rho^2 \approx 2I/d$. In few dimensions the norms carry
    information that the cosine throws away. On the sphere itself, the von Mises-Fisher
    law has exactly $\log r = \kappa\,c^\top x + \text{const}$.
    """,
)

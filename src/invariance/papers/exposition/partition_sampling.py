"""What cleverer draws gain in the estimate of a partition."""

import math

import torch
from torch import Tensor

from ...negatives import (
    control_variate_partition,
    importance_partition,
    kmeans,
    monte_carlo_partition,
    stratified_partition,
)
from .._claim import About, Cell, Figure, Rows, Values, Verdict, plan
from .._figures import plot_values
from .._spread import Spread
from ._views_on_sphere import draw_near, draw_unit_rows

WIDTH, CLUSTERS, BANK, ANCHORS = 16, 16, 2048, 64
STALE = 0.3  # how far the rows that importance sampling knows have moved since
SAMPLINGS = ("importance", "stratified", "control variate")


def measure(cell: Cell) -> Values:
    """The relative error of Z with plain and with cleverer draws from a bank."""
    g, k, scale = cell.generator(), cell["k"], 1 / cell["temperature"]
    centers = draw_unit_rows(CLUSTERS, WIDTH, g)
    bank = draw_near(centers.repeat(BANK // CLUSTERS, 1), 0.6, g)
    u = draw_near(bank[:: BANK // ANCHORS], 0.3, g)
    logits = scale * u @ bank.mT
    exact = monte_carlo_partition(logits)
    strata = kmeans(bank.float(), CLUSTERS, seed=cell.seed).labels
    stale = (scale * u @ draw_near(bank, STALE, g).mT).log_softmax(1)
    draws: dict[str, list[Tensor]] = {}
    for _ in range(cell["draws"]):
        plain = torch.randint(BANK, (k,), generator=g)
        chosen = torch.multinomial(stale.exp(), k, replacement=True, generator=g)
        by_stratum, members, shares = draw_in_strata(strata, k, g)
        estimates = {
            "plain": monte_carlo_partition(logits[:, plain]),
            "importance": importance_partition(
                logits.gather(1, chosen), -math.log(BANK) - stale.gather(1, chosen)
            ),
            "stratified": stratified_partition(logits[:, by_stratum], members, shares),
            "control variate": control_variate_partition(
                u,
                bank[plain],
                scale=scale,
                mean=bank.mean(0),
                second_moment=bank.mT @ bank / BANK,
            ),
        }
        for name, estimate in estimates.items():
            draws.setdefault(name, []).append((estimate - exact).expm1())
    errors = {
        name: float(torch.cat(parts).square().mean().sqrt())
        for name, parts in draws.items()
    }
    gains = {f"gain_{n}": (errors["plain"] / errors[n]) ** 2 for n in SAMPLINGS}
    return {f"error_{name}": error for name, error in errors.items()} | gains


def draw_in_strata(
    strata: Tensor, k: int, generator: torch.Generator
) -> tuple[Tensor, Tensor, Tensor]:
    """About k rows in proportion, their strata, and the share of each stratum."""
    rows: list[Tensor] = []
    members: list[Tensor] = []
    shares: list[float] = []
    for stratum in strata.unique():
        inside = (strata == stratum).nonzero()[:, 0]
        n = max(1, round(k * len(inside) / len(strata)))
        picks = torch.randint(len(inside), (n,), generator=generator)
        rows.append(inside[picks])
        members.append(torch.full((n,), len(shares)))
        shares.append(len(inside) / len(strata))
    return torch.cat(rows), torch.cat(members), torch.tensor(shares).double()


def judge(rows: Rows) -> Verdict:
    """Which samplings gain at which temperatures."""
    gains, harms, losses, sentences = 0, 0, [], []
    for name in SAMPLINGS:
        parts = []
        for t, values in rows.by("temperature", f"gain_{name}").items():
            advantage = Spread.of([math.log(value) for value in values])
            gains += advantage.is_above_zero
            harms += advantage.is_below_zero
            if not advantage.is_above_zero:
                losses.append(f"{name} at temperature {t:g}")
            parts.append(f"{math.exp(advantage.mean):,.1f} at {t:g}")
        sentences.append(f"{name} {', '.join(parts)}")
    because = (
        "One draw is worth this many plain draws, by temperature: "
        f"{'; '.join(sentences)}."
    )
    if not gains:
        return Verdict("does not hold" if harms else "not decided", because)
    if not losses:
        return Verdict("holds", because)
    return Verdict(
        "holds within limits", f"{because} No gain beyond chance: {', '.join(losses)}."
    )


def draw(rows: Rows, figure: Figure) -> None:
    """The gain of each, by temperature."""
    axes = figure.subplots()
    lines = {f"gain_{name}": name for name in SAMPLINGS}
    plot_values(axes, rows, x="temperature", lines=lines)
    axes.axhline(1, color="black", linewidth=1)
    axes.annotate("plain draws", (max(rows["temperature"]), 1.1), ha="right")
    axes.set(xscale="log", yscale="log", xlabel="temperature")
    axes.set(ylabel="plain draws that one of these is worth")


ABOUT = About(
    where="section 8.7",
    says="Importance sampling, stratified sampling and control variates reduce the "
    "variance of the estimated partition.",
    run=f"64 draws from a bank of {BANK:,} rows in {CLUSTERS} clusters. Importance "
    "sampling knows the rows as they were before they moved a little, the strata are "
    "k-means clusters, and the control variate is a quadratic in the scores. The cost "
    "of scoring the older rows and of clustering is not counted.",
    refuted_if="None of the samplings has a smaller error than plain draws.",
    sizes=plan(
        temperature=(1.0, 0.5, 0.2, 0.1, 0.05),
        k=64,
        tiny={"draws": 3, "seeds": 2},
        quick={"draws": 60, "seeds": 4},
        full={"draws": 300, "seeds": 10},
    ),
    columns={
        "temperature": "temperature",
        "relative error, plain": "error_plain",
        **{name: f"error_{name}" for name in SAMPLINGS},
    },
)

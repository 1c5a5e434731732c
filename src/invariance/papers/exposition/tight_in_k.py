"""At the optimal critic, log K - L approaches the mutual information as K grows."""

from collections.abc import Mapping
from typing import Any

from torch import Tensor

from ...estimators import info_nce
from .._claim import About, Cell, Figure, Rows, Values, Verdict, plan
from .._figures import plot_lines
from .._spread import compare
from ._known_pairs import WIDTH, average_batches


def measure(cell: Cell) -> Values:
    """The bound, and what is missing of the pairs' own log ratios."""

    def read(x: Tensor, y: Tensor, exact: Tensor) -> Mapping[str, Any]:
        bound = info_nce(exact)
        return {"bound": bound, "gap": exact.diagonal().mean() - bound}

    return average_batches(cell, cell["nats"], read)


def judge(rows: Rows) -> Verdict:
    """The gap must shrink with every larger K, for every amount of information."""
    sentences, falls, stalls = [], True, False
    for nats in dict.fromkeys(rows["nats"]):
        gaps = rows.where(nats=nats).by("n", "gap")
        steps = [
            compare(gaps[a], gaps[b])
            for a, b in zip(gaps, list(gaps)[1:], strict=False)
        ]
        falls &= all(step.is_above_zero for step in steps)
        # what is left must be large enough to be missed
        stalls |= steps[-1].high < 0.01 * nats < min(gaps[max(gaps)])
        first, last = (rows.where(nats=nats, n=n) for n in (min(gaps), max(gaps)))
        spreads = [part.spreads("n", "gap") for part in (first, last)]
        (k, before), (most, after) = (next(iter(s.items())) for s in spreads)
        sentences.append(
            f"where I = {nats:g}, {before} nats are missing at K = {k} and {after} at "
            f"K = {most}"
        )
    because = "; ".join(sentences)
    because = f"{because[0].upper()}{because[1:]}."
    if falls:
        return Verdict("holds", because)
    return Verdict("does not hold" if stalls else "not decided", because)


def draw(rows: Rows, figure: Figure) -> None:
    """What is missing, on logarithmic axes."""
    axes = figure.subplots()
    labels = {nats: f"I = {nats:g}" for nats in rows["nats"]}
    plot_lines(axes, rows, x="n", y="gap", by="nats", labels=labels)
    axes.legend(frameon=False, title="nats")
    axes.set(xscale="log", yscale="log")
    axes.set(xlabel="candidates K", ylabel="I - (log K - L), nats")


ABOUT = About(
    where="theorem 3",
    says="With the optimal critic the bound becomes tight as K grows.",
    run=f"The exact critic of {WIDTH}-dimensional Gaussians that share 1, 2 or 4 nats, "
    "with up to 1,024 candidates.",
    refuted_if="A gap that stops shrinking before it has closed.",
    sizes=plan(
        tiny={"nats": (1.0,), "n": (4, 64), "batches": 30, "seeds": 2},
        quick={
            "nats": (1.0, 2.0, 4.0),
            "n": (4, 16, 64, 256, 1024),
            "batches": 60,
            "seeds": 5,
        },
        full={
            "nats": (1.0, 2.0, 4.0, 6.0),
            "n": (4, 16, 64, 256, 1024, 4096),
            "batches": 100,
            "seeds": 10,
        },
    ),
    columns={"nats": "nats", "K": "n", "log K - L": "bound", "missing": "gap"},
)

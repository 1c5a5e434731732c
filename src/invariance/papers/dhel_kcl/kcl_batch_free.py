"""KCL's expected loss does not depend on the batch; that of InfoNCE does."""

from typing import Any

import torch
from torch import Tensor

from .._claim import About, Cell, Figure, Rows, Values, Verdict, plan
from .._figures import mark_sizes
from .._spread import compare
from ._embedding_descent import OBJECTIVES

WIDTH, NOISE = 16, 0.3
NAMES = ("KCL", "DHEL", "InfoNCE")


def draw_pairs(n: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Two views of n samples whose embeddings are spread a little unevenly."""
    center = torch.linspace(0, 1, WIDTH, dtype=torch.double)
    x = torch.randn(n, WIDTH, generator=generator, dtype=torch.double) + center
    noise = torch.randn(2, n, WIDTH, generator=generator, dtype=torch.double)
    u, v = torch.nn.functional.normalize(x + NOISE * noise, dim=2)
    return u, v


def measure(cell: Cell) -> Values:
    """Mean loss and its deviation over batches of n, all from the same samples."""
    loss, n = OBJECTIVES[cell["objective"]], cell["n"]
    u, v = draw_pairs(cell["samples"], cell.generator())
    pairs = zip(u.split(n), v.split(n), strict=True)
    losses = torch.stack([loss(a, b) for a, b in pairs])
    return {"loss": losses.mean().item(), "deviation": losses.std().item()}


def find_changes(rows: Rows, name: str) -> dict[int, Any]:
    """How much the mean loss differs from that at the largest batch, by batch."""
    by_size = rows.where(objective=name).by("n", "loss")
    last = by_size[max(by_size)]
    return {n: compare(losses, last) for n, losses in by_size.items()}


def judge(rows: Rows) -> Verdict:
    """KCL's mean loss may differ between batches by no more than chance explains."""
    kernel, usual = find_changes(rows, "KCL"), find_changes(rows, "InfoNCE")
    smallest, largest = min(kernel), max(kernel)
    kernel.pop(largest)
    worst = max(kernel, key=lambda n: abs(kernel[n].mean))
    change = kernel[worst]
    surely = change.is_above_zero or change.is_below_zero
    moved = abs(usual[smallest].mean)
    if surely and abs(change.mean) > 0.02 * moved:
        return Verdict(
            "does not hold",
            f"From batches of {worst} to {largest} KCL's mean loss changes by "
            f"{abs(change.mean):.3f}, beyond chance.",
        )
    if not change.half_width < 0.1 * moved:
        return Verdict(
            "not decided",
            f"KCL's mean loss is known only to within {change.half_width:.2g}.",
        )
    return Verdict(
        "holds",
        f"From batches of {largest} down to {smallest}, KCL's mean loss moves by "
        f"{abs(change.mean):.4f} at most (95 % interval {change.low:.3f} to "
        f"{change.high:.3f}), while that of InfoNCE moves by {moved:.2f}.",
    )


def draw(rows: Rows, figure: Figure) -> None:
    """Mean loss less that of the largest batch, by batch size."""
    axes = figure.subplots()
    for k, name in enumerate(dict.fromkeys(rows["objective"])):
        changes = find_changes(rows, name)
        means = [change.mean for change in changes.values()]
        axes.plot(list(changes), means, "o-", color=f"C{k}", label=name)
    axes.axhline(0, color="black", linewidth=1)
    mark_sizes(axes, rows["n"], "batch size")
    axes.set(ylabel="mean loss, less that of the largest batch")
    axes.legend(frameon=False)


ABOUT = About(
    where="section 6, proposition 6.2 (mechanism 3; next check 1)",
    says="The expected loss of KCL is the same for every batch size, down to 2 "
    "samples; that of InfoNCE is not.",
    run=f"The mean loss over batches of 2 to 256 of the same samples, whose "
    f"{WIDTH}-dimensional embeddings are drawn unevenly.",
    refuted_if="KCL's mean loss changes with the batch size beyond chance, by more "
    "than 2 % of what InfoNCE's changes by.",
    sizes=plan(
        objective=NAMES,
        tiny={"n": (4, 16), "samples": 32, "seeds": 2},
        quick={"n": (2, 4, 16, 64, 256), "samples": 2048, "seeds": 5},
        full={"n": (2, 4, 8, 16, 64, 256, 1024), "samples": 16384, "seeds": 10},
    ),
    columns={
        "objective": "objective",
        "batch size": "n",
        "mean loss": "loss",
        "deviation of one batch": "deviation",
    },
)

"""Exercise 1: 2N - 2 negatives per anchor, and a ceiling of log(2N - 1) nats."""

import math

import torch

from ... import nt_xent
from .._claim import About, Cell, Figure, Rows, Values, Verdict, grid
from .._figures import mark_sizes


def measure(cell: Cell) -> Values:
    """Rows that push the first anchor, and what a perfect classifier would show."""
    n = cell["n"]
    z = torch.randn(2, n, 32, generator=cell.generator(), dtype=torch.double)
    z.requires_grad_()
    losses = nt_xent(z[0], z[1], temperature=0.5, reduction="none")
    (gradient,) = torch.autograd.grad(losses.flatten()[0], z)
    touched = gradient.square().sum(2) > 0
    perfect = torch.eye(n, dtype=torch.double)
    loss = nt_xent(perfect, perfect, temperature=0.01).item()
    return {
        "negatives": touched.sum().item() - 2.0,  # but for the anchor and its partner
        "ceiling": math.log(2 * n - 1) - loss,
        "guess": nt_xent(torch.ones(n, 2), torch.ones(n, 2)).item(),
    }


def judge(rows: Rows) -> Verdict:
    """The counts must be 2N - 2, and guessing must cost log(2N - 1)."""
    wrong = [row for row in rows if row["negatives"] != 2 * row["n"] - 2]
    if wrong:
        row = wrong[0]
        return Verdict(
            "does not hold",
            f"With N = {row['n']}, {row['negatives']:.0f} rows push an anchor, not "
            f"{2 * row['n'] - 2}.",
        )
    off = max(abs(row["guess"] - math.log(2 * row["n"] - 1)) for row in rows)
    if off > 1e-4:
        return Verdict(
            "does not hold",
            f"Guessing costs up to {off:.2g} nats more or less than log(2N - 1).",
        )
    last = max(rows, key=lambda row: row["n"])
    return Verdict(
        "holds",
        f"For N = {', '.join(str(n) for n in dict.fromkeys(rows['n']))}, exactly "
        f"2N - 2 rows push an anchor and guessing costs log(2N - 1). At N = "
        f"{last['n']} a perfect classifier shows {last['ceiling']:.2f} nats "
        f"({last['ceiling'] / math.log(2):.2f} bits).",
    )


def draw(rows: Rows, figure: Figure) -> None:
    """Negatives and ceiling by batch size."""
    left, right = figure.subplots(1, 2)
    sizes = sorted(set(rows["n"]))
    for axes, y, law, words in (
        (left, "negatives", [2 * n - 2 for n in sizes], "2N - 2"),
        (right, "ceiling", [math.log(2 * n - 1) for n in sizes], "log(2N - 1)"),
    ):
        axes.plot(sizes, law, color="black", linewidth=1, label=words)
        axes.plot(rows["n"], rows[y], "o", alpha=0.6)
        mark_sizes(axes, sizes, "batch size N")
        axes.legend(frameon=False)
    left.set_yscale("log", base=2)
    left.set_ylabel("negatives of an anchor, counted")
    right.set_ylabel("information shown by a perfect classifier, nats")


ABOUT = About(
    where="exercise 1",
    says="The answer to the exercise: with a batch of N images and 2N views, each "
    "anchor of SimCLR has 2N - 2 negatives, and log(2N - 1) minus its loss is at most "
    "log(2N - 1) nats.",
    run="The rows with a nonzero gradient in one anchor's NT-Xent loss are counted. "
    "The loss of identical rows is the cost of guessing; that of orthogonal rows, "
    "whose partners are identical, gives the most that can be shown.",
    refuted_if="A different count, or a different cost of guessing.",
    sizes={
        "tiny": grid(n=(2, 16), seed=(0,)),
        "quick": grid(n=(2, 8, 32, 128, 512), seed=range(3)),
        "full": grid(n=(2, 8, 32, 128, 512, 2048), seed=range(5)),
    },
    columns={
        "images": "n",
        "negatives of an anchor": "negatives",
        "cost of guessing, nats": "guess",
        "most that is shown, nats": "ceiling",
    },
)

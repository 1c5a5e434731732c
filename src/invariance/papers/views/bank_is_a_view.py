"""What a row of the memory bank is: a weighted mean of past views, rescaled."""

import math

import torch
from torch.nn.functional import cosine_similarity, normalize

from ...negatives import Bank
from .._claim import About, Cell, Figure, Rows, Values, Verdict, grid
from .._figures import plot_values

WIDTH, VIEWS, ROWS = 32, 60, 64
SAME = 1e-4
SPREAD = 0.3  # of views around their image, per coordinate


def measure(cell: Cell) -> Values:
    """Equation 9 against the update of equation 7, and against a normalized bank."""
    momentum, generator = cell["momentum"], cell.generator()
    images = normalize(torch.randn(ROWS, WIDTH, generator=generator), dim=1)
    noise = torch.randn(VIEWS, ROWS, WIDTH, generator=generator) * SPREAD
    views = normalize(images + noise, dim=2)
    bank, ids = Bank(ROWS, WIDTH, momentum=momentum), torch.arange(ROWS)
    updated = views[0]  # so that nothing of a random start is left
    bank.remember(views[0], ids)
    for view in views[1:]:
        updated = momentum * updated + (1 - momentum) * view
        bank.remember(view, ids)
    weights = momentum ** torch.arange(VIEWS - 1, -1, -1.0)
    summed = (weights[:, None, None] * views).sum(0)
    return {
        "scale": (summed.norm(dim=1) / updated.norm(dim=1)).mean().item(),
        "predicted_scale": 1 / (1 - momentum),
        "length": updated.norm(dim=1).mean().item(),
        "cosine": cosine_similarity(summed, updated).mean().item(),
        "cosine_of_bank": cosine_similarity(summed, bank.z).mean().item(),
    }


def judge(rows: Rows) -> Verdict:
    """The sum has to be the updated row, in length as well."""
    error = max(abs(math.log(row["scale"])) for row in rows)
    worst = max(rows, key=lambda row: row["scale"])
    direction, of_bank = min(rows["cosine"]), min(rows["cosine_of_bank"])
    if error <= SAME and direction >= 1 - SAME:
        return Verdict("holds", "The sum is the updated row, in every case.")
    return Verdict(
        "formula is wrong",
        f"The sum is up to {worst['scale']:.1f} times as long as the row that the "
        f"update makes (at momentum {worst['momentum']:g}, where 1/(1 - momentum) is "
        f"{worst['predicted_scale']:.1f}). Its direction is right: its cosine with "
        f"that row is at least {direction:.3f}, and at least {of_bank:.3f} with the "
        "row of a bank that is kept at length 1. So a row is a mean of past views, as "
        "the paper says; the missing factor acts like a lower temperature.",
    )


def draw(rows: Rows, figure: Figure) -> None:
    """Lengths and directions by momentum."""
    left, right = figure.subplots(1, 2)
    labels = {
        "predicted_scale": "1 / (1 - momentum)",
        "scale": "length of the sum (equation 9)\nin rows (equation 7)",
    }
    plot_values(left, rows, x="momentum", lines=labels)
    left.get_lines()[-2].set_linestyle("--")  # it lies on the first
    left.set(xlabel="momentum", ylabel="times as long", yscale="log")
    labels = {"cosine_of_bank": "cosine with a normalized bank", "length": "length"}
    plot_values(right, rows, x="momentum", lines=labels)
    right.set(xlabel="momentum", ylabel="of the updated row", ylim=(0, 1.05))


ABOUT = About(
    where="equations 7 and 9",
    says="A row of the memory bank is the sum of past views of its image, the latest "
    "with weight 1, those before it with powers of the momentum.",
    run=f"{ROWS} rows, updated with {VIEWS} random views each by equation 7; the sum "
    "of equation 9 over the same views; and a bank of this library, which keeps rows "
    "at length 1.",
    refuted_if="A sum that differs from the updated row in length or direction.",
    sizes={
        "tiny": grid(momentum=(0.0, 0.5), seed=range(2)),
        "quick": grid(momentum=(0.0, 0.25, 0.5, 0.75, 0.9), seed=range(5)),
        "full": grid(momentum=(0.0, 0.25, 0.5, 0.75, 0.9, 0.95), seed=range(20)),
    },
    columns={
        "momentum": "momentum",
        "length of the sum, in rows": "scale",
        "1/(1 - momentum)": "predicted_scale",
        "cosine": "cosine",
        "cosine with a normalized bank": "cosine_of_bank",
    },
    correction=r"""
    Unroll $M \leftarrow \alpha M + (1-\alpha) f_t$ from the latest view backwards:
    $$M = (1-\alpha)\sum_{j\ge1}\alpha^{j-1} f_{t-j+1} + \alpha^t M_0.$$
    Equation 9 lacks the factor $1-\alpha$, without which the weights add up to
    $1/(1-\alpha)$ instead of 1. The mean of different views is also shorter than they
    are, so released code divides by the length after every update; then the weights are
    no longer exact powers, but the direction is nearly the same.
    """,
)

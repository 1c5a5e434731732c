"""What a low temperature does to the gradient: its length, and who it falls on."""

import torch

from .._claim import About, Cell, Figure, Rows, Values, Verdict, plan
from .._figures import plot_lines
from .._spread import Spread, compare
from ._views_on_sphere import draw_near, draw_unit_rows
from .gradient_sign import WIDTH, differentiate

NOISES = {"alike": 0.3, "far apart": 1.5}
HARDEST = 0.1


def measure(cell: Cell) -> Values:
    """The gradient's length, and the share of the hardest tenth of the negatives."""
    generator, n = cell.generator(), cell["n"]
    u = draw_unit_rows(n, WIDTH, generator)
    cosines = u @ draw_near(u, NOISES[cell["views"]], generator).mT
    gradient, _ = differentiate(cosines, cell["temperature"])
    negatives = ~torch.eye(n, dtype=torch.bool)
    push = gradient[negatives].view(n, n - 1)
    order = cosines[negatives].view(n, n - 1).argsort(1, descending=True)
    hardest = push.gather(1, order[:, : max(1, round(HARDEST * (n - 1)))])
    return {
        "length": float(gradient.norm(dim=1).mean()),
        "hard_share": float(hardest.sum() / push.sum()),
    }


def judge(rows: Rows) -> Verdict:
    """Focus and amplification, between the highest and the lowest temperature."""
    low, high = min(rows["temperature"]), max(rows["temperature"])
    focused, flat, amplified, sentences = [], [], [], []
    for views in dict.fromkeys(rows["views"]):
        cold, warm = (rows.where(views=views, temperature=t) for t in (low, high))
        shares, lengths = (
            compare(cold[value], warm[value]) for value in ("hard_share", "length")
        )
        focused.append(shares.low > HARDEST)  # at least their fair share more
        flat.append(shares.high <= HARDEST)
        amplified.append(lengths.is_above_zero)
        s0, s1 = (100 * Spread.of(part["hard_share"]).mean for part in (warm, cold))
        l0, l1 = (Spread.of(part["length"]).mean for part in (warm, cold))
        sentences.append(
            f"where views are {views}, the hardest tenth of the negatives get "
            f"{s0:.0f} % of the push at temperature {high:g} and {s1:.0f} % at "
            f"{low:g}, and the length of the gradient goes from {l0:.2g} to {l1:.2g}"
        )
    because = "; ".join(sentences)
    because = f"{because[0].upper()}{because[1:]}."
    if not all(focused):
        return Verdict("does not hold" if any(flat) else "not decided", because)
    if all(amplified):
        return Verdict("holds", because)
    return Verdict(
        "holds within limits",
        f"{because} A low temperature always focuses, but amplifies only where "
        "negatives still compete with the positive.",
    )


def draw(rows: Rows, figure: Figure) -> None:
    """Share of the hardest and length, by temperature."""
    left, right = figure.subplots(1, 2)
    plot_lines(left, rows, x="temperature", y="hard_share", by="views")
    left.axhline(HARDEST, color="black", linewidth=1)
    left.annotate("all negatives alike", (0.25, HARDEST - 0.05), fontsize=9)
    left.set(ylim=(0, 1.02), ylabel="share of the push on the hardest tenth")
    plot_lines(right, rows, x="temperature", y="length", by="views")
    right.set(yscale="log", ylabel="mean length of an anchor's gradient")
    for axes in (left, right):
        axes.set(xscale="log", xlabel="temperature")


ABOUT = About(
    where="sections 6.6 and 9",
    says="A lower temperature amplifies gradients and focuses them on hard negatives; "
    "a high one treats all negatives alike.",
    run=f"Gradients for random unit rows with {WIDTH} columns and two kinds of views: "
    "some nearly alike, others far apart.",
    refuted_if="A share of the hardest negatives that does not grow as the temperature "
    "falls.",
    sizes=plan(
        views=NOISES,
        temperature=(0.05, 0.07, 0.1, 0.2, 0.5, 1.0),
        tiny={"n": 32, "seeds": 2},
        quick={"n": 256, "seeds": 5},
        full={"n": 1024, "seeds": 20},
    ),
    columns={
        "views": "views",
        "temperature": "temperature",
        "share of the hardest tenth": "hard_share",
        "length": "length",
    },
    correction=r"""
    The factor $1/\tau$ is only half of it. The gradient to the positive is
    $(1-p)/\tau$, and where the positive is ahead of all negatives $1-p$ vanishes like
    $e^{-\Delta/\tau}$, with $\Delta$ the lead. So a low temperature amplifies the
    gradients of anchors that are still confused, and switches off the others.
    """,
)

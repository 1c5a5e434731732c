"""FlatNCE is InfoNCE without the positive in its sum: the same gradient.

That loss is DCL. Per anchor both are InfoNCE's gradient divided by 1 - p, where p is
the probability that InfoNCE gives to the right partner.
"""

import torch
from torch.nn.functional import cosine_similarity, normalize

from ...estimators import flat_nce_loss
from ...estimators import info_nce as info_nce_bound
from ...objectives import dcl, flat_nce, info_nce
from .._claim import About, Cell, Figure, Rows, Values, Verdict, plan
from .._figures import mark_batches, plot_lines
from ._made_scores import gradient, relative_error

WIDTH, TOLERANCE = 32, 1e-9
FLOOR = 1e-17  # where zero is drawn on a logarithmic axis


def measure(cell: Cell) -> Values:
    """Relative differences of gradients, in double precision."""
    n, generator = cell["n"], cell.generator()
    u, noise = torch.randn(2, n, WIDTH, generator=generator, dtype=torch.double)
    v = u + 0.7 * noise
    how = {"temperature": cell["temperature"]}
    flat = gradient(lambda u: flat_nce(u, v, negatives="cross", **how), u)
    decoupled = gradient(lambda u: dcl(u, v, negatives="cross", **how), u)
    with_positive = gradient(lambda u: info_nce(u, v, **how), u)
    scores = normalize(u, dim=1) @ normalize(v, dim=1).mT / cell["temperature"]
    mistake = scores.softmax(1).fill_diagonal_(0).sum(1)  # 1 - p, without rounding
    weighted = gradient(lambda s: -info_nce_bound(s), scores) / mistake[:, None]
    return {
        "from_dcl": relative_error(flat, decoupled),
        "from_weighted": relative_error(gradient(flat_nce_loss, scores), weighted),
        "cosine": cosine_similarity(flat.flatten(), with_positive.flatten(), 0).item(),
    }


def judge(rows: Rows) -> Verdict:
    """Equal up to rounding, in every cell."""
    worst = max(rows["from_dcl"])
    weighted = max(rows["from_weighted"])
    cosines = rows["cosine"]
    if max(worst, weighted) > TOLERANCE:
        return Verdict(
            "does not hold",
            f"The gradient differs by up to {worst:.1e} of its length from DCL's, and "
            f"by {weighted:.1e} from InfoNCE's with weights 1 / (1 - p).",
        )
    return Verdict(
        "holds",
        f"In all {len(rows)} batches the gradient equals DCL's, and InfoNCE's divided "
        f"by 1 - p for each anchor, to within {max(worst, weighted):.0e}. Because the "
        "anchors are weighted differently, the gradient of the whole batch turns: its "
        f"cosine with InfoNCE's is between {min(cosines):.2f} and "
        f"{max(cosines):.2f}.",
    )


def draw(rows: Rows, figure: Figure) -> None:
    """How far off each identity is, and what the weights do to the whole batch."""
    left, right = figure.subplots(1, 2)
    for name, label in (
        ("from_dcl", "DCL's"),
        ("from_weighted", "InfoNCE's / (1 - p)"),
    ):
        values = [max(value, FLOOR) for value in rows[name]]
        left.plot(rows["n"], values, "o", alpha=0.5, label=label)
    left.axhline(TOLERANCE, color="black", linewidth=1)
    left.annotate("equal to the last bit", (rows[0]["n"], 1.6 * FLOOR))
    left.annotate("counts as different", (rows[0]["n"], 1.5 * TOLERANCE))
    mark_batches(left, rows)
    left.set(yscale="log", ylim=(FLOOR / 3, 1e-6))
    left.set(ylabel="relative difference of gradients")
    left.legend(frameon=False, title="FlatNCE's gradient less")
    plot_lines(right, rows, x="n", y="cosine", by="temperature")
    mark_batches(right, rows)
    right.set(ylim=(None, 1.02))
    right.set(ylabel="cosine with InfoNCE's gradient, whole batch")


ABOUT = About(
    where="section 3, proposition S2",
    says="FlatNCE has the gradient of InfoNCE with the positive left out of the sum.",
    run=f"Random pairs of views in {WIDTH} dimensions, batches of 4 to 256 (1,024 at "
    "full size), three temperatures, double precision. FlatNCE's gradient is compared "
    "with that of DCL, which is InfoNCE without the positive, and with that of InfoNCE "
    "itself, divided for each anchor by the probability 1 - p of a mistake.",
    refuted_if=f"A relative difference of more than {TOLERANCE:g} in any batch.",
    sizes=plan(
        temperature=(0.05, 0.1, 0.5),
        tiny={"n": (4, 16), "seeds": 1},
        quick={"n": (4, 32, 256), "seeds": 3},
        full={"n": (4, 32, 256, 1024), "seeds": 10},
    ),
    columns={
        "temperature": "temperature",
        "batch size": "n",
        "difference from DCL": "from_dcl",
        "difference from InfoNCE / (1 - p)": "from_weighted",
        "cosine with InfoNCE": "cosine",
    },
)

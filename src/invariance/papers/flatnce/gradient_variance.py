"""InfoNCE's gradients vary more at a small batch, and more than FlatNCE's."""

from typing import Any

import torch

from ...diagnostics import gradient_signal_to_noise
from ...objectives import InfoNCE, flat_nce
from .._claim import EVERY_SIZE, About, Cell, Cells, Figure, Rows, Values, Verdict, grid
from .._figures import plot_lines
from .._spread import compare
from ._made_scores import draw_views

WIDTH, TEMPERATURE, SMALL, LARGE = 32, 0.1, 32, 512
NAMES = {"info_nce": "InfoNCE", "flat_nce": "FlatNCE"}


def score_flat(u: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    """FlatNCE with InfoNCE's negatives, so that only the weights differ."""
    return flat_nce(u, v, temperature=TEMPERATURE, negatives="cross")


def measure(cell: Cell) -> Values:
    """Noise over signal of the gradient of a linear layer, over batches."""
    n, noise = cell["batches"] * LARGE, cell["view_noise"]
    u, v = draw_views(n, WIDTH, noise, cell.generator())
    flat = cell["objective"] == "flat_nce"
    objective: Any = score_flat if flat else InfoNCE(temperature=TEMPERATURE)
    signal = gradient_signal_to_noise(u, v, objective, batch_size=cell["n"])
    return {"noise": 1 / max(signal, 1e-6)}


def judge(rows: Rows) -> Verdict:
    """At every noise of the views: small against large, and against FlatNCE."""
    smaller, calmer = {}, {}
    for level in dict.fromkeys(rows["view_noise"]):
        part = rows.where(view_noise=level)
        info = part.where(objective="info_nce").by("n", "noise")
        flat = part.where(objective="flat_nce").by("n", "noise")
        smaller[level] = compare(info[SMALL], info[LARGE])
        calmer[level] = compare(info[SMALL], flat[SMALL])
    saturated = min(calmer)
    least = rows.where(n=SMALL, view_noise=saturated).spreads("objective", "noise")
    most = rows.where(n=LARGE, view_noise=saturated).spreads("objective", "noise")
    because = (
        f"Where the views agree most, noise is {least['info_nce']} times the signal "
        f"for InfoNCE at batch {SMALL}, {most['info_nce']} at {LARGE}, and "
        f"{least['flat_nce']} for FlatNCE at {SMALL}"
    )
    if smaller[saturated].is_below_zero or calmer[saturated].is_below_zero:
        return Verdict("does not hold", f"{because}.")
    if not (smaller[saturated].is_above_zero and calmer[saturated].is_above_zero):
        return Verdict("not decided", f"{because}; these are within chance.")
    others = [level for level in calmer if not calmer[level].is_above_zero]
    if others:
        return Verdict(
            "holds within limits",
            f"{because}. With views that agree less (noise "
            f"{', '.join(f'{level:g}' for level in others)}), far from saturation, "
            "InfoNCE's gradient is not shown to be noisier than FlatNCE's.",
        )
    return Verdict(
        "holds",
        f"{because}. InfoNCE is also the noisier one at every other level of noise "
        "between the views.",
    )


def draw(rows: Rows, figure: Figure) -> None:
    """Noise over signal by the noise of the views, a panel per batch size."""
    panels = figure.subplots(1, 2, sharey=True)
    for axes, n in zip(panels, (SMALL, LARGE), strict=True):
        part = rows.where(n=n)
        plot_lines(axes, part, x="view_noise", y="noise", by="objective", labels=NAMES)
        axes.set(title=f"batch {n}", xlabel="noise between the views", yscale="log")
        axes.set_yticks([0.5, 1, 2, 5, 10], ["0.5", "1", "2", "5", "10"])
        axes.minorticks_off()
    panels[0].set(ylabel="noise over signal of the gradient")


def cells(levels: tuple[float, ...], batches: int, seeds: int) -> Cells:
    each = {"n": (SMALL, LARGE), "objective": NAMES, "seed": range(seeds)}
    return grid(view_noise=levels, batches=batches, **each)


ABOUT = About(
    where="figure 2",
    says="InfoNCE's gradients vary more at batch 32 than at 512, and at batch 32 more "
    "than FlatNCE's.",
    run=f"Random pairs of views in {WIDTH} dimensions, with several levels of noise "
    f"between the views, at temperature {TEMPERATURE:g}. The noise over signal of the "
    "gradient of a linear layer on top of the rows is read in float32 with the "
    "positive kept out of the sum, so that rounding plays no part. The paper's "
    "gradients are those of a ResNet.",
    refuted_if="At batch 32, where the views agree most, InfoNCE's gradient has less "
    "noise than FlatNCE's, or less than its own at 512.",
    sizes={
        "tiny": cells((0.5, 1.2), 2, 2),
        "quick": cells((0.3, 0.6, 1.2, 2.0), 8, 4),
        "full": cells((0.3, 0.5, 0.8, 1.2, 1.6, 2.0, 3.0), 40, 10),
    },
    toy=EVERY_SIZE,
    columns={
        "noise between views": "view_noise",
        "batch size": "n",
        "objective": "objective",
        "noise over signal": "noise",
    },
)

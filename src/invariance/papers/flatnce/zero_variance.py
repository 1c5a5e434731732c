"""FlatNCE's value is always 1, while its gradient is not always the same."""

import torch

from ...diagnostics import gradient_signal_to_noise
from ...objectives import OBJECTIVES
from .._claim import About, Cell, Figure, Rows, Values, Verdict, plan
from .._figures import mark_batches, plot_lines
from ._made_scores import draw_views

WIDTH, TEMPERATURE = 32, 0.1
NAMES = {"info_nce": "InfoNCE", "flat_nce": "FlatNCE"}


def measure(cell: Cell) -> Values:
    """Over batches: the deviation of the value, and the noise of the gradient."""
    n, generator = cell["n"], cell.generator()
    u, v = draw_views(n * cell["batches"], WIDTH, 1.0, generator)
    objective = OBJECTIVES[cell["objective"]](temperature=TEMPERATURE)
    batches = zip(u.split(n), v.split(n), strict=True)
    values = torch.stack([objective(*batch) for batch in batches])
    signal = gradient_signal_to_noise(u, v, objective, batch_size=n)
    return {
        "value": values.mean().item(),
        "deviation": values.std().item(),
        "noise": 1 / max(signal, 1e-6),
    }


def judge(rows: Rows) -> Verdict:
    """No deviation of the value beyond rounding, and a gradient that moves."""
    flat = rows.where(objective="flat_nce")
    value, noise = max(flat["deviation"]), min(flat["noise"])
    other = min(rows.where(objective="info_nce")["deviation"])
    if value > 1e-6 or noise < 1e-3:
        return Verdict(
            "does not hold",
            f"Over batches the value of FlatNCE deviates by up to {value:.2g}, and "
            f"the noise of its gradient is at least {noise:.2g} times the signal.",
        )
    return Verdict(
        "holds",
        f"Over batches the value of FlatNCE deviates by at most {value:.1g}, that of "
        f"InfoNCE by at least {other:.2g}; the noise of FlatNCE's gradient is at least "
        f"{noise:.2g} times its signal. So the value says nothing about the training: "
        "read the InfoNCE value of the same batch instead.",
    )


def draw(rows: Rows, figure: Figure) -> None:
    """Both deviations by batch size."""
    left, right = figure.subplots(1, 2)
    plot_lines(left, rows, x="n", y="deviation", by="objective", labels=NAMES)
    plot_lines(right, rows, x="n", y="noise", by="objective", labels=NAMES)
    left.set(ylabel="standard deviation of the value over batches")
    right.set(ylabel="noise over signal of the gradient", ylim=(0, None))
    for axes in (left, right):
        mark_batches(axes, rows)


ABOUT = About(
    where="section 3, equation 3 and footnote 3",
    says="The value of FlatNCE is 1 for any input and has no variance, but its "
    "gradient varies from batch to batch.",
    run=f"Random pairs of views in {WIDTH} dimensions at temperature {TEMPERATURE:g}. "
    "The value of each batch is read, and the gradient of a linear layer on top of the "
    "rows.",
    refuted_if="A value that deviates by more than rounding, or a gradient that is the "
    "same for all batches.",
    sizes=plan(
        objective=NAMES,
        tiny={"n": (8, 32), "batches": 10, "seeds": 1},
        quick={"n": (8, 32, 128, 512), "batches": 50, "seeds": 5},
        full={"n": (8, 32, 128, 512, 2048), "batches": 100, "seeds": 10},
    ),
    columns={
        "objective": "objective",
        "batch size": "n",
        "mean value": "value",
        "its deviation over batches": "deviation",
        "noise over signal of the gradient": "noise",
    },
)

"""How much accuracy depends on tau for InfoNCE and DHEL, and on t for KCL.

The factors are the same because tau and 1 / 2t are the same thing (see the correction).
The weight gamma has no counterpart in InfoNCE: it is varied as well, and not judged.
"""

from typing import Any

from .._claim import EVERY_SIZE, About, Cell, Figure, Rows, Values, Verdict
from .._figures import mark_sizes, plot_lines
from .._parts import expect_above, judge_parts
from .._small_runs import SMALLER, list_sizes, read_accuracy, train_small
from .._spread import Spread, compare

# method, what is varied, and its usual value
KINDS = {
    "InfoNCE, tau": ("info_nce", "temperature", 0.3),
    "DHEL, tau": ("dhel", "temperature", 0.3),
    "KCL, t": ("kcl", "t", 2.0),
    "KCL, gamma": ("kcl", "gamma", 4.0),
}
FACTORS = (0.25, 1.0, 4.0)
USUAL = "InfoNCE, tau"
LIKE = {  # what is set against it: the widths of the kernels
    "DHEL, tau": "DHEL depends less on tau",
    "KCL, t": "KCL depends less on t",
}


def measure(cell: Cell) -> Values:
    """Accuracy with the usual value times a factor."""
    method, name, usual = KINDS[cell["varied"]]
    value = usual * cell["factor"]
    settings: dict[str, Any] = (
        {"temperature": value} if name == "temperature" else {"options": {name: value}}
    )
    run = train_small(cell, method=method, **settings)
    return {"value": value, "accuracy": read_accuracy(cell, run)}


def find_ranges(rows: Rows) -> dict[str, list[float]]:
    """Best less worst accuracy of each objective, seed by seed."""
    ranges = {}
    for kind in dict.fromkeys(rows["varied"]):
        by_seed = rows.where(varied=kind).by("seed", "accuracy")
        ranges[kind] = [max(each) - min(each) for each in by_seed.values()]
    return ranges


def judge(rows: Rows) -> Verdict:
    """KCL and DHEL must move less than InfoNCE."""
    ranges = find_ranges(rows)
    factor = max(rows["factor"]) / min(rows["factor"])
    shown = ", ".join(f"{Spread.of(each)} ({kind})" for kind, each in ranges.items())
    return judge_parts(
        f"Best less worst accuracy in points over a factor of {factor:g}: {shown}.",
        *(
            expect_above(says, compare(ranges[USUAL], ranges[kind]))
            for kind, says in LIKE.items()
        ),
    )


def draw(rows: Rows, figure: Figure) -> None:
    """Accuracy by the factor on each hyperparameter."""
    axes = figure.subplots()
    plot_lines(axes, rows, x="factor", y="accuracy", by="varied")
    mark_sizes(axes, FACTORS, "factor on the usual value (tau 0.3, t 2, gamma 4)")
    axes.set(ylabel="kNN accuracy, %")


ABOUT = About(
    where="key results",
    says="KCL depends less on the width of its kernel, and DHEL less on its "
    "temperature, than InfoNCE on its temperature.",
    run="A quarter of the usual value, the value itself, and four times as much, for "
    "the temperature of InfoNCE and DHEL (0.3), and for t (2) and gamma (4) of KCL. "
    "The verdict compares tau with t, which is 1 / 2 tau; what gamma does is only "
    "shown, as InfoNCE has nothing like it. How far apart the best and the worst "
    "value are depends on where the usual ones lie, which were not tuned for these "
    f"data. {SMALLER}",
    refuted_if="Neither is shown to vary less, and accuracy with KCL's t or DHEL's tau "
    "varies more than with InfoNCE's tau, beyond chance.",
    sizes=list_sizes(
        varied=KINDS, factor=FACTORS, seeds=4, tiny={"factor": (1.0, 4.0)}
    ),
    toy=EVERY_SIZE,
    columns={
        "varied": "varied",
        "factor": "factor",
        "value": "value",
        "kNN accuracy, %": "accuracy",
    },
    correction=r"""
    KCL has no temperature, and of its hyperparameters only t may be set against one.
    Of unit rows the Gaussian kernel is
    $e^{-t\lVert x-y\rVert^2} = e^{-2t}\,e^{2t\,x\cdot y}$, which is InfoNCE's
    $e^{x\cdot y/\tau}$ with $\tau = 1/2t$, up to a constant: a factor on t is the
    inverse factor on $\tau$, and $\frac14$, 1 and 4 are the same three values for both.
    (The constant makes the push of KCL weaker as t grows, which is part of how KCL
    depends on t.) The weight $\gamma$ is a setting that InfoNCE does without. With
    $Z_i = \sum_j e^{s_{ij}}$ the push of InfoNCE is
    $\nabla\log Z_i = \nabla Z_i / Z_i$, that of KCL is $\gamma$ times a mean of
    $\nabla e^{s_{ij}}$. So the logarithm sets the weight by itself, for every anchor
    and at every step, such that the weights of all candidates add up to 1. Nothing in
    InfoNCE corresponds to a $\gamma$ four times too large, and comparing factors on
    $\gamma$ with factors on $\tau$ would be comparing different things.
    """,
)

"""How much accuracy depends on tau for InfoNCE and DHEL, and on gamma for KCL."""

from collections.abc import Mapping
from typing import Any

from .._claim import EVERY_SIZE, Cell, Claim, Figure, Rows, Verdict
from .._figures import mark_sizes, plot_lines
from .._small_runs import SMALLER, list_sizes, read_accuracy, train_small
from .._spread import Spread, compare

# method, what is varied, and its usual value
KINDS = {
    "InfoNCE, tau": ("info_nce", "temperature", 0.3),
    "DHEL, tau": ("dhel", "temperature", 0.3),
    "KCL, gamma": ("kcl", "gamma", 4.0),
}
FACTORS = (0.25, 1.0, 4.0)


def measure(cell: Cell) -> Mapping[str, Any]:
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
    usual = ranges.pop("InfoNCE, tau")
    less = {kind: compare(usual, each) for kind, each in ranges.items()}
    factor = max(rows["factor"]) / min(rows["factor"])
    numbers = f"Best less worst accuracy over a factor of {factor:g}: "
    numbers += f"{Spread.of(usual)} points (InfoNCE, tau), "
    numbers += ", ".join(f"{Spread.of(each)} ({kind})" for kind, each in ranges.items())
    if any(spread.is_below_zero for spread in less.values()):
        return Verdict("does not hold", f"{numbers}.")
    if all(spread.is_above_zero for spread in less.values()):
        return Verdict("holds", f"{numbers}.")
    if less["KCL, gamma"].is_above_zero:
        return Verdict(
            "holds within limits", f"{numbers}. The limit: this is so for KCL only."
        )
    return Verdict("not decided", f"{numbers}; the differences are within chance.")


def draw(rows: Rows, figure: Figure) -> None:
    """Accuracy by the factor on each hyperparameter."""
    axes = figure.subplots()
    plot_lines(axes, rows, x="factor", y="accuracy", by="varied")
    mark_sizes(axes, FACTORS, "factor on the usual value (tau 0.3, gamma 4)")
    axes.set(ylabel="kNN accuracy, %")


CLAIM = Claim(
    name="temperature_sensitivity",
    paper="dhel_kcl",
    where="key results",
    says="KCL, and DHEL too, depend less on their hyperparameters than InfoNCE depends "
    "on its temperature.",
    run="InfoNCE and DHEL with a quarter of the temperature 0.3, with 0.3 and with "
    f"four times as much; KCL with the same factors on gamma = 4. {SMALLER}",
    refuted_if="Accuracy of KCL or DHEL that varies more than that of InfoNCE, beyond "
    "chance.",
    sizes=list_sizes(varied=KINDS, factor=FACTORS, tiny={"factor": (1.0, 4.0)}),
    toy=EVERY_SIZE,
    measure=measure,
    judge=judge,
    draw=draw,
    columns={
        "varied": "varied",
        "factor": "factor",
        "value": "value",
        "kNN accuracy, %": "accuracy",
    },
)

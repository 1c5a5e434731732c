"""With the effective sample size held fixed, a moderate one learns best."""

from collections.abc import Iterable

from ...training import Ess
from .._claim import (
    BELOW_FULL,
    About,
    Cell,
    Figure,
    Row,
    Rows,
    Values,
    Verdict,
    plan,
)
from .._figures import plot_lines
from .._small_runs import SMALLER
from .._spread import compare
from ._cifar_study import CIFAR, take_rows, train_either

MODERATE = (0.15, 0.4)
REACHED = 0.1  # how near to its target a run must end
TARGETS = (0.05, 0.15, 0.3, 0.5, 0.8)
CODES = {"data": "codes", "batch": 32, "seeds": 1}


def measure(cell: Cell) -> Values:
    """Accuracy, and the ESS that was reached over the last tenth of training."""
    run, accuracy = train_either(
        cell,
        method="flatclr",
        batch_size=cell["batch"],
        ess=Ess(target=cell["target"]),
    )
    curve = run.curve("ess")
    tail = curve[-max(len(curve) // 10, 1) :]
    return {"accuracy": accuracy, "ess": sum(tail) / len(tail)}


def from_study(lines: Iterable[Values]) -> list[Row]:
    """The study's sweep of ESS targets on CIFAR-10, as full-size rows."""

    def take(line: Values) -> Values:
        return {"accuracy": line["held_out"]["linear"], "ess": line["ess"]}

    return take_rows(lines, "sweep", "ess", ABOUT.sizes["full"], take, target="knob")


def judge(rows: Rows) -> Verdict:
    """The best moderate target against the best lower and the best higher one."""
    means = {t: s.mean for t, s in rows.spreads("target", "accuracy").items()}
    missed = [r["target"] for r in rows if abs(r["ess"] - r["target"]) > REACHED]
    if missed:
        return Verdict(
            "not decided",
            f"{len(missed)} of {len(rows)} runs ended more than {REACHED:g} away from "
            f"their target ({', '.join(f'{t:g}' for t in dict.fromkeys(missed))}): "
            "they are too short to be held there.",
        )
    low, high = MODERATE
    sides = {
        "moderate": [t for t in means if low <= t <= high],
        "lower": [t for t in means if t < low],
        "higher": [t for t in means if t > high],
    }
    best = {
        side: max(targets, key=lambda t: means[t]) for side, targets in sides.items()
    }
    scores = rows.by("target", "accuracy")
    lead = {
        side: compare(scores[best["moderate"]], scores[best[side]])
        for side in ("lower", "higher")
    }
    because = (
        f"Held at {best['moderate']:g}, the best moderate target, FlatNCE reaches "
        f"{means[best['moderate']]:.1f} %. Against {best['lower']:g}, the best lower "
        f"target, that is {lead['lower']} points; against {best['higher']:g}, the best "
        f"higher one, {lead['higher']}."
    )
    if any(spread.is_below_zero for spread in lead.values()):
        return Verdict("does not hold", because)
    ahead = [spread.is_above_zero for spread in lead.values()]
    if all(ahead):
        return Verdict("holds", because)
    if any(ahead):
        side = "higher" if ahead[0] else "lower"
        return Verdict(
            "holds within limits", f"{because} The {side} one is within chance."
        )
    return Verdict("not decided", because)


def draw(rows: Rows, figure: Figure) -> None:
    """Accuracy by target, the paper's range marked."""
    axes = figure.subplots()
    axes.axvspan(*MODERATE, color="C2", alpha=0.15, linewidth=0)
    plot_lines(axes, rows, x="target", y="accuracy")
    axes.annotate("the paper's best range", (MODERATE[0], max(rows["accuracy"])))
    axes.set(xlabel="effective sample size held at", ylabel="accuracy, %")


ABOUT = About(
    where="section 4, section C, figure 7",
    says="With the effective sample size held fixed, FlatNCE learns best at a moderate "
    "one: 0.2 to 0.4 of the negatives by section 4, 0.15 to 0.4 by section C.",
    run="The temperature follows the target; targets from 0.15 to 0.4 count as "
    f"moderate. {SMALLER} The full size is for a GPU: CIFAR-10, ResNet-18, 30 epochs, "
    "or the finished rows of the study by batch size. The paper has 50 epochs of a "
    "ResNet on CIFAR-10.",
    refuted_if="A target outside the range beats all those inside, beyond chance.",
    sizes=plan(
        target=TARGETS,
        tiny={**CODES, "target": (0.05, 0.3, 0.8), "samples": 64, "epochs": 1},
        quick={**CODES, "samples": 2048, "epochs": 10, "seeds": 5},
        full={**CIFAR, "batch": 256, "epochs": 30, "seeds": 3},
    ),
    toy=BELOW_FULL,
    columns={
        "data": "data",
        "batch size": "batch",
        "target": "target",
        "ESS reached": "ess",
        "accuracy, %": "accuracy",
    },
)

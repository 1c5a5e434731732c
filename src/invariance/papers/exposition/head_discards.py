"""Which parameters of the augmentations z has lost that h still has."""

from ...runs import diagnose
from .._claim import EVERY_SIZE, About, Cell, Figure, Rows, Values, Verdict
from .._small_runs import (
    SHAPES,
    SHAPES_EPOCHS,
    SHAPES_SAMPLES,
    list_sizes,
    train_on_shapes,
)
from .._spread import Spread, compare

READABLE = 0.05  # R² from which on a parameter counts as read


def measure(cell: Cell) -> Values:
    """R² of a linear map from h and from z to what each augmentation drew."""
    run = train_on_shapes(cell)
    readings = diagnose(run.folder, pool=2 * cell["samples"], batch_size=32, keep=False)
    kept: dict[str, dict[str, float]] = {"h": {}, "z": {}}
    for reading in readings.readings:
        if reading.name == "augmentation kept":
            kept[reading.of][str(reading.augmentation)] = max(0.0, reading.value)
    means = {f"mean_{of}": sum(v.values()) / len(v) for of, v in kept.items()}
    return {**means, "from_h": kept["h"], "from_z": kept["z"]}


def read_parameters(rows: Rows) -> dict[str, tuple[list[float], list[float]]]:
    """R² from h and from z, per seed, of parameters that can be read off h."""
    both = {
        name: ([r["from_h"][name] for r in rows], [r["from_z"][name] for r in rows])
        for name in rows[0]["from_h"]
    }
    return {n: (h, z) for n, (h, z) in both.items() if Spread.of(h).mean > READABLE}


def judge(rows: Rows) -> Verdict:
    """Whether z keeps less than h, on average and of which parameters."""
    lost = compare(rows["mean_h"], rows["mean_z"])
    means = [Spread.of(rows[f"mean_{of}"]) for of in ("h", "z")]
    parts = read_parameters(rows)
    less = [n for n, (h, z) in parts.items() if compare(h, z).is_above_zero]
    more = [n for n, (h, z) in parts.items() if compare(h, z).is_below_zero]
    because = (
        f"On average a linear map reads {means[0]} of the variance of a parameter off "
        f"h and {means[1]} off z. Of the {len(parts)} parameters that can be read off "
        f"h, z has less, beyond chance, of {' and '.join(less) or 'none'}."
    )
    if lost.is_below_zero:
        return Verdict("does not hold", because)
    if not lost.is_above_zero:
        return Verdict("not decided", because)
    if more:
        return Verdict(
            "holds within limits", f"{because} It has more of {', '.join(more)}."
        )
    return Verdict("holds", because)


def draw(rows: Rows, figure: Figure) -> None:
    """A pair of bars per parameter."""
    axes = figure.subplots()
    names = sorted(
        rows[0]["from_h"], key=lambda n: -Spread.of([r["from_h"][n] for r in rows]).mean
    )
    for k, of in enumerate(("h", "z")):
        for place, name in enumerate(names):
            values = [row[f"from_{of}"][name] for row in rows]
            at, label = place + 0.4 * k - 0.2, of if place == 0 else None
            mean = Spread.of(values).mean
            axes.bar(at, mean, width=0.4, color=f"C{k}", alpha=0.6, label=label)
            axes.plot([at] * len(values), values, "k.", markersize=3)
    axes.set_xticks(range(len(names)), names, rotation=40, ha="right")
    axes.set(ylabel="R² of a linear map to the parameter")
    axes.legend(frameon=False, title="read off")


ABOUT = About(
    where="section 6.5",
    says="The projection head discards what is specific to the augmentations, while "
    "the features below it keep that.",
    run="SimCLR with a head of two layers. A linear map reads the parameters that each "
    f"augmentation drew off h and off z, on images that it was not fitted on. {SHAPES}",
    refuted_if="The parameters can be read off z as well as off h, or better.",
    sizes=list_sizes(seeds=4, samples=SHAPES_SAMPLES, epochs=SHAPES_EPOCHS),
    toy=EVERY_SIZE,
    columns={"mean R² from h": "mean_h", "from z": "mean_z"},
)

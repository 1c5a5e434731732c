"""Exercise 2: what the projection head discards of the color jitter."""

from ... import diagnose
from .._claim import EVERY_SIZE, About, Cell, Figure, Rows, Values, Verdict
from .._parts import expect_above, judge_parts
from .._small_runs import (
    SHAPES,
    SHAPES_EPOCHS,
    SHAPES_SAMPLES,
    list_sizes,
    train_on_shapes,
)
from .._spread import Spread, compare

COLORS = ("brightness", "contrast", "saturation", "hue")


def measure(cell: Cell) -> Values:
    """What a linear map reads off h and off z: colors of the view, and its class."""
    run = train_on_shapes(cell, method="simclr")
    readings = diagnose(
        run.folder, pool=min(1000, 2 * cell["samples"]), keep=False
    ).readings
    values: dict[str, float] = {}
    for of in ("h", "z"):
        mine = [r for r in readings if r.of == of]
        kept = {
            r.augmentation: max(r.value, 0.0)
            for r in mine
            if r.name == "augmentation kept" and r.augmentation in COLORS
        }
        values |= {f"{name}_{of}": value for name, value in kept.items()}
        values[f"colors_{of}"] = sum(kept.values()) / len(kept)
        (values[f"class_{of}"],) = (r.value for r in mine if r.name == "class kept")
    return values


def judge(rows: Rows) -> Verdict:
    """Colors of the view and the class must both be read better off h."""
    colors = compare(rows["colors_h"], rows["colors_z"])
    classes = compare(rows["class_h"], rows["class_z"])
    h, z = (Spread.of(rows[f"colors_{of}"]) for of in ("h", "z"))
    numbers = (
        f"A linear map reads {100 * h.mean:.0f} % of the variance of the color jitter "
        f"off h and {100 * z.mean:.0f} % off z. Off h it reads more by "
        f"{100 * colors.mean:.1f} points of that variance (95 % interval "
        f"{100 * colors.low:.1f} to {100 * colors.high:.1f}), and gets the class right "
        f"more often by {100 * classes.mean:.1f} points ({100 * classes.low:.1f} to "
        f"{100 * classes.high:.1f})."
    )
    return judge_parts(
        numbers,
        expect_above("colors are read better off h", colors),
        expect_above("classes are read better off h", classes),
    )


def draw(rows: Rows, figure: Figure) -> None:
    """What is read off h and z: each color, and the class."""
    axes = figure.subplots()
    names = [name for name in (*COLORS, "class") if f"{name}_h" in rows[0].values]
    for k, of in enumerate(("h", "z")):
        places = [i + 0.4 * k - 0.2 for i in range(len(names))]
        means = [Spread.of(rows[f"{name}_{of}"]).mean for name in names]
        label = {"h": "h, before the head", "z": "z, after it"}[of]
        axes.bar(places, means, width=0.36, color=f"C{k}", alpha=0.6, label=label)
        for place, name in zip(places, names, strict=True):
            axes.plot([place] * len(rows), rows[f"{name}_{of}"], "k.", markersize=4)
    axes.set_xticks(range(len(names)), names)
    axes.set(ylabel="share read by a linear map (R², accuracy)", ylim=(0, None))
    axes.legend(frameon=False)


ABOUT = About(
    where="exercise 2; SimCLR",
    says="Trained with color jitter, the head learns to discard the colors of a view, "
    "which the features below it still contain; so the features below the head serve "
    "better.",
    run="SimCLR with the views of the shapes, which include color jitter; then "
    "`invariance diagnose` says how much of each jitter, and of the class, a linear "
    f"map can read off h and off z of held-out views. {SHAPES}",
    refuted_if="Neither is shown to be read better off h, and colors or classes are "
    "read better off z, beyond chance.",
    sizes=list_sizes(seeds=4, samples=SHAPES_SAMPLES, epochs=SHAPES_EPOCHS),
    toy=EVERY_SIZE,
    columns={
        "colors kept in h": "colors_h",
        "colors kept in z": "colors_z",
        "class read off h": "class_h",
        "class read off z": "class_z",
    },
)

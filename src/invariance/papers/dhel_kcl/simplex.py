"""The best batch is a regular simplex, for every objective, if it fits."""

from ... import alignment, uniformity
from .._claim import About, Cell, Figure, Row, Rows, Values, Verdict, plan
from ._embedding_descent import (
    OBJECTIVES,
    SLACK,
    descend,
    distance_to_simplex,
    make_simplex,
    pair_cosines,
)

NEAR = 0.02  # a difference of cosines that counts as none
FITS, TIGHT, CROWDED = "8 in 12", "8 in 7", "8 in 3"
STARTS = {"related views": 0.5, "unrelated views": 10.0}
SHAPES = {FITS: (8, 12), TIGHT: (8, 7), CROWDED: (8, 3)}


def measure(cell: Cell) -> Values:
    """How far the minimum is from the simplex, and how its cosines lie."""
    n, d = SHAPES[cell["points"]]
    loss = OBJECTIVES[cell["objective"]]
    apart, steps = STARTS[cell["start"]], cell["steps"]
    u, v = descend(loss, n, d, generator=cell.generator(), steps=steps, apart=apart)
    return {
        "distance": distance_to_simplex(u),
        "alignment": alignment(u, v),
        "uniformity": uniformity(u),
        "loss": loss(u, v).item(),
        "simplex_loss": loss(*[make_simplex(n, d)] * 2).item() if d >= n - 1 else None,
        "cosines": [round(c, 5) for c in pair_cosines(u).tolist()],
    }


def judge(rows: Rows) -> Verdict:
    """Where it fits, the lowest loss of each objective must be at the simplex."""
    fitting = [p for p in SHAPES if p != CROWDED]
    for points in fitting:
        n, d = SHAPES[points]
        for name, row in find_best(rows.where(points=points)).items():
            if is_simplex(row):
                continue
            arrived = row["loss"] < row["simplex_loss"] + SLACK
            words = "goes as low" if arrived else "did not come as low as the simplex"
            return Verdict(
                "does not hold" if arrived else "not decided",
                f"The loss of {name} with {n} points in {d} dimensions {words} at "
                f"{row['distance']:.2f} away from the simplex in a cosine, with an "
                f"alignment of {row['alignment']:.2f}.",
            )
    starts = [row for row in rows if row["points"] in fitting]
    astray = [row for row in starts if not is_simplex(row)]
    crowd = find_best(rows.where(points=CROWDED))
    differ = max(
        abs(a - b)
        for one in crowd.values()
        for other in crowd.values()
        for a, b in zip(one["cosines"], other["cosines"], strict=True)
    )
    same = "agree on one arrangement" if differ < NEAR else "do not agree on any"
    apart = [f"'{name}'" for name, row in crowd.items() if row["alignment"] > NEAR]
    views = f"views of {', '.join(apart)} stay apart" if apart else "views coincide"
    beyond = (
        f"With more than d + 1 points there is no simplex: the objectives then {same} "
        f"(cosines differ by up to {differ:.2f}), and {views}."
    )
    if astray:
        names = ", ".join(dict.fromkeys(row["objective"] for row in astray))
        begun = " or ".join(dict.fromkeys(row["start"] for row in astray))
        return Verdict(
            "holds within limits",
            f"Each of the {len(crowd)} objectives has its lowest loss at aligned views "
            f"and a regular simplex. The limit: {len(astray)} of {len(starts)} starts "
            f"({names}, from {begun}) end in a worse arrangement. {beyond}",
        )
    farthest = max(row["distance"] for row in starts)
    return Verdict(
        "holds",
        f"All {len(starts)} starts of {len(crowd)} objectives end at aligned views and "
        f"a regular simplex, within {farthest:.1g} of every cosine. {beyond}",
    )


def is_simplex(row: Row) -> bool:
    """Whether views are aligned and samples at equal angles."""
    return max(row["distance"], row["alignment"]) < NEAR


def find_best(rows: Rows) -> dict[str, Row]:
    """The start with the smallest loss, for each objective."""
    return {
        name: min(rows.where(objective=name), key=lambda row: row["loss"])
        for name in dict.fromkeys(rows["objective"])
    }


def draw(rows: Rows, figure: Figure) -> None:
    """The cosines of the minimum that each objective found."""
    panels = figure.subplots(1, len(SHAPES), sharey=True)
    for axes, (points, (n, d)) in zip(panels, SHAPES.items(), strict=True):
        for k, (_, row) in enumerate(find_best(rows.where(points=points)).items()):
            cosines = row["cosines"]
            axes.plot(cosines, [k] * len(cosines), "o", color="C0", alpha=0.4)
        axes.axvline(-1 / (n - 1), color="black", linewidth=1)
        axes.set(title=f"{n} points, {d} dimensions", xlim=(-1.05, 1.05))
    names = list(dict.fromkeys(rows["objective"]))
    panels[0].set_yticks(range(len(names)), names)
    panels[1].set_xlabel("cosines of all pairs at the minimum (line: regular simplex)")


ABOUT = About(
    where="section 4 (mechanism 1)",
    says="The variants of InfoNCE, DHEL and KCL share one best batch: the two views of "
    "a sample coincide, and the samples form a regular simplex, if there are at most d "
    "+ 1 of them.",
    run="Gradient descent on the embeddings of 8 samples from random starts, with "
    "related or unrelated views, in 12, 7 and 3 dimensions; a simplex of 8 points "
    "needs 7.",
    refuted_if="An objective whose lowest loss in 7 or 12 dimensions is not at the "
    "simplex.",
    sizes=plan(
        objective=OBJECTIVES,
        points=SHAPES,
        start=STARTS,
        tiny={"steps": 2, "seeds": 1},
        quick={"steps": 200, "seeds": 5},
        full={"steps": 1000, "seeds": 50},
    ),
    columns={
        "objective": "objective",
        "points in dimensions": "points",
        "start": "start",
        "farthest cosine from the simplex": "distance",
        "alignment": "alignment",
        "uniformity": "uniformity",
    },
)

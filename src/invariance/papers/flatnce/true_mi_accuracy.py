"""Accuracy follows the information of a large pool, not that of mini-batches."""

from collections.abc import Iterable, Mapping
from typing import Any

import torch

from ...diagnostics import information_by_pool
from ...runs import diagnose_kept
from .._cell_training import train_in
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
from .._small_runs import SMALLER, score, see_pairs, train_small
from .._spread import Spread, compare, rank_correlation
from ._cifar_study import CIFAR, CIFAR_TRAINING, METHODS, take_rows

TEMPERATURE = 0.1
CODES = {"data": "codes"}
CIFAR_POOL = {**CIFAR, "pool": 10_000}
READINGS = {"pool_nats": "a large pool", "batch_nats": "mini-batches"}


def measure(cell: Cell) -> Values:
    """Information and accuracy at several epochs."""
    settings: dict[str, Any] = {"method": METHODS[cell["objective"]]}
    settings["batch_size"] = cell["batch"]
    if cell["data"] == "codes":
        return follow_codes(cell, settings)
    run = train_in(
        cell,
        protocols=(),
        epochs=cell["epochs"],
        keep_every=max(cell["epochs"] // 5, 1),
        **CIFAR_TRAINING,
        **settings,
    )
    kept = diagnose_kept(run.folder, protocols=["knn"], pool=cell["pool"], keep=False)
    return collect(kept, accuracy=[100 * row["knn"] for row in kept])


def follow_codes(cell: Cell, settings: Mapping[str, Any]) -> dict[str, list[float]]:
    """The readings after every epoch of a run on generated codes."""
    pairs, points = see_pairs(cell, cell["pool"]), []

    def read(epoch: int, learner: Any) -> Mapping[str, float]:
        learner.eval()
        with torch.no_grad():
            u, v = (learner.online(view) for view in pairs)
        information = information_by_pool(
            u, v, temperature=TEMPERATURE, batch_size=cell["batch"]
        )
        points.append(
            {
                "accuracy": round(score(cell, learner.encoder), 2),
                "pool_nats": information.pool_nats,
                "batch_nats": information.batch_nats,
            }
        )
        return {}

    train_small(cell, each_epoch=read, temperature=TEMPERATURE, **settings)
    return collect(points, accuracy=[point["accuracy"] for point in points])


def collect(
    points: Iterable[Mapping[str, Any]], accuracy: list[float]
) -> dict[str, list[float]]:
    """Lists of the readings beside that of accuracies."""
    points = list(points)
    readings = {name: [round(p[name], 4) for p in points] for name in READINGS}
    return {"accuracy": accuracy, **readings}


def from_study(lines: Iterable[Values]) -> list[Row]:
    """Curves of the final runs of the study on CIFAR-10, as full-size rows."""

    def take(line: Values) -> Values:
        return collect(line["curve"], [point["knn"] for point in line["curve"]])

    cells = ABOUT.sizes["full"]
    how = {"objective": "objective"}
    return take_rows(lines, "final", "fixed", cells, take, data=CIFAR_POOL, **how)


def join(rows: Rows, name: str) -> list[float]:
    """The lists of all rows as one."""
    return [value for values in rows[name] for value in values]


def judge(rows: Rows) -> Verdict:
    """Rank correlations with accuracy over all epochs of all runs of a seed."""
    correlations: dict[str, list[float]] = {name: [] for name in READINGS}
    for seed in dict.fromkeys(rows["seed"]):
        part = rows.where(seed=seed)
        for name, values in correlations.items():
            values.append(rank_correlation(join(part, name), join(part, "accuracy")))
    pool, batch = (Spread.of(values) for values in correlations.values())
    gap = compare(correlations["pool_nats"], correlations["batch_nats"])
    because = (
        f"Over {len(join(rows, 'accuracy'))} readings, accuracy has a rank correlation "
        f"of {pool} with the information in a large pool and of {batch} with that in "
        "mini-batches."
    )
    if pool.high < 0.3 or gap.is_below_zero:
        return Verdict("does not hold", because)
    if not pool.is_above_zero:
        return Verdict("not decided", because)
    if gap.is_above_zero and not batch.low > 0.3:
        return Verdict("holds", because)
    return Verdict(
        "holds within limits",
        f"{because} Accuracy follows the large pool, but "
        + (
            "it also follows the mini-batches."
            if batch.low > 0
            else "the mini-batches are not shown to do worse."
        ),
    )


def draw(rows: Rows, figure: Figure) -> None:
    """Accuracy against each of the two readings, a point per epoch."""
    panels = figure.subplots(1, 2, sharey=True)
    groups = list(dict.fromkeys(zip(rows["objective"], rows["batch"], strict=True)))
    for axes, (reading, label) in zip(panels, READINGS.items(), strict=True):
        for k, (objective, batch) in enumerate(groups):
            part = rows.where(objective=objective, batch=batch)
            x, y = join(part, reading), join(part, "accuracy")
            name = f"{objective}, batch {batch}"
            axes.plot(x, y, "o", color=f"C{k}", alpha=0.5, markersize=4, label=name)
        axes.set(xlabel=f"information of {label}, nats")
    panels[0].set(ylabel="kNN accuracy, %")
    panels[1].legend(frameon=False)


ABOUT = About(
    where="figures 5 and S1",
    says="Over training, accuracy rises with the true information that the views "
    "share, read with a large pool; with the mini-batch estimate it does not.",
    run="InfoNCE and FlatNCE at two batch sizes; after every epoch, the information in "
    f"mini-batches and in a pool of 2,048 held-out samples, and accuracy. {SMALLER} "
    "The full size is for a GPU: CIFAR-10 and ResNet-18, or the curves of the study by "
    "batch size. The paper has Pearson's correlation, 0.65; here it is a correlation "
    "of ranks.",
    refuted_if="The information in the pool does not go with accuracy, or goes with it "
    "less than that in mini-batches.",
    sizes=plan(
        objective=METHODS,
        tiny={**CODES, "samples": 64, "pool": 64, "batch": 16, "epochs": 1, "seeds": 1},
        quick={
            **CODES,
            "samples": 2048,
            "pool": 2048,
            "batch": (16, 64),
            "epochs": 8,
            "seeds": 4,
        },
        full={**CIFAR_POOL, "batch": (32, 256), "epochs": 100, "seeds": 3},
    ),
    toy=BELOW_FULL,
    columns={"data": "data", "objective": "objective", "batch size": "batch"},
)

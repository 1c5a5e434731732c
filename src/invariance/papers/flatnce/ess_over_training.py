"""Does the effective sample size fall with InfoNCE and climb with FlatNCE?"""

from collections.abc import Mapping
from typing import Any

from .._claim import EVERY_SIZE, Cell, Claim, Figure, Rows, Verdict
from .._small_runs import SMALLER, train_small
from .._spread import Spread, compare
from ._pair_training import OBJECTIVE_NAMES, train_on_pairs

BATCH, TEMPERATURE = 32, 0.1
METHODS = {"info_nce": "simclr", "flat_nce": "flatclr"}
PANELS = {"pairs": "generated pairs", "codes": "generated codes"}


def measure(cell: Cell) -> Mapping[str, Any]:
    """The ESS over training, from the end of its first twentieth on."""
    if cell["data"] == "pairs":
        curve = train_on_pairs(
            cell,
            cell["objective"],
            optimizer="Adam",
            rate=0.001,
            batch=BATCH,
            steps=cell["steps"],
            readings=min(cell["steps"], 20),
            pool=10,  # for the ESS of mini-batches
            temperature=TEMPERATURE,
        )["ess"]
    else:
        curve = train_small(
            cell,
            method=METHODS[cell["objective"]],
            batch_size=BATCH,
            temperature=TEMPERATURE,
        ).curve("ess")
    tail = max(len(curve) // 10, 1)
    start, end = curve[1 : 1 + tail], curve[-tail:]
    return {
        "start": sum(start) / len(start),
        "end": sum(end) / len(end),
        "curve": [round(value, 4) for value in curve],
    }


def judge(rows: Rows) -> Verdict:
    """On each kind of data: which way each of them goes, and which ends higher."""
    fits, against, shown = [], [], []
    for data in dict.fromkeys(rows["data"]):
        part = rows.where(data=data)
        info, flat = (part.where(objective=name) for name in OBJECTIVE_NAMES)
        falls = compare(info["end"], info["start"])
        climbs = compare(flat["end"], flat["start"])
        higher = compare(flat["end"], info["end"])
        fits.append(falls.high < 0 and climbs.low > 0 and higher.low > 0)
        against.append(climbs.high < 0 or falls.low > 0 or higher.high < 0.02)
        shown.append(
            f"on {PANELS[data]} the ESS goes from {Spread.of(info['start']).mean:.2f} "
            f"to {Spread.of(info['end']).mean:.2f} with InfoNCE and from "
            f"{Spread.of(flat['start']).mean:.2f} to "
            f"{Spread.of(flat['end']).mean:.2f} with FlatNCE"
        )
    because = "; ".join(shown)
    because = f"{because[0].upper()}{because[1:]}."
    if all(fits):
        return Verdict("holds", because)
    if all(against):
        return Verdict("does not hold", because)
    return Verdict("holds within limits" if any(fits) else "not decided", because)


def draw(rows: Rows, figure: Figure) -> None:
    """Every run's ESS over training, a panel per kind of data."""
    kinds = list(dict.fromkeys(rows["data"]))
    panels = figure.subplots(1, len(kinds), sharey=True, squeeze=False)[0]
    for axes, data in zip(panels, kinds, strict=True):
        for k, (objective, name) in enumerate(OBJECTIVE_NAMES.items()):
            part = rows.where(data=data, objective=objective)
            for n, row in enumerate(part):
                last = max(len(row["curve"]) - 1, 1)
                share = [step / last for step in range(len(row["curve"]))]
                label = name if n == 0 else None
                axes.plot(share, row["curve"], f"C{k}-", alpha=0.6, label=label)
        axes.set(title=PANELS[data], xlabel="share of training", ylim=(0, 1))
        axes.legend(frameon=False)
    panels[0].set(ylabel="effective sample size")


def cells(seeds: int, steps: int, samples: int, epochs: int) -> list[dict[str, Any]]:
    sizes: dict[str, dict[str, int]] = {
        "pairs": {"steps": steps},
        "codes": {"samples": samples, "epochs": epochs},
    }
    return [
        {"data": data, "objective": objective, **size, "seed": seed}
        for data, size in sizes.items()
        for objective in OBJECTIVE_NAMES
        for seed in range(seeds)
    ]


CLAIM = Claim(
    name="ess_over_training",
    paper="flatnce",
    where="figure 6",
    says="During training the effective sample size of the negatives falls with "
    "InfoNCE and climbs with FlatNCE, which thus draws on more of its negatives.",
    run=f"Both objectives at batch {BATCH} and temperature {TEMPERATURE:g}: a small "
    "network on generated pairs that share far more than log K, and SimCLR against "
    f"FlatCLR. {SMALLER} The paper has a ResNet on CIFAR-10, speaks of the best "
    "temperature, and divides by K instead of the number of negatives.",
    refuted_if="On both kinds of data, the ESS falls with FlatNCE or rises with "
    "InfoNCE, or ends with FlatNCE less than 0.02 above InfoNCE.",
    sizes={
        "tiny": cells(1, 2, 64, 1),
        "quick": cells(5, 800, 2048, 10),
        "full": cells(6, 6000, 8192, 30),
    },
    toy=EVERY_SIZE,
    measure=measure,
    judge=judge,
    draw=draw,
    columns={
        "data": "data",
        "objective": "objective",
        "ESS at the start": "start",
        "ESS at the end": "end",
    },
)

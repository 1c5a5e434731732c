"""Mini-batch estimates are tied at log K, while the true information differs.

Whether FlatNCE comes out ahead is asked with each objective's own learning rate: it
has longer gradients, so at one rate for both it takes longer steps.
"""

import math
from typing import Any

from .._claim import EVERY_SIZE, About, Cell, Cells, Figure, Rows, Values, Verdict, grid
from .._spread import Spread, compare
from ._pair_training import NATS, OBJECTIVE_NAMES, WIDTH, train_on_pairs

BATCH, TIED = 16, 0.05
CEILING = math.log(BATCH)
STEPS = (
    *(("SGD", rate) for rate in (0.001, 0.003, 0.01, 0.03)),
    ("Adam", 0.001),
)


def measure(cell: Cell) -> Values:
    """Curves of both estimates, and where they end."""
    curves = train_on_pairs(
        cell,
        cell["objective"],
        optimizer=cell["optimizer"],
        rate=cell["rate"],
        batch=BATCH,
        steps=cell["steps"],
        readings=cell["readings"],
        pool=cell["pool"],
    )
    half = cell["readings"] // 2
    return {
        "batch_nats": curves["batch_nats"][-1],
        "pool_nats": curves["pool_nats"][-1],
        "growth": curves["pool_nats"][-1] - curves["pool_nats"][half],
        "steps_read": curves["step"],
        "batch_curve": curves["batch_nats"],
        "pool_curve": curves["pool_nats"],
    }


def find_best(rows: Rows, objective: str, optimizer: str) -> Rows:
    """The runs at the rate that ends with the most information."""
    part = rows.where(objective=objective, optimizer=optimizer)
    ends = part.spreads("rate", "pool_nats")
    return part.where(rate=max(ends, key=lambda rate: ends[rate].mean))


def judge(rows: Rows) -> Verdict:
    """Mini-batches tied, the pool's estimate higher, and InfoNCE the one that stops?"""
    ahead: dict[str, Spread] = {}
    late: dict[str, list[float]] = {name: [] for name in OBJECTIVE_NAMES}
    apart: list[float] = []
    goes_on: list[bool] = []
    for optimizer in dict.fromkeys(rows["optimizer"]):
        info, flat = (find_best(rows, name, optimizer) for name in OBJECTIVE_NAMES)
        ahead[optimizer] = compare(flat["pool_nats"], info["pool_nats"])
        apart.append(abs(compare(flat["batch_nats"], info["batch_nats"]).mean))
        goes_on.append(compare(flat["growth"], info["growth"]).is_above_zero)
        late["info_nce"] += info["growth"]
        late["flat_nce"] += flat["growth"]
    shown = " and ".join(f"{spread} nats with {name}" for name, spread in ahead.items())
    because = (
        f"At batch {BATCH} the mini-batch estimates end within {max(apart):.3f} nats "
        f"of each other (log K is {CEILING:.2f}). In the large pool, with each "
        f"objective at the best learning rate tried, FlatNCE is ahead of InfoNCE by "
        f"{shown}. In the second half of training InfoNCE still gains "
        f"{Spread.of(late['info_nce'])} nats there, and FlatNCE "
        f"{Spread.of(late['flat_nce'])}."
    )
    if max(apart) > TIED or any(spread.is_below_zero for spread in ahead.values()):
        return Verdict("does not hold", because)
    decided = [name for name, spread in ahead.items() if spread.is_above_zero]
    if len(decided) == len(ahead) and all(goes_on):
        return Verdict("holds", because)
    if decided:
        limits = [
            *([] if len(decided) == len(ahead) else [f"ahead with {decided[0]} only"]),
            *([] if all(goes_on) else ["not shown to gain for longer than InfoNCE"]),
        ]
        return Verdict(
            "holds within limits",
            f"{because} The limit: FlatNCE is {', and '.join(limits)}.",
        )
    if all(spread.high < TIED for spread in ahead.values()):
        return Verdict("does not hold", because)
    return Verdict("not decided", because)


def draw(rows: Rows, figure: Figure) -> None:
    """Both estimates over training, a panel per optimizer."""
    optimizers = list(dict.fromkeys(rows["optimizer"]))
    panels = figure.subplots(1, len(optimizers), sharey=True, squeeze=False)[0]
    for axes, optimizer in zip(panels, optimizers, strict=True):
        for k, (objective, name) in enumerate(OBJECTIVE_NAMES.items()):
            best = find_best(rows, objective, optimizer)
            for row in best:
                axes.plot(row["steps_read"], row["pool_curve"], f"C{k}--", alpha=0.5)
                axes.plot(row["steps_read"], row["batch_curve"], f"C{k}-", alpha=0.5)
            axes.plot([], [], f"C{k}-", label=f"{name}, rate {best[0]['rate']:g}")
        axes.axhline(CEILING, color="black", linewidth=1, linestyle=":")
        last = rows[0]["steps_read"][-1]
        axes.annotate("log K", (last, CEILING), ha="right", va="bottom")
        axes.set(title=optimizer, xlabel="steps", ylim=(0, None))
        axes.legend(frameon=False, title="dashed: pool, solid: mini-batch")
    panels[0].set(ylabel="estimated information, nats")


def cells(
    seeds: int, steps: int, how: Any = STEPS, readings: int = 10, pool: int = 100
) -> Cells:
    size = {"steps": steps, "readings": readings, "pool": pool}
    return [
        {"optimizer": optimizer, "rate": rate, **size, **cell}
        for optimizer, rate in how
        for cell in grid(objective=OBJECTIVE_NAMES, seed=range(seeds))
    ]


ABOUT = About(
    where="section 2, figure 1",
    says="Once the mini-batch estimate reaches log K, InfoNCE stagnates; FlatNCE goes "
    "on and ends with more true information, at the same mini-batch estimate.",
    run=f"A small network trained on generated pairs in {WIDTH} dimensions that share "
    f"{NATS:g} nats, with batches of {BATCH} at temperature 0.1, with Adam, and with "
    "SGD at four learning rates of which each objective takes its best. The "
    "information in mini-batches and in a pool of 100 of them is read on pairs that "
    "are never trained on. The paper trains a ResNet on CIFAR-10.",
    refuted_if="The mini-batch estimates differ, or FlatNCE ends no higher in the "
    "pool.",
    sizes={
        "tiny": cells(1, 4, STEPS[3:], readings=2, pool=4),
        "quick": cells(4, 1000),
        "full": cells(8, 6000, (*STEPS, ("Adam", 0.0003), ("Adam", 0.003))),
    },
    toy=EVERY_SIZE,
    columns={
        "optimizer": "optimizer",
        "learning rate": "rate",
        "objective": "objective",
        "mini-batches, nats": "batch_nats",
        "pool, nats": "pool_nats",
        "pool, gain in the second half": "growth",
    },
)

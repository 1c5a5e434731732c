"""Does the effective sample size fall with InfoNCE and climb with FlatNCE?"""

from .._claim import EVERY_SIZE, About, Cell, Cells, Figure, Rows, Values, Verdict, grid
from .._small_runs import SMALLER, read_accuracy, train_small
from .._spread import Spread, compare
from ._pair_training import OBJECTIVE_NAMES, train_on_pairs

BATCH, TEMPERATURES = 32, (0.05, 0.1, 0.2)
METHODS = {"info_nce": "simclr", "flat_nce": "flatclr"}
PANELS = {"pairs": "generated pairs", "codes": "generated codes"}
BEST_BY = {"pairs": "pool_nats", "codes": "accuracy"}  # what a temperature is chosen by


def measure(cell: Cell) -> Values:
    """The ESS over training, from the end of its first twentieth on."""
    temperature = cell["temperature"]
    if cell["data"] == "pairs":
        curves = train_on_pairs(
            cell,
            cell["objective"],
            optimizer="Adam",
            rate=0.001,
            batch=BATCH,
            steps=cell["steps"],
            readings=min(cell["steps"], 20),
            temperature=temperature,
        )
        curve, worth = curves["ess"], curves["pool_nats"][-1]
    else:
        run = train_small(
            cell,
            method=METHODS[cell["objective"]],
            batch_size=BATCH,
            temperature=temperature,
        )
        curve, worth = run.curve("ess"), read_accuracy(cell, run)
    tail = max(len(curve) // 10, 1)
    start, end = curve[1 : 1 + tail], curve[-tail:]
    return {
        "start": sum(start) / len(start),
        "end": sum(end) / len(end),
        BEST_BY[cell["data"]]: worth,
        "curve": [round(value, 4) for value in curve],
    }


def find_best(rows: Rows, data: str, objective: str) -> Rows:
    """The runs at the temperature that this objective does best at on this data."""
    part = rows.where(data=data, objective=objective)
    worth = part.spreads("temperature", BEST_BY[data])
    return part.where(temperature=max(worth, key=lambda t: worth[t].mean))


def judge(rows: Rows) -> Verdict:
    """On each kind of data: which way each of them goes, and which ends higher."""
    fits, against, shown = [], [], []
    for data in dict.fromkeys(rows["data"]):
        info, flat = (find_best(rows, data, name) for name in OBJECTIVE_NAMES)
        falls = compare(info["end"], info["start"])
        climbs = compare(flat["end"], flat["start"])
        higher = compare(flat["end"], info["end"])
        fits.append(falls.high < 0 and climbs.low > 0 and higher.low > 0)
        against.append(climbs.high < 0 or falls.low > 0 or higher.high < 0.02)
        shown.append(
            f"on {PANELS[data]} the ESS goes {show_change(info)} with InfoNCE and "
            f"{show_change(flat)} with FlatNCE"
        )
    because = "; ".join(shown)
    because = f"{because[0].upper()}{because[1:]}."
    if all(fits):
        return Verdict("holds", because)
    if all(against):
        return Verdict("does not hold", because)
    return Verdict("holds within limits" if any(fits) else "not decided", because)


def show_change(rows: Rows) -> str:
    """Where the ESS starts and ends, and at which temperature."""
    start, end = (Spread.of(rows[name]).mean for name in ("start", "end"))
    temperature = rows[0]["temperature"]
    ends = {min(TEMPERATURES): ", the lowest", max(TEMPERATURES): ", the highest"}
    limit = ends.get(temperature, "")
    return f"from {start:.2f} to {end:.2f} (temperature {temperature:g}{limit})"


def draw(rows: Rows, figure: Figure) -> None:
    """Every run's ESS over training, a panel per kind of data."""
    kinds = list(dict.fromkeys(rows["data"]))
    panels = figure.subplots(1, len(kinds), sharey=True, squeeze=False)[0]
    for axes, data in zip(panels, kinds, strict=True):
        for k, (objective, name) in enumerate(OBJECTIVE_NAMES.items()):
            best = find_best(rows, data, objective)
            name = f"{name}, temperature {best[0]['temperature']:g}"
            for n, row in enumerate(best):
                last = max(len(row["curve"]) - 1, 1)
                share = [step / last for step in range(len(row["curve"]))]
                label = name if n == 0 else None
                axes.plot(share, row["curve"], f"C{k}-", alpha=0.6, label=label)
        axes.set(title=PANELS[data], xlabel="share of training", ylim=(0, 1))
        axes.legend(frameon=False)
    panels[0].set(ylabel="effective sample size")


def cells(seeds: int, steps: int, samples: int, epochs: int) -> Cells:
    each = grid(objective=OBJECTIVE_NAMES, temperature=TEMPERATURES, seed=range(seeds))
    return [
        {"data": data, **size, **cell}
        for data, size in (
            ("pairs", {"steps": steps}),
            ("codes", {"samples": samples, "epochs": epochs}),
        )
        for cell in each
    ]


ABOUT = About(
    where="figure 6",
    says="During training, each at its best temperature, the effective sample size of "
    "the negatives falls with InfoNCE and climbs with FlatNCE, which thus draws on "
    "more of its negatives.",
    run=f"Both objectives at batch {BATCH} and temperatures of 0.05, 0.1 and 0.2: a "
    "small network on generated pairs that share far more than log K, and SimCLR "
    "against FlatCLR on generated codes. Each objective is read at the temperature at "
    "which it ends best: with the most information in a pool of 100 mini-batches on "
    f"pairs, with the highest accuracy on codes. {SMALLER} The paper has a ResNet on "
    "CIFAR-10 and divides by K instead of the number of negatives.",
    refuted_if="On both kinds of data, the ESS falls with FlatNCE or rises with "
    "InfoNCE, or ends with FlatNCE less than 0.02 above InfoNCE.",
    sizes={
        "tiny": cells(1, 2, 64, 1),
        "quick": cells(4, 800, 2048, 10),
        "full": cells(6, 6000, 8192, 30),
    },
    toy=EVERY_SIZE,
    columns={
        "data": "data",
        "objective": "objective",
        "temperature": "temperature",
        "pool, nats": "pool_nats",
        "kNN accuracy, %": "accuracy",
        "ESS at the start": "start",
        "ESS at the end": "end",
    },
)

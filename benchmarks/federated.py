"""Federated averaging against the central run: clients, skew and local steps.

    python benchmarks/federated.py          # three seeds, some hours of a core

Every run is one of `invariance train` on 1,500 generated shapes. All rows but one cost
the same: each sample is seen as often as in the central run, whatever the number of
rounds. Runs are kept in --out, go on where they stopped and are not repeated; the table
goes to results/federated.md, the figure to docs/images/federated.png.
"""

import argparse
import tempfile
from itertools import combinations
from pathlib import Path
from statistics import fmean, stdev

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np

import invariance as inv
from invariance.folder import ENCODER, SCORES, TRAINED, read_record, read_rows

ROOT = Path(__file__).parents[1]
TABLE = ROOT / "benchmarks" / "results" / "federated.md"
FIGURE = ROOT / "docs" / "images" / "federated.png"
PASSES, SAMPLES, BATCH, TEMPERATURE = 32, 1500, 25, 0.2
QUARTER = "central, a quarter of the passes"  # as many steps as four even clients
UNTRAINED, RAW = "untrained encoder", "raw pixels"
ROWS: dict[str, inv.Federated] = {
    "central": inv.Federated(),
    QUARTER: inv.Federated(),
    "4 clients, even": inv.Federated(clients=4),
    "4 clients, skew 0.1": inv.Federated(clients=4, skew=0.1),
    "4 clients, even, 4 local epochs": inv.Federated(clients=4, local_epochs=4),
    "4 clients, skew 0.1, 4 local epochs": inv.Federated(
        clients=4, skew=0.1, local_epochs=4
    ),
    "10 clients, even": inv.Federated(clients=10),
    "4 clients, skew 0.1, half take part": inv.Federated(
        clients=4, skew=0.1, participation=0.5
    ),
}


def count_rounds(name: str) -> int:
    """Rounds in which each sample is seen as often as in the central run."""
    federated, passes = ROWS[name], PASSES // 4 if name == QUARTER else PASSES
    return round(passes / (federated.local_epochs or 1) / federated.participation)


def find_folder(name: str, seed: int, out: Path) -> Path:
    """Where a training is kept."""
    return out / f"{name.replace(' ', '_').replace(',', '')}-{seed}"


def run_one(name: str, seed: int, out: Path) -> Path:
    """The folder of one training, with its scores."""
    folder = find_folder(name, seed, out)
    if (folder / SCORES).exists():
        return folder
    settings = inv.Train(
        data="shapes",
        limit=SAMPLES,
        batch_size=BATCH,
        temperature=TEMPERATURE,
        epochs=count_rounds(name),
        federated=ROWS[name],
        seed=seed,
        knn_every=0,
        evaluate=False,
        name=folder.name,
        out=str(out),
        quiet=True,
    )
    if folder.exists():
        settings = inv.Train(resume=str(folder), quiet=True)
    if not (folder / ENCODER).exists():
        inv.train(settings)
    inv.evaluate(folder, protocols=["knn"], quiet=True)
    return folder


def pick(folder: Path, features: str = TRAINED) -> float:
    """The kNN accuracy of a run."""
    (value,) = [
        row["value"]
        for row in read_rows(folder / SCORES)
        if (row["protocol"], row["features"], row["metric"])
        == ("knn", features, "accuracy")
    ]
    return value


def show(values: list[float]) -> str:
    """Mean and standard deviation over seeds, in percent."""
    mean = f"{100 * fmean(values):.1f}"
    return mean if len(values) < 2 else f"{mean} ± {100 * stdev(values):.1f}"


def main() -> None:
    """Train, tabulate, draw."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--rows", nargs="+", default=list(ROWS), choices=list(ROWS))
    parser.add_argument("--out", type=Path, default=None)
    parser.add_argument(
        "--finished", action="store_true", help="only tabulate the runs that are there"
    )
    asked = parser.parse_args()
    out = asked.out or Path(tempfile.mkdtemp())
    runs: dict[str, list[Path]] = {name: [] for name in asked.rows}
    for seed in asked.seeds:  # all rows of a seed first: a part is a table, too
        for name in asked.rows:
            if not asked.finished or (find_folder(name, seed, out) / SCORES).exists():
                runs[name].append(run_one(name, seed, out))
    runs = {name: folders for name, folders in runs.items() if folders}
    if "central" in runs:
        write_table(runs)
    if {"central", "4 clients, even", "4 clients, skew 0.1"} <= runs.keys():
        draw_figure(runs)


def agreement_of(folder: Path) -> list[float]:
    """How far the clients went the same way, on average over rounds."""
    readings = read_record(folder).readings
    given = [r["federated/agreement"] for r in readings if "federated/agreement" in r]
    return [fmean(given)] if given else []


def count_steps(clients: list[dict], federated: inv.Federated) -> float:
    """Steps of a round's longest client, averaged over all draws of who takes part."""
    n = round(federated.participation * len(clients))
    steps = [client["steps"] for client in clients]
    return fmean(max(draw) for draw in combinations(steps, n))


def write_table(runs: dict[str, list[Path]]) -> None:
    """Results as a page."""
    first = runs["central"]
    lines = [
        "# Federated averaging against the central run",
        "",
        "`benchmarks/federated.py`: mean ± standard deviation over seeds, `simclr`, "
        f"encoder `tiny`, {SAMPLES:,} generated shapes of 10 classes, "
        f"batches of {BATCH}, temperature {TEMPERATURE}, AdamW, on a CPU; 1,000 test "
        f"images. Every row but the second central one sees each sample {PASSES} "
        "times (but for what does not fill a client's last batch); clients, split, "
        "weights and views change with the seed. Agreement is, of the trained weights, "
        "the square of the mean update over the mean square of the updates, averaged "
        "over rounds: 1 if all clients go the same way, one over their number if each "
        "goes its own. Steps in sequence are those that follow one another: clients "
        "work side by side, so a round has as many as its longest client takes; "
        "where half take part, that is the mean over the draws there are.",
        "",
        "| | seeds | rounds | steps in sequence | MB per round | agreement, % | "
        "kNN, % |",
        "|---|---:|---:|---:|---:|---:|---:|",
    ]
    for features in (RAW, UNTRAINED):
        score = show([pick(f, features) for f in first])
        lines.append(f"| {features} | {len(first)} | | | | | {score} |")
    for name, folders in runs.items():
        n_rounds = count_rounds(name)
        cells = ["", str(n_rounds * SAMPLES // BATCH), "", ""]
        if ROWS[name].asked:
            abouts = [read_record(folder).env["federated"] for folder in folders]
            steps = fmean(count_steps(a["clients"], ROWS[name]) for a in abouts)
            cells = [
                str(n_rounds),
                f"{n_rounds * steps:.0f}",
                f"{abouts[0]['bytes_per_round'] / 2**20:.1f}",
                show([x for f in folders for x in agreement_of(f)]),
            ]
        score = show([pick(f) for f in folders])
        lines.append(f"| {' | '.join([name, str(len(folders)), *cells, score])} |")
    TABLE.write_text("\n".join(lines) + "\n", encoding="utf-8")
    print("\n".join(lines))


def draw_figure(runs: dict[str, list[Path]]) -> None:
    """Accuracy by skew and local epochs, and the labels that clients have."""
    figure, (left, *right) = plt.subplots(
        1, 3, figsize=(10, 3.4), dpi=150, width_ratios=[1.3, 1, 1]
    )
    central = [100 * pick(f) for f in runs["central"]]
    untrained = [100 * pick(f, UNTRAINED) for f in runs["central"]]
    left.axhline(fmean(central), color="black", linewidth=1, label="central run")
    left.axhline(fmean(untrained), color="gray", linestyle=":", label=UNTRAINED)
    lines = {
        "1 local epoch": {"even": "4 clients, even", "0.1": "4 clients, skew 0.1"},
        "4 local epochs": {
            "even": "4 clients, even, 4 local epochs",
            "0.1": "4 clients, skew 0.1, 4 local epochs",
        },
    }
    places = {"even": 0, "0.1": 1}
    for label, splits in lines.items():
        names = {k: name for k, name in splits.items() if name in runs}
        if not names:
            continue
        values = [[100 * pick(f) for f in runs[n]] for n in names.values()]
        x = [places[skew] for skew in names]
        (line,) = left.plot(x, [fmean(v) for v in values], marker="o", label=label)
        for at, v in zip(x, values, strict=True):
            left.plot([at] * len(v), v, ".", color=line.get_color(), alpha=0.4)
    left.set_xticks(list(places.values()), list(places))
    left.set_xlabel("skew of 4 clients")
    left.set_ylabel("kNN accuracy, %")
    left.legend(frameon=False, fontsize=8, loc=(0.3, 0.1))
    left.spines[["top", "right"]].set_visible(False)
    for axes, split in zip(right, ("even", "skew 0.1"), strict=True):
        about = read_record(runs[f"4 clients, {split}"][0]).env["federated"]
        counts = np.array(about["labels"])
        bottom = np.zeros(len(counts))
        for k in range(counts.shape[1]):
            axes.bar(
                range(1, len(counts) + 1),
                counts[:, k],
                bottom=bottom,
                color=plt.get_cmap("tab10")(k),
                width=0.9,
            )
            bottom += counts[:, k]
        axes.set_title(split, fontsize=10)
        axes.set_xlabel("client")
        axes.set_ylabel("images, a color per class" if split == "even" else "")
        axes.spines[["top", "right"]].set_visible(False)
    figure.tight_layout()
    figure.savefig(FIGURE)


if __name__ == "__main__":
    main()

"""CPC on sequences with a known hidden state: probes and nats ahead beside the truth.

    python benchmarks/latent_walk.py                  # three seeds, some 5 minutes
    python benchmarks/latent_walk.py --methods cpc cpc_samples cpc_times --epochs 12

Every run is one of `invariance train`, with its own evaluation: probes of the last
context by the state at the end of a window, and how many nats a context shares with
the code of each later patch. Beside them stand the untrained encoder, raw values with
simple statistics, the best guess there is (the forward filter of the known chain), and
the information that there is. Runs are kept in --out and not repeated; the table goes
to results/latent_walk.md, the figure to docs/images/steps_ahead.png.
"""

import argparse
import tempfile
from pathlib import Path
from statistics import fmean, stdev

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import torch

import invariance as inv
from invariance.data import filter_states, information_ahead, load
from invariance.folder import TRAINED, read_rows

ROOT = Path(__file__).parents[1]
TABLE = ROOT / "benchmarks" / "results" / "latent_walk.md"
FIGURE = ROOT / "docs" / "images" / "steps_ahead.png"
UNTRAINED, PLAIN = "untrained encoder", "values and statistics"
STEPS, PATCH = 8, 8


def run_one(method: str, seed: int, epochs: int, out: Path) -> list[dict]:
    """The scores of one training."""
    folder = out / f"{method}-{epochs}-{seed}"
    if not (folder / "encoder.safetensors").exists():
        inv.train(
            inv.Train(
                data="latent_walk",
                method=method,
                epochs=epochs,
                batch_size=64,
                seed=seed,
                name=folder.name,
                out=str(out),
                quiet=True,
            )
        )
    return read_rows(folder / "evaluation.jsonl")


def pick(rows: list[dict], protocol: str, features: str, ahead: int | None = None):
    """One value of a run."""
    metric = "accuracy" if ahead is None else "nats"
    (value,) = [
        row["value"]
        for row in rows
        if (row["protocol"], row["features"], row["metric"])
        == (protocol, features, metric)
        and row["settings"].get("ahead") == ahead
    ]
    return value


def show(values: list[float], percent: bool = True) -> str:
    """Mean and standard deviation over seeds."""
    factor, digits = (100, 1) if percent else (1, 2)
    mean = f"{factor * fmean(values):.{digits}f}"
    if len(values) < 2:
        return mean
    return f"{mean} ± {factor * stdev(values):.{digits}f}"


def score_filter() -> float:
    """How often the likeliest state, by the known chain, is the one at the end."""
    test = load("latent_walk", split="test")
    (windows,) = test.batches([torch.arange(len(test))])
    guesses = filter_states(windows)[:, -1].argmax(1)
    return float((guesses == test.labels).double().mean())


def main() -> None:
    """Train, tabulate, draw."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--epochs", type=int, default=6)
    parser.add_argument("--methods", nargs="+", default=["cpc"])
    parser.add_argument("--out", type=Path, default=None)
    asked = parser.parse_args()
    out = asked.out or Path(tempfile.mkdtemp())
    runs = {
        method: [run_one(method, seed, asked.epochs, out) for seed in asked.seeds]
        for method in asked.methods
    }
    first = runs[asked.methods[0]]
    truth = information_ahead(STEPS, patch=PATCH, n=20_000)
    write_table(runs, first, truth, asked.epochs)
    draw_figure(runs, first, truth)


def write_table(runs, first, truth, epochs: int) -> None:
    """Results as a page."""
    columns = {
        PLAIN: (PLAIN, first),
        UNTRAINED: (UNTRAINED, first),
        **{method: (TRAINED, rows) for method, rows in runs.items()},
    }
    n = len(first)
    lines = [
        "# CPC on sequences with a known hidden state",
        "",
        f"`benchmarks/latent_walk.py`: mean ± standard deviation over {n} seeds, "
        f"{epochs} epochs of 4,000 windows (4 channels, 128 values) in batches of 64, "
        "encoder `cpc_small`, on a CPU; 1,000 test windows. The label is the hidden "
        "state at the end of a window (8 states).",
        "",
        "| | kNN, % | linear probe, % |",
        "|---|---|---|",
    ]
    for name, (features, rows) in columns.items():
        cells = [
            show([pick(r, protocol, features) for r in rows])
            for protocol in ("knn", "linear")
        ]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    best = f"{100 * score_filter():.1f}"
    lines += [f"| the best guess there is (forward filter) | {best} | {best} |", ""]
    lines += [
        "Nats between the context of a window's first 8 patches and the code of each "
        "later patch, a lower bound on average (held-out, 1,000 candidates, at most "
        "6.91), beside the information that there is:",
        "",
        "| patches ahead | " + " | ".join(str(k) for k in range(1, STEPS + 1)) + " |",
        "|---|" + "---|" * STEPS,
    ]
    for name, (features, rows) in columns.items():
        if name == PLAIN:
            continue
        cells = [
            show([pick(r, "steps_ahead", features, k) for r in rows], percent=False)
            for k in range(1, STEPS + 1)
        ]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    exact = [f"{nats:.2f}" for nats, _ in truth]
    lines.append(f"| there is | {' | '.join(exact)} |")
    TABLE.write_text("\n".join(lines) + "\n", encoding="utf-8")
    print("\n".join(lines))


def draw_figure(runs, first, truth) -> None:
    """Nats by steps ahead, beside the truth."""
    steps = range(1, STEPS + 1)
    figure, axes = plt.subplots(figsize=(6, 3.6), dpi=150)
    axes.plot(steps, [x for x, _ in truth], "k--", label="there is (known chain)")
    curves = {method: (TRAINED, rows) for method, rows in runs.items()}
    curves[UNTRAINED] = (UNTRAINED, first)
    for name, (features, rows) in curves.items():
        values = [[pick(r, "steps_ahead", features, k) for r in rows] for k in steps]
        means = [fmean(v) for v in values]
        (line,) = axes.plot(steps, means, marker="o", markersize=4, label=name)
        low, high = [min(v) for v in values], [max(v) for v in values]
        axes.fill_between(steps, low, high, color=line.get_color(), alpha=0.2)
    axes.axhline(0, color="gray", linewidth=0.8)
    axes.set_xlabel("patches ahead (8 values of time each)")
    axes.set_ylabel("nats")
    axes.legend(frameon=False)
    axes.spines[["top", "right"]].set_visible(False)
    figure.tight_layout()
    figure.savefig(FIGURE)


if __name__ == "__main__":
    main()

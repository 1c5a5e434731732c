"""Deep InfoMax, local against global, beside SimCLR, untrained and raw pixels.

    python benchmarks/deep_infomax.py                    # shapes, three seeds, a CPU
    python benchmarks/deep_infomax.py --data cifar10 --encoder resnet18 --limit 0 \\
        --image-size 0 --epochs 100 --protocols knn linear    # or a folder; on a GPU

Every run is one of `invariance train`, scored by `invariance evaluate`. All have the
same images, epochs, batches and optimizer. Runs are kept in --out and not repeated; the
table goes to results/deep_infomax.md, the figure to docs/images/deep_infomax.png.
"""

import argparse
import tempfile
from pathlib import Path
from statistics import fmean, stdev

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt

import invariance as inv
from invariance.folder import TRAINED, read_rows

ROOT = Path(__file__).parents[1]
TABLE = ROOT / "benchmarks" / "results" / "deep_infomax.md"
FIGURE = ROOT / "docs" / "images" / "deep_infomax.png"
ONE = {"n_views": 1, "views": "weak"}
ROWS = {
    "dim, local": {"method": "dim"},
    "dim, global": {"method": "dim", "options": {"which": "global"}},
    "dim, both": {"method": "dim", "options": {"which": "both"}},
    "dim, local, one view": {"method": "dim", **ONE},
    "dim, global, one view": {"method": "dim", "options": {"which": "global"}, **ONE},
    "dim_jsd, local": {"method": "dim_jsd"},
    "dim_dv, local": {"method": "dim_dv"},
    "simclr": {"method": "simclr"},
}
BASELINES = ("raw pixels", "untrained encoder")


def run_one(row: str, seed: int, asked: argparse.Namespace, out: Path) -> list[dict]:
    """The scores of one training."""
    name = f"{row.replace(', ', '-').replace(' ', '-')}-{seed}"
    folder = out / name
    if folder.exists() and not (folder / "encoder.safetensors").exists():
        inv.train(inv.Train(resume=str(folder), quiet=True))
    elif not folder.exists():
        inv.train(
            inv.Train(
                data=asked.data,
                limit=asked.limit or None,
                image_size=asked.image_size or None,
                encoder=asked.encoder,
                epochs=asked.epochs,
                batch_size=asked.batch_size,
                seed=seed,
                name=name,
                out=str(out),
                evaluate=False,
                knn_every=0,
                log_every=100,
                quiet=True,
                **ROWS[row],
            )
        )
    scores = folder / "evaluation.jsonl"
    if not scores.exists() or not read_rows(scores):
        inv.evaluate(folder, protocols=asked.protocols, quiet=True)
    return read_rows(scores)


def pick(rows: list[dict], protocol: str, features: str) -> float:
    """One accuracy of a run."""
    (value,) = [
        row["value"]
        for row in rows
        if (row["protocol"], row["features"], row["metric"])
        == (protocol, features, "accuracy")
    ]
    return 100 * value


def main() -> None:
    """Train, tabulate, draw."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", default="shapes")
    parser.add_argument("--encoder", default="tiny")
    parser.add_argument("--limit", type=int, default=3000, help="0 takes all images")
    parser.add_argument("--image-size", type=int, default=16, help="0: as it is")
    parser.add_argument("--epochs", type=int, default=8)
    parser.add_argument("--batch-size", type=int, default=128)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--rows", nargs="+", default=list(ROWS), choices=list(ROWS))
    parser.add_argument("--protocols", nargs="+", default=["knn"])
    parser.add_argument("--out", type=Path, default=None)
    asked = parser.parse_args()
    out = asked.out or Path(tempfile.mkdtemp())
    runs: dict[str, list[list[dict]]] = {row: [] for row in asked.rows}
    for seed in asked.seeds:
        for row in asked.rows:
            runs[row].append(run_one(row, seed, asked, out))
    values = {
        protocol: collect(runs, protocol) for protocol in asked.protocols
    }  # protocol -> row -> one accuracy per seed
    write_table(values, asked)
    draw_figure(values[asked.protocols[0]], asked)


def collect(runs: dict[str, list[list[dict]]], protocol: str) -> dict[str, list[float]]:
    """Accuracies by row, one per seed; the baselines first."""
    first = next(iter(runs.values()))
    return {
        **{name: [pick(r, protocol, name) for r in first] for name in BASELINES},
        **{
            row: [pick(r, protocol, TRAINED) for r in each]
            for row, each in runs.items()
        },
    }


def write_table(
    values: dict[str, dict[str, list[float]]], asked: argparse.Namespace
) -> None:
    """Results as a page."""
    n = f"{asked.limit:,}" if asked.limit else "all"
    size = f" at {asked.image_size} pixels" if asked.image_size else ""
    lines = [
        "# Deep InfoMax: local against global",
        "",
        f"`benchmarks/deep_infomax.py`: mean ± standard deviation over "
        f"{len(asked.seeds)} seeds, in percent; {asked.epochs} epochs of {n} images of "
        f"`{asked.data}`{size} in batches of {asked.batch_size}, encoder "
        f"`{asked.encoder}`, "
        'every row with the same optimizer; scored on the test part. "one view" '
        "compares parts of one weakly cropped view, as the paper does; the others "
        "compare a view's places with the summary of another view.",
        "",
        "| | " + " | ".join(values) + " |",
        "|---|" + "---|" * len(values),
    ]
    for row in next(iter(values.values())):
        cells = [show(by_row[row]) for by_row in values.values()]
        lines.append(f"| {row} | {' | '.join(cells)} |")
    TABLE.write_text("\n".join(lines) + "\n", encoding="utf-8")
    print("\n".join(lines))


def show(values: list[float]) -> str:
    """Mean and standard deviation over seeds."""
    spread = f" ± {stdev(values):.1f}" if len(values) > 1 else ""
    return f"{fmean(values):.1f}{spread}"


def draw_figure(values: dict[str, list[float]], asked: argparse.Namespace) -> None:
    """A bar per row, a dot per seed."""
    figure, axes = plt.subplots(figsize=(7, 0.4 * len(values) + 1))
    for place, (row, each) in enumerate(reversed(values.items())):
        color = "0.7" if row in BASELINES else "C0" if row.startswith("dim") else "C1"
        axes.barh(place, fmean(each), color=color, alpha=0.6)
        axes.plot(each, [place] * len(each), ".", color="black", markersize=4)
    axes.set_yticks(range(len(values)), list(reversed(values)))
    axes.set_xlabel(f"accuracy on {asked.data}, % (a dot per seed)")
    axes.spines[["top", "right"]].set_visible(False)
    figure.tight_layout()
    figure.savefig(FIGURE, dpi=130)


if __name__ == "__main__":
    main()

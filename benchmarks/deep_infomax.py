"""Deep InfoMax, local against global, beside SimCLR, untrained and raw pixels.

    python benchmarks/deep_infomax.py              # shapes, three seeds, hours of a CPU
    python benchmarks/deep_infomax.py --data cifar10 --encoder resnet18 --limit 0 \\
        --epochs 30 --batch-size 512 --rows "dim, local" "dim, global"        # a GPU

Every run is one of `invariance train`, scored by `invariance evaluate`. All have the
same images, epochs, batches and optimizer. Runs are kept in --out and not repeated; the
table of shapes goes to results/deep_infomax.md and its figure to
docs/images/deep_infomax.png, the table of other data to results/deep_infomax_DATA.md.
"""

import argparse
import tempfile
from pathlib import Path
from statistics import fmean, stdev

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt

import invariance as inv
from invariance.folder import ENCODER, SCORES, TRAINED, read_record, read_rows

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks" / "results"
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


def find_folder(row: str, seed: int, out: Path) -> Path:
    """Where a training is kept."""
    return out / f"{row.replace(', ', '-').replace(' ', '-')}-{seed}"


def run_one(row: str, seed: int, asked: argparse.Namespace, out: Path) -> Path:
    """The folder of one training, with its scores."""
    folder = find_folder(row, seed, out)
    if (folder / SCORES).exists():
        return folder
    settings = inv.Train(
        data=asked.data,
        limit=asked.limit or None,
        image_size=asked.image_size or None,
        encoder=asked.encoder,
        epochs=asked.epochs,
        batch_size=asked.batch_size,
        seed=seed,
        name=folder.name,
        out=str(out),
        evaluate=False,
        knn_every=0,
        log_every=100,
        quiet=True,
        **ROWS[row],
    )
    if folder.exists():
        settings = inv.Train(resume=str(folder), quiet=True)
    if not (folder / ENCODER).exists():
        inv.train(settings)
    inv.evaluate(folder, protocols=asked.protocols, quiet=True)
    return folder


def pick(folder: Path, protocol: str, features: str) -> float:
    """One accuracy of a run, in percent."""
    (value,) = [
        row["value"]
        for row in read_rows(folder / SCORES)
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
    parser.add_argument("--image-size", type=int, default=0, help="0: as it is")
    parser.add_argument("--epochs", type=int, default=40)
    parser.add_argument("--batch-size", type=int, default=128)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--rows", nargs="+", default=list(ROWS), choices=list(ROWS))
    parser.add_argument("--protocols", nargs="+", default=["knn", "linear"])
    parser.add_argument("--out", type=Path, default=None)
    parser.add_argument(
        "--finished", action="store_true", help="only tabulate the runs that are there"
    )
    asked = parser.parse_args()
    out = asked.out or Path(tempfile.mkdtemp())
    runs: dict[str, list[Path]] = {row: [] for row in asked.rows}
    for seed in asked.seeds:  # all rows of a seed first: a part is a table, too
        for row in asked.rows:
            if not asked.finished or (find_folder(row, seed, out) / SCORES).exists():
                runs[row].append(run_one(row, seed, asked, out))
    runs = {row: folders for row, folders in runs.items() if folders}
    if not runs:
        parser.error(f"no run in {out} has scores yet: leave out --finished.")
    values = {  # protocol -> row -> one accuracy per seed
        protocol: collect(runs, protocol) for protocol in asked.protocols
    }
    write_table(runs, values, Path(asked.data).name)
    if asked.data == "shapes":
        draw_figure(values[asked.protocols[0]])


def collect(runs: dict[str, list[Path]], protocol: str) -> dict[str, list[float]]:
    """Accuracies by row, one per seed; the baselines first."""
    first = next(iter(runs.values()))
    return {
        **{name: [pick(f, protocol, name) for f in first] for name in BASELINES},
        **{
            row: [pick(f, protocol, TRAINED) for f in folders]
            for row, folders in runs.items()
        },
    }


def write_table(
    runs: dict[str, list[Path]], values: dict[str, dict[str, list[float]]], data: str
) -> None:
    """Results as a page; what was asked for is read from the runs themselves."""
    folders = next(iter(runs.values()))
    run = read_record(folders[0])
    score = read_rows(folders[0] / SCORES)[0]
    lines = [
        f"# Deep InfoMax on {data}: local against global",
        "",
        f"`benchmarks/deep_infomax.py`: mean ± standard deviation over {len(folders)} "
        f"seeds, in percent; {run.config['epochs']} epochs of "
        f"{run.env['images']['n_train']:,} images of {run.env['used']['image_size']} "
        f"pixels in batches of {run.config['batch_size']}, encoder "
        f"`{run.config['encoder']}`, every row with the same optimizer; scored on "
        f"{score['n_test']:,} test images, by the labels of "
        f"{score['settings']['n_train']:,} training images. "
        '"one view" compares parts of one weakly '
        "cropped view, as the paper does; the other rows of `dim` compare the places "
        'of a view with the summary of another view. "finds its own" is how often '
        "an anchor had the highest score with its own partner, of all in the batch, "
        "at the end of training.",
        "",
        f"| | {' | '.join(values)} | finds its own |",
        "|---|" + "---:|" * (len(values) + 1),
    ]
    for row in next(iter(values.values())):
        cells = [show(by_row[row]) for by_row in values.values()]
        finds = [
            100 * read_record(folder).readings[-1]["accuracy"]
            for folder in runs.get(row, [])
        ]
        lines.append(f"| {' | '.join([row, *cells, show(finds)])} |")
    name = "deep_infomax" if data == "shapes" else f"deep_infomax_{data}"
    table = "\n".join(lines) + "\n"
    (RESULTS / f"{name}.md").write_text(table, encoding="utf-8")
    print(table)


def show(values: list[float]) -> str:
    """Mean and standard deviation over seeds; nothing of nothing."""
    if not values:
        return ""
    spread = f" ± {stdev(values):.1f}" if len(values) > 1 else ""
    return f"{fmean(values):.1f}{spread}"


def draw_figure(values: dict[str, list[float]]) -> None:
    """A bar per row, a dot per seed."""
    figure, axes = plt.subplots(figsize=(7, 0.4 * len(values) + 1))
    for place, (row, each) in enumerate(reversed(values.items())):
        color = "0.7" if row in BASELINES else "C0" if row.startswith("dim") else "C1"
        axes.barh(place, fmean(each), color=color, alpha=0.6)
        axes.plot(each, [place] * len(each), ".", color="black", markersize=4)
    axes.set_yticks(range(len(values)), list(reversed(values)))
    axes.set_xlabel("kNN accuracy on shapes, % (a dot per seed)")
    axes.spines[["top", "right"]].set_visible(False)
    figure.tight_layout()
    figure.savefig(FIGURE, dpi=130)


if __name__ == "__main__":
    main()

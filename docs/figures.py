"""Figures of the pages that show an idea, or a table that a benchmark has kept.

python docs/figures.py
"""

import re
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
from matplotlib.patches import Rectangle

IMAGES = Path(__file__).parent / "images"
RESULTS = Path(__file__).parents[1] / "benchmarks" / "results"


def draw_tiles(path: Path) -> None:
    """The score matrix in tiles: of two sets of rows, and of one with itself."""
    figure, both = plt.subplots(1, 2, figsize=(8, 3.8), dpi=130)
    titles = ("rows against columns", "rows against themselves")
    for axes, title in zip(both, titles, strict=True):
        symmetric = axes is both[1]
        draw_matrix(axes, symmetric)
        axes.set_title(title, fontsize=10)
        axes.set(xlim=(-0.3, 7.6), ylim=(-0.9, 6.6), aspect="equal")
        axes.axis("off")
    figure.tight_layout()
    figure.savefig(path)
    plt.close(figure)


def draw_matrix(
    axes, symmetric: bool, n: int = 6, now: tuple[int, int] = (2, 3)
) -> None:
    """Visited tiles light, the one that is held dark, and the sums beside them."""
    for row in range(n):
        for column in range(n):
            skipped = symmetric and column < row
            past = (row, column) < now and not skipped
            color = "C0" if past else "white"
            alpha = 0.25 if past else 1.0
            if (row, column) == now:
                color, alpha = "C1", 1.0
            place = (column, n - 1 - row)
            hatch = "////" if skipped else None
            axes.add_patch(
                Rectangle(
                    place,
                    1,
                    1,
                    facecolor=color,
                    alpha=alpha,
                    edgecolor="0.6",
                    hatch=hatch,
                )
            )
    axes.add_patch(Rectangle((n + 0.4, 0), 0.35, n, facecolor="C2", alpha=0.6))
    axes.text(
        n + 1.0, n / 2, "sums, one per row", rotation=270, va="center", fontsize=9
    )
    words = "blue: done   orange: held now"
    axes.text(0, -0.6, words + ("   hatched: never" if symmetric else ""), fontsize=8)


def draw_scarf(table: Path, path: Path) -> None:
    """Accuracy against the share of labels, a panel per set."""
    head, _, *rows = [
        [cell.strip() for cell in line.strip("|\n").split("|")]
        for line in table.read_text(encoding="utf-8").splitlines()
        if line.startswith("|")
    ]
    names = list(dict.fromkeys(row[0] for row in rows))
    figure, panels = plt.subplots(1, len(names), figsize=(8, 3), dpi=130, sharey=True)
    for axes, name in zip(panels, names, strict=True):
        own = [row for row in rows if row[0] == name]
        shares = [float(re.findall(r"[\d.]+", row[1])[-1]) for row in own]
        for k, method in enumerate(head[2:6]):
            cells = [re.findall(r"[\d.]+", row[2 + k]) for row in own]
            means, spreads = zip(*(map(float, cell) for cell in cells), strict=True)
            places = [share + 0.25 * (k - 1.5) for share in shares]  # side by side
            axes.errorbar(
                places,
                means,
                spreads,
                marker="o",
                markersize=4,
                linewidth=2 if method == "scarf" else 1,
                capsize=2,
                label=method,
            )
        axes.set_title(name, fontsize=10)
        axes.set_xticks(shares, [f"{share:g} %" for share in shares])
        axes.set_xlabel("labels", fontsize=9)
        axes.tick_params(labelsize=8)
        axes.spines[["top", "right"]].set_visible(False)
    panels[0].set_ylabel("test accuracy, %", fontsize=9)
    panels[-1].legend(frameon=False, fontsize=8, loc="lower right")
    figure.tight_layout()
    figure.savefig(path)
    plt.close(figure)


if __name__ == "__main__":
    draw_scarf(RESULTS / "scarf.md", IMAGES / "scarf.png")
    draw_tiles(IMAGES / "tiles.png")

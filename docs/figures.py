"""Figures of the pages that show an idea rather than a measurement.

python docs/figures.py
"""

from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
from matplotlib.patches import Rectangle

IMAGES = Path(__file__).parent / "images"


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


if __name__ == "__main__":
    draw_tiles(IMAGES / "tiles.png")

"""How much of a gradient rounding leaves, by how far partners are above strangers."""

from collections.abc import Container, Mapping

import torch

from .._claim import Cell, Figure, Rows
from .._figures import plot_lines
from ._made_scores import Loss, draw_scores, gradient, relative_error

N, BAD = 32, 0.1  # a tenth of the gradient is wrong
PRECISIONS = ("float16", "bfloat16", "float32")


def measure_error(cell: Cell, loss: Loss, exact: Loss) -> float:
    """Of a loss at rounded scores, against an exact one in double precision there."""
    scores = draw_scores(N, cell["gap"], cell.generator())
    rounded = scores.to(getattr(torch, cell["precision"]))
    truth = gradient(exact, rounded.double())
    return relative_error(gradient(loss, rounded), truth)


def plot_errors(
    figure: Figure, rows: Rows, ways: Mapping[str, str], dashed: Container[str] = ()
) -> None:
    """A panel per precision, and a line per way to compute; some may lie on others."""
    panels = figure.subplots(1, len(PRECISIONS), sharey=True)
    for axes, precision in zip(panels, PRECISIONS, strict=True):
        part = rows.where(precision=precision)
        plot_lines(axes, part, x="gap", y="error", by="way", labels=dict(ways))
        for way, line in zip(ways, axes.get_lines()[::2], strict=True):
            line.set_linestyle("--" if way in dashed else "-")
        axes.axhline(BAD, color="black", linewidth=1, linestyle=":")
        axes.set(title=precision, yscale="log", ylim=(1e-8, 2))
        axes.get_legend().remove()
    panels[0].set(ylabel="relative error of the gradient (1: useless)")
    panels[1].set(xlabel="logit of the partner above those of strangers")
    handles, labels = panels[0].get_legend_handles_labels()
    columns = 2 if len(ways) == 4 else 3
    figure.legend(
        handles, labels, loc="outside lower center", ncols=columns, frameon=False
    )

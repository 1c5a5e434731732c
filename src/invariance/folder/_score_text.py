"""A table of scores in words: measures down, kinds of features across.

With one value a cell shows its 95 % interval over the test images; with several, their
mean ± standard deviation: over runs where there are several, else over draws and seeds.
Runs of several settings are not averaged: each setting is a line below the measure.
"""

from collections.abc import Iterable, Sequence

from ..words import count
from ._scores import Row, split_by_data
from ._tabulate import Cell, Line, Scores, tabulate

FEW = 10  # test images, under which a score says next to nothing


def tabulate_by_data(rows: Iterable[Row]) -> list[tuple[Scores, list[Row]]]:
    """A table for each data set, with its rows."""
    groups = split_by_data(rows).items()
    return [(tabulate(about, data), about) for data, about in groups]


def make_score_table(scores: Scores) -> list[list[str]]:
    """The heading of the columns, then a row per measure, its name first."""
    return [
        [scores.data, *(_head(f, scores.lines) for f in scores.features)],
        *(
            [name, *(_render_cell(line, f) if line else "" for f in scores.features)]
            for name, line in _name_lines(scores.lines)
        ),
    ]


def explain_scores(scores: Scores, rows: Sequence[Row]) -> list[str]:
    """How to read the cells, and a warning where they say little."""
    n_test = scores.n_test or 0
    images = count(n_test, f"test {scores.word}")
    sentences = [f"{_legend(scores, rows)} {images}, held out."]
    if n_test < FEW:
        why = f"one of them moves an accuracy by {100 / max(n_test, 1):.0f} points"
        if not any(line.share for line in scores.lines):
            why = "one of them decides"
        sentences.append(
            f"So few test {scores.word}s (under {FEW}) say almost nothing: {why}."
        )
    return sentences


def _name_lines(lines: Sequence[Line]) -> list[tuple[str, Line | None]]:
    """What each line is called; a title over several settings has no line."""
    named: list[tuple[str, Line | None]] = []
    title = None
    for line in lines:
        name = ", ".join(filter(None, [line.name, line.detail]))
        if not line.setting:
            named.append((name, line))
            continue
        if (name, line.key) != title:
            named.append((name, None))
            title = (name, line.key)
        named.append((f"  {line.setting}", line))
    return named


def _head(features: str, lines: Sequence[Line]) -> str:
    """The heading of a column, with the epoch where the features are of another."""
    cells = [line.cells[features] for line in lines if features in line.cells]
    epochs = {cell.epoch for cell in cells}
    epoch = epochs.pop() if len(epochs) == 1 else None
    return features if epoch is None else f"{features} ({epoch})"


def _render_cell(line: Line, features: str) -> str:
    cell: Cell | None = line.cells.get(features)
    if cell is None:
        return "-"

    def show(value: float) -> str:
        return f"{100 * value:.1f}" if line.share else f"{value:.3f}"

    if cell.spread is not None:
        return f"{show(cell.mean)} ± {show(cell.spread)}"
    if cell.interval is None:
        return show(cell.mean)
    low, high = cell.interval
    between = "-" if low >= 0 else " to "
    return f"{show(cell.mean)} ({show(low)}{between}{show(high)})"


def _legend(scores: Scores, rows: Sequence[Row]) -> str:
    """How to read the cells."""
    n_runs = len({row.get("run") for row in rows})
    of = f"{n_runs} runs" if n_runs > 1 else "draws and seeds"
    if len({line.setting for line in scores.lines}) > 1:
        of = "the runs of a line, or over draws and seeds where it has only one"
    what = "Accuracies in percent"
    if any(line.metric == "r2" for line in scores.lines):
        what = "R² is 1 for perfect predictions and 0 for guessing the mean"
    cells = [cell for line in scores.lines for cell in line.cells.values()]
    signs = []
    if any(cell.spread is None and cell.interval is not None for cell in cells):
        signs.append(f"in brackets the 95 % interval over the test {scores.word}s")
    if any(cell.spread is not None for cell in cells):
        signs.append(f"± the standard deviation over {of}")
    return "; ".join(filter(None, [what, ", ".join(signs)])) + "."

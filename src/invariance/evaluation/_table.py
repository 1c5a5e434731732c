"""Rows of scores as plain text: measures down, kinds of features across.

With one value a cell shows its 95 % interval over the test images; with several, their
mean ± standard deviation: over runs where there are several, else over draws and seeds.
Runs of several settings are not averaged: each setting is a line below the measure.
"""

from collections.abc import Iterable, Sequence

from ..folder import Cell, Line, Row, Scores, split_by_data, tabulate

FEW = 10  # test images, under which a score says next to nothing


def render_scores(rows: Iterable[Row]) -> list[str]:
    """Lines to print, a block for each data set."""
    rows = list(rows)
    lines: list[str] = []
    for data, about in split_by_data(rows).items():
        lines += _render_block(tabulate(about, data), about)
    return lines


def _render_block(scores: Scores, rows: Sequence[Row]) -> list[str]:
    body = [
        (name, [_render_cell(line, f) if line else "" for f in scores.features])
        for name, line in _name_lines(scores.lines)
    ]
    heads = [_head(f, scores.lines) for f in scores.features]
    first = max(len(scores.data), *(len(name) for name, _ in body)) + 2
    widths = [
        max(len(head), *(len(cells[k]) for _, cells in body)) + 2
        for k, head in enumerate(heads)
    ]
    lines = [
        f"{name:<{first}}"
        + "".join(f"{cell:>{width}}" for cell, width in zip(cells, widths, strict=True))
        for name, cells in [(scores.data, heads), *body]
    ]
    n_test = scores.n_test or 0
    images = "test image" if n_test == 1 else "test images"
    lines = [line.rstrip() for line in lines]
    lines.append(
        f"{_legend(scores.lines, rows)} {n_test:,} {images}, never trained on."
    )
    if n_test < FEW:
        lines.append(
            f"So few test images (under {FEW}) tell next to nothing: one of them moves "
            f"an accuracy by {100 / max(n_test, 1):.0f} points."
        )
    return lines


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
    return f"{show(cell.mean)} ({show(low)}-{show(high)})"


def _legend(lines: Sequence[Line], rows: Sequence[Row]) -> str:
    """How to read the cells."""
    n_runs = len({row.get("run") for row in rows})
    of = f"{n_runs} runs" if n_runs > 1 else "draws and seeds"
    if len({line.setting for line in lines}) > 1:
        of = "the runs of a line, or draws and seeds where it has one"
    return (
        "Accuracies in per cent; in brackets the 95 % interval over the test images, "
        f"± the standard deviation over {of}."
    )

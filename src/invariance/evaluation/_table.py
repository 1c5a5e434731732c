"""Rows of scores as text or HTML: measures down, kinds of features across.

What stands in the cells is said by ``folder``.
"""

import itertools
import shutil
import textwrap
from collections.abc import Iterable, Sequence

from ..folder import Row, explain_scores, make_score_table, tabulate_by_data
from ..markup import Html, html_sentences, html_table

WIDE = 120  # columns, where there is no terminal to fit

TextRow = tuple[str, Sequence[str]]  # a name and its cells


def render_scores(rows: Iterable[Row]) -> list[str]:
    """Lines to print that fit the terminal, a block for each data set."""
    columns = shutil.get_terminal_size((WIDE, 24)).columns
    lines: list[str] = []
    for scores, about in tabulate_by_data(rows):
        table = make_score_table(scores)
        block = _align(table)
        if max(map(len, block)) > columns:
            block = _align(_fold(table, columns))
        legend, *more = explain_scores(scores, about)
        below = textwrap.wrap(legend, columns) if columns < WIDE else [legend]
        lines += [*block, *below, *more]
    return lines


def show_scores(rows: Iterable[Row]) -> Html:
    """The same for notebooks, a table for each data set."""
    parts = []
    for scores, about in tabulate_by_data(rows):
        (title, head), *body = make_score_table(scores)
        cells = [(name, *values) for name, values in body]
        parts.append(html_table(cells, (title, *head), numbers=True))
        parts.append(html_sentences(explain_scores(scores, about)))
    return Html("".join(parts))


def _align(table: Sequence[TextRow]) -> list[str]:
    """Names to the left, each column of cells to the right."""
    first = max(len(name) for name, _ in table) + 2
    widths = [
        max(map(len, column)) + 2 for column in zip(*(c for _, c in table), strict=True)
    ]
    return [
        f"{name:<{first}}{''.join(map(str.rjust, cells, widths))}".rstrip()
        for name, cells in table
    ]


def _fold(table: Sequence[TextRow], columns: int) -> list[TextRow]:
    """Each row on several lines: cells break at their first space, names anywhere."""
    rows = [(name, [cell.split(" ", 1) for cell in cells]) for name, cells in table]
    by_column = zip(*(cells for _, cells in rows), strict=True)
    taken = sum(2 + max(len(p) for cell in c for p in cell) for c in by_column)
    left = max(columns - taken - 2, 12)
    return [
        (line, list(parts))
        for name, cells in rows
        for line, *parts in itertools.zip_longest(
            textwrap.wrap(name, left, subsequent_indent="  "), *cells, fillvalue=""
        )
    ]

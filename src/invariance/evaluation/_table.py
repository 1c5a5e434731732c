"""Rows of scores as text or HTML: measures down, kinds of features across.

What stands in the cells is said by ``folder``.
"""

import itertools
import shutil
import textwrap
from collections.abc import Iterable, Sequence

from ..folder import Row, explain_scores, make_score_table, tabulate_by_data
from ..markup import Html, html_sentences, html_table
from ..words import align

WIDE = 120  # columns, where there is no terminal to fit


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
        head, *body = make_score_table(scores)
        parts.append(html_table(body, head, numbers=True))
        parts.append(html_sentences(explain_scores(scores, about)))
    return Html("".join(parts))


def _align(table: Sequence[Sequence[str]]) -> list[str]:
    """Names stand a little apart from the cells."""
    return align([[f"{name}  ", *cells] for name, *cells in table])


def _fold(table: Sequence[Sequence[str]], columns: int) -> list[list[str]]:
    """Each row on several lines: cells break at their first space, names anywhere."""
    rows = [(name, [cell.split(" ", 1) for cell in cells]) for name, *cells in table]
    by_column = zip(*(cells for _, cells in rows), strict=True)
    taken = sum(2 + max(len(p) for cell in c for p in cell) for c in by_column)
    left = max(columns - taken - 2, 12)
    return [
        list(line)
        for name, cells in rows
        for line in itertools.zip_longest(
            textwrap.wrap(name, left, subsequent_indent="  "), *cells, fillvalue=""
        )
    ]

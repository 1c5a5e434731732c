"""Rows of an evaluation as a table: means, spreads, intervals, order."""

import pytest

from invariance.report._scores import tabulated

from .conftest import score, scores
from .test_report import Reader


def draws(*values, **changes):
    few = {"share": 0.01, "n_labels": 60}
    return [
        score(
            "trained encoder",
            value,
            "few_labels_linear",
            seed=k,
            settings=few | {"draw": k, "l2": 0.1 * k},
            **changes,
        )
        for k, value in enumerate(values)
    ]


def test_draws_are_one_cell_with_mean_and_spread():
    (line,) = tabulated(draws(0.5, 0.6, 0.7)).lines
    cell = line.cells["trained encoder"]
    assert cell.mean == pytest.approx(0.6) and cell.spread == pytest.approx(0.1)
    assert cell.interval is None


def test_draws_on_the_page(page):
    read = Reader(page(evaluation=scores() + draws(0.5, 0.6, 0.7)))
    assert "60.0 ± 10.0 %" in read.text and "3 draws" in read.text
    assert "60 labels, 1 % of them" in read.text
    assert "standard deviation over draws or seeds" in read.text


def test_a_later_line_replaces_an_earlier_one():
    old, new = score("trained encoder", 0.5), score("trained encoder", 0.6)
    (line,) = tabulated([old, new]).lines
    assert line.cells["trained encoder"].values == (0.6,)


def test_shares_of_labels_and_data_sets_are_lines_of_their_own():
    rows = draws(0.5, 0.6)
    rows += [row | {"settings": {"share": 0.1}} for row in rows]
    rows += [score("trained encoder", 0.4, data="cifar10")]
    rows += [score("trained encoder", 0.9, "knn")]
    found = [(line.protocol, line.data) for line in tabulated(rows).lines]
    few = ("few_labels_linear", "shapes")
    assert found == [("knn", "shapes"), few, few, ("linear", "cifar10")]


def test_features_stand_in_one_order_and_gaps_are_said(page):
    rows = [score("best epoch", 0.7), *scores(), score("my own", 0.1, "knn")]
    found = tabulated(rows)
    assert found.features == [
        *("raw pixels", "untrained encoder", "trained encoder", "best epoch"),
        "my own",
    ]
    text = page(evaluation=rows)
    assert text.count('aria-label="not measured"') == 2
    assert "none was chosen by its score" not in text
    assert "none was chosen by its score" in page(name="b")


def test_scores_that_are_no_shares(page):
    rows = [*scores(), score("trained encoder", 0.842, "clustering", metric="nmi")]
    read = Reader(page(evaluation=rows))
    assert "0.842" in read.text and "NMI" in read.text

"""Rows of an evaluation as a table: means, spreads, intervals, order."""

import pytest
from tests.made_runs import score, scores

from invariance.folder import tabulate


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
    (line,) = tabulate(draws(0.5, 0.6, 0.7)).lines
    cell = line.cells["trained encoder"]
    assert cell.mean == pytest.approx(0.6) and cell.spread == pytest.approx(0.1)
    assert cell.interval is None


def test_a_later_line_replaces_an_earlier_one():
    old, new = score("trained encoder", 0.5), score("trained encoder", 0.6)
    (line,) = tabulate([old, new]).lines
    assert line.cells["trained encoder"].values == (0.6,)


@pytest.mark.parametrize("first", [{}, {"step": 100}, {"epoch": 3}])
def test_scores_of_an_earlier_encoder_are_not_averaged_with_later_ones(first):
    rows = [*draws(0.5, 0.6, 0.7, **first), *draws(0.9, step=200)]
    (line,) = tabulate(rows).lines
    assert line.cells["trained encoder"].values == (0.9,)
    (line,) = tabulate([*rows, *draws(0.9, 0.8, step=200)]).lines
    assert line.cells["trained encoder"].values == (0.9, 0.8)


def test_shares_of_labels_and_data_sets_are_lines_of_their_own():
    rows = draws(0.5, 0.6)
    rows += [row | {"settings": {"share": 0.1}} for row in rows]
    rows += [score("trained encoder", 0.4, data="cifar10")]
    rows += [score("trained encoder", 0.9, "knn")]
    found = [(line.protocol, line.data) for line in tabulate(rows).lines]
    few = ("few_labels_linear", "shapes")
    assert found == [("knn", "shapes"), few, few, ("linear", "cifar10")]


def test_the_settings_of_one_measure_stand_together():
    rows = [
        score("trained encoder", 0.5, "knn", metric=metric, setting=s, run=s)
        for s in ("lr 0.1", "lr 0.2")
        for metric in ("accuracy", "top5")
    ]
    lines = [(line.metric, line.setting) for line in tabulate(rows).lines]
    assert lines == [
        ("accuracy", "lr 0.1"),
        ("accuracy", "lr 0.2"),
        ("top5", "lr 0.1"),
        ("top5", "lr 0.2"),
    ]


def test_features_stand_in_one_order():
    rows = [score("best epoch", 0.7), *scores(), score("my own", 0.1, "knn")]
    found = tabulate(rows)
    assert found.features == [
        *("raw pixels", "untrained encoder", "trained encoder", "best epoch"),
        "my own",
    ]


def test_other_limits_are_lines_of_their_own_and_never_averaged():
    whole = score("trained encoder", 0.6)
    part = score("trained encoder", 0.4, settings={"l2": 0.1, "limit": 40})
    table = tabulate([whole, part])
    assert [line.cells["trained encoder"].values for line in table.lines] == [
        (0.6,),
        (0.4,),
    ]
    assert table.lines[1].detail == "fitted on at most 40 images"
    assert table.cell("trained encoder", "linear").values == (0.6,)


def test_settings_that_tell_lines_apart_are_shown():
    rows = [
        score("trained encoder", 0.5, "fine_tune", settings={"epochs": n, "lr": 0.1})
        for n in (5, 20)
    ]
    assert [line.detail for line in tabulate(rows).lines] == ["epochs 5", "epochs 20"]


def test_several_runs_are_averaged_run_by_run():
    rows = [row | {"run": "a"} for row in draws(0.4, 0.6)]
    rows += [row | {"run": "b"} for row in draws(0.7, 0.9)]
    (line,) = tabulate(rows).lines
    cell = line.cells["trained encoder"]
    assert cell.values == pytest.approx((0.5, 0.8)) and cell.repeated == "run"


def test_images_are_counted_where_their_captions_are_more():
    ways = [("image to caption recall@1", 5), ("caption to image recall@1", 15)]
    rows = [
        score("trained encoder", 0.5, "pairs", metric=way, n_test=n)
        | {"settings": {"n_first": 5, "n_other": 15}}
        for way, n in ways
    ]
    assert tabulate(rows).n_test == 5

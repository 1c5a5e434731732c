"""The table of a run: what it means, that it fits, and that the log has it too."""

import json
from statistics import fmean

import pytest

from invariance.training import train


@pytest.fixture
def shown(small, pictures, capsys, monkeypatch):
    """What a run printed, on a terminal of so many columns or into a file."""
    monkeypatch.setenv("CI", "true")  # no live line

    def show(columns=None, *, terminal=True):
        if columns:
            monkeypatch.setenv("COLUMNS", str(columns))
        if columns and terminal:
            monkeypatch.setenv("FORCE_COLOR", "1")  # taken for a terminal
        run = train(small(quiet=False, knn_every=1, epochs=3), data=pictures)
        return run, capsys.readouterr().out.splitlines()

    return show


def rows_of(lines):
    """The cells of the table, by their titles."""
    start = next(k for k, line in enumerate(lines) if line.split()[:1] == ["epoch"])
    titles = lines[start].replace("of max", "of_max").replace("log n", "log_n").split()
    rows = [line.split() for line in lines[start + 1 : start + 4]]
    return [dict(zip(titles, row, strict=False)) for row in rows]


def test_a_row_is_the_mean_over_its_epoch(shown):
    run, lines = shown()
    for k, row in enumerate(rows_of(lines)):
        readings = [r for r in run.metrics if k < r["epoch"] <= k + 1]
        assert len(readings) > 1
        assert float(row["loss"]) == round(fmean(r["loss"] for r in readings), 3)
        matched = fmean(r["accuracy"] for r in readings)
        assert row["matched"] == f"{matched:.1%}"
        assert row["epoch"] == f"{k + 1}/3"


def test_every_column_is_explained_and_none_is_called_accuracy(shown):
    _, lines = shown()
    words = " ".join(" ".join(lines).split())
    assert "matched: views that find their partner" in words
    assert "kNN: by labels, among training images" in words
    titles = set(rows_of(lines)[2])
    assert "accuracy" not in titles and {"matched", "kNN", "wait"} <= titles


@pytest.mark.parametrize(
    ("columns", "terminal"), [(60, True), (80, True), (100, True), (80, False)]
)
def test_the_table_fits_the_terminal(shown, columns, terminal):
    _, lines = shown(columns, terminal=terminal)
    start = next(k for k, line in enumerate(lines) if line.startswith("Means over"))
    table = [line for line in lines[start:] if not line.startswith(("run", "report"))]
    assert max(map(len, table[:6])) <= columns
    row = rows_of(lines)[0]
    assert {"epoch", "loss", "matched", "nats", "kNN"} <= set(row)
    assert ("wait" in row) == (columns > 112)


def test_the_log_has_every_epoch_even_of_a_quiet_run(small, pictures, capsys):
    run = train(small(), data=pictures)
    assert "matched" not in capsys.readouterr().out
    log = (run.folder / "train.log").read_text()
    assert " 1/2 " in log and " 2/2 " in log and "matched: views that find" in log


def test_json_has_every_reading_and_no_table(small, pictures, capsys):
    train(small(json=True, quiet=False), data=pictures)
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert all("note" in line or "loss" in line for line in lines)
    assert not any("matched" in line.get("note", "") for line in lines)


def test_the_end_says_what_it_is_doing(small, pictures, capsys):
    train(small(quiet=False, evaluate=True, epochs=1), data=pictures)
    said = capsys.readouterr().out
    order = ["scoring raw pixels, untrained encoder and trained encoder ..."]
    order += ["reading the embeddings ...", "drawing the map ..."]
    assert sorted(said.index(words) for words in order) == [
        said.index(words) for words in order
    ]

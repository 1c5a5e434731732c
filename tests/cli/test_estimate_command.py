"""``invariance estimate``: files in, a table, a figure and JSON out."""

import csv
import dataclasses
import json
import math

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

from invariance.errors import DataError
from invariance.estimators import (
    ESTIMATORS,
    correlated_gaussian,
    pair_rows,
    read_variable,
)

QUICK = ("--max-steps", "40")


@pytest.fixture
def rows():
    dice = torch.Generator().manual_seed(0)
    pairs = correlated_gaussian(2, nats=1.0)
    return [z.numpy() for z in pairs.sample(600, generator=dice)]


@pytest.fixture
def arrays(rows, tmp_path):
    for name, z in zip("xy", rows, strict=True):
        np.save(tmp_path / f"{name}.npy", z)
    return rows


@pytest.fixture
def embeddings(rows, tmp_path):
    """Files as 'invariance embed' writes them; the second is in another order."""
    names = np.array([f"image {i}.png" for i in range(600)])
    labels = (rows[0][:, 0] > 0).astype(np.int64)
    np.savez(tmp_path / "a.npz", features=rows[0], names=names, labels=labels)
    turned = np.arange(600)[::-1]
    table = pa.table(
        {
            "name": pa.array(names[turned]),
            "label": pa.array(labels[turned]),
            "class": pa.array([["dog", "cat"][k] for k in labels[turned]]),
            "features": pa.FixedSizeListArray.from_arrays(
                pa.array(rows[1][turned].reshape(-1)), 2
            ),
        }
    )
    pq.write_table(table, tmp_path / "b.parquet")
    with (tmp_path / "c.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["name", "label", "class", "f0", "f1"])
        for name, k, row in zip(names, labels, rows[0], strict=True):
            writer.writerow([name, k, ["dog", "cat"][k], *row])
    return labels


def test_two_arrays_give_a_table_a_sentence_and_a_figure(command, arrays, tmp_path):
    words = (*QUICK, "--figure", "curves.png")
    code, said, complained = command("estimate", "x.npy", "y.npy", *words)
    assert code == 0, complained
    assert "600 rows, 2 columns and 2 columns" in said
    lines = [line.split() for line in said.splitlines() if line.strip()]
    table = {line[0]: line for line in lines}
    assert {"auto", "info_nce", "smile", "gaussian"} <= set(table)
    assert "certified" in table["info_nce"] and "no" in table["smile"]
    assert 0.7 < float(table["gaussian"][1]) < 1.3
    assert "x and y share about" in said and "Why: a Gaussian copula gives" in said
    assert (tmp_path / "curves.png").read_bytes().startswith(b"\x89PNG")
    assert said.rstrip().endswith("figure: curves.png")


def test_json_is_all_that_is_printed(command, arrays, tmp_path):
    code, said, _ = command(
        *("estimate", "x.npy", "y.npy", "--json"),
        *("--estimators", "info_nce", "histogram", *QUICK),
    )
    answer = json.loads(said)
    assert code == 0 and answer["rows"] == 600
    (e,) = answer["estimates"]
    assert e["estimator"] == "info_nce" and e["lower_bound"] is True
    assert e["ceiling"] == pytest.approx(math.log(180))
    assert e["bits"] == pytest.approx(e["nats"] / math.log(2))
    assert "one column" in answer["refused"]["histogram"]
    assert not list(tmp_path.glob("*.png"))


def test_two_runs_and_labels(command, embeddings):
    code, said, complained = command(
        "estimate", "a.npz", "b.parquet", "--json", "--estimators", "gaussian"
    )
    answer = json.loads(said)
    assert code == 0, complained
    assert 0.7 < answer["estimates"][0]["nats"] < 1.3  # in each file's own order: none
    code, said, _ = command(
        "estimate", "c.csv", "a.npz:label", "--estimators", "auto", "--max-steps", "200"
    )
    assert code == 0 and "auto (classifiers)" in said
    code, said, _ = command(
        "estimate", "a.npz:label", "c.csv:class", "--json", "--estimators", "auto"
    )
    assert json.loads(said)["estimates"][0]["nats"] == pytest.approx(0.69, abs=0.02)


def test_columns_of_one_table(command, rows, tmp_path):
    with (tmp_path / "people.csv").open("w") as file:
        file.write("height,weight,town\n")
        for i, (a, b) in enumerate(zip(rows[0], rows[1], strict=True)):
            file.write(f"{a[0]},{b[0]},{'Bonn' if i % 3 else 'Rome'}\n")
    code, said, _ = command(
        *("estimate", "people.csv:height", "people.csv:weight"),
        *("--json", "--estimators", "ksg", "--max-rows", "400"),
    )
    answer = json.loads(said)
    assert code == 0 and answer["rows"] == 400 and answer["x_columns"] == 1
    assert answer["estimates"][0]["nats"] > 0.2
    both = read_variable(str(tmp_path / "people.csv") + ":height,town")
    assert both.values.shape == (600, 2) and set(both.values[:, 1]) == {0, 1}


def test_infinite_information_is_said_and_not_drawn_off_the_page(command, arrays):
    code, said, _ = command("estimate", "x.npy", "x.npy")
    assert code == 0 and "infinite" in said
    assert [line for line in said.splitlines() if line.split()[1:2] == ["inf"]]
    code, said, _ = command("estimate", "x.npy", "x.npy", "--json")
    assert json.loads(said)["estimates"][0]["nats"] is None


@pytest.mark.parametrize(
    ("words", "answer"),
    [
        (("nowhere.npy", "y.npy"), "There is no file 'nowhere.npy'"),
        (("x.npy:7", "y.npy"), "columns 0 to 1, not '7'"),
        (("x.npy", "short.npy"), "x.npy has 600 rows and short.npy 10"),
        (("x.npy", "single.npy"), "holds a single number"),
        (("x.npy", "head.csv"), "holds no rows"),
        (("x.npy", "odd.npy"), "cannot be read as .npy: it was not written by NumPy."),
        (("x.npy", "y.npy", "--max-rows", "-3"), "--max-rows must be at least 4"),
        (("x.npy", "odd.txt"), "expected .npy, .npz, .csv or .parquet"),
        (("x.npy", "two.npz"), "two.npz:a"),
        (("x.npy", "two.npz:c"), "Unknown column of two.npz 'c'"),
        (("x.npy", "holes.npy"), "--drop-missing"),
        (("x.npy", "broken.npz"), "cannot be read as .npz"),
        (("x.npy", "y.npy", "--estimators", "info_nec"), "'info_nce'"),
        (("x.npy", "short.csv"), "lines of 2 and of 3 columns"),
    ],
)
def test_what_goes_wrong_is_one_sentence(words, answer, command, arrays, tmp_path):
    np.save(tmp_path / "short.npy", np.zeros((10, 1)))
    np.save(tmp_path / "holes.npy", np.where(np.arange(600) == 3, np.nan, 1.0))
    np.savez(tmp_path / "two.npz", a=np.zeros(3), b=np.zeros(3))
    (tmp_path / "odd.txt").write_text("1")
    (tmp_path / "odd.npy").write_text("1")
    (tmp_path / "head.csv").write_text("a,b\n")
    np.save(tmp_path / "single.npy", np.float64(3))
    (tmp_path / "broken.npz").write_bytes(b"PK\x03\x04 not an archive")
    (tmp_path / "short.csv").write_text("a,b\n1,2\n1,2,3\n")
    code, _, complained = command("estimate", *words)
    assert code == 2 and answer in complained
    assert len(complained.strip().splitlines()) == 1


@pytest.mark.parametrize(
    "lines",
    ["a;b\n0.5;1\n2;\n", "0.5\t1\n2\t3\n", "0.5 1\n2 3\n", "a,b\n1,5;2\n2,5;3\n"],
)
def test_numbers_that_no_comma_parts_are_not_taken_for_words(lines, tmp_path):
    (tmp_path / "t.csv").write_text(lines)
    with pytest.raises(DataError, match=r"several numbers in one cell.*commas between"):
        read_variable(str(tmp_path / "t.csv"))


def test_words_may_hold_marks_and_spaces(tmp_path):
    (tmp_path / "t.csv").write_text("kind\nsmall 3\nlarge; 4\nsmall 3\n")
    kind = read_variable(str(tmp_path / "t.csv")).values[:, 0]
    assert kind[0] == kind[2] != kind[1]


def test_missing_cells_are_missing_and_no_words(tmp_path):
    (tmp_path / "t.csv").write_text("a,kind\n1.5,cat\nNA,dog\n2.5,\n,cat\n")
    a, kind = (read_variable(f"{tmp_path / 't.csv'}:{k}").values for k in ("a", "kind"))
    a, kind = a[:, 0], kind[:, 0]
    assert np.isnan(a).tolist() == [False, True, False, True]
    assert np.isnan(kind).tolist() == [False, False, True, False]
    assert kind[0] == kind[3] != kind[1]


def test_rows_without_a_common_name_are_refused(tmp_path):
    for name in "ab":
        np.savez(
            tmp_path / f"{name}.npz", features=np.zeros((2, 1)), names=[name, name * 2]
        )
    a, b = (read_variable(str(tmp_path / f"{k}.npz")) for k in "ab")
    with pytest.raises(DataError, match="no row name in common"):
        pair_rows(a, b)


GAUSSIAN = ("x.npy", "y.npy", "--estimators", "gaussian")


@pytest.mark.parametrize(
    ("flags", "answer"),
    [
        (("--figure", "a.xyz"), "The figure 'a.xyz'"),
        (("--max-rows", "3"), "--max-rows must be at least 4"),
        (("--estimators", "info_nec"), "Did you mean 'info_nce'?"),
        (("--alpha", "0.3"), "--alpha would do nothing here"),
        (("--batch-size", "2"), "batch_size is a whole number, 4 or more: got 2"),
        (("--device", "abacus"), "abacus"),
    ],
)
def test_flags_are_checked_before_files_are_read(flags, answer, command, tmp_path):
    (tmp_path / "broken.npz").write_bytes(b"PK\x03\x04 not an archive")
    code, said, complained = command("estimate", "broken.npz", "broken.npz", *flags)
    assert (code, said) == (2, "") and answer in complained


@pytest.mark.parametrize("name", ["a.xyz", "folder"])
def test_a_figure_that_cannot_be_drawn_is_refused_at_once(name, command, arrays):
    code, said, complained = command("estimate", *GAUSSIAN, "--figure", name)
    assert (code, said) == (2, "") and f"The figure {name!r}" in complained


@pytest.mark.parametrize("how", [(), ("--json",)])
def test_numbers_are_shown_even_if_the_figure_cannot_be_written(
    how, command, arrays, tmp_path
):
    (tmp_path / "taken").write_text("a file where a folder should be")
    words = (*GAUSSIAN, "--figure", "taken/a.png", *how)
    code, said, complained = command("estimate", *words)
    assert code == 2 and "gaussian" in said
    assert "cannot be written to 'taken/a.png': " in complained
    assert len(complained.strip().splitlines()) == 1


def test_the_headline_never_contradicts_a_certified_row(command, tmp_path):
    rng = np.random.default_rng(0)
    x = rng.uniform(-1, 1, 300)
    np.save(tmp_path / "x.npy", x)
    np.save(tmp_path / "y.npy", x**2 + 0.05 * rng.standard_normal(300))
    code, said, _ = command(
        *("estimate", "x.npy", "y.npy", "--json"),
        *("--estimators", "auto", "info_nce", "gaussian"),
    )
    auto, bound, blind = json.loads(said)["estimates"]
    assert code == 0 and bound["lower_bound"]
    assert auto["interval"][0] >= bound["nats"] - 2.33 * bound["std_error"] > 0.3
    assert auto["interval"][0] < 1.58 < auto["interval"][1]
    assert "independent" not in auto["sentence"] + blind["sentence"]


def test_settings_of_an_estimator_are_flags(command, arrays):
    words = ("x.npy", "y.npy", "--json", *QUICK, "--estimators")
    for name, flags in [
        ("interpolated", ("--alpha", "0.01")),
        ("interpolated", ("--alpha", "0")),
        ("smile", ("--clip", "0.1")),
        ("vince", ("--fraction", "0.05")),
        ("jsd", ("--spectral-norm", "--weight-decay", "3")),
        ("jsd", ("--gradient-penalty", "zero", "--penalty-weight", "50")),
    ]:
        plain, changed = (
            json.loads(command("estimate", *words, name, *more)[1])["estimates"][0]
            for more in ((), flags)
        )
        assert plain["in_sample"] != changed["in_sample"], flags


@pytest.mark.parametrize(
    ("words", "answer"),
    [
        (("--alpha", "0.3"), "--alpha would do nothing here: it is for interpolated."),
        (
            ("--estimators", "ksg", "--spectral-norm"),
            "--spectral-norm would do nothing",
        ),
        (("--estimators", "ksg", *QUICK), "--max-steps would do nothing here"),
        (("--penalty-weight", "3"), "without gradient_penalty="),
        (("--estimators", "smile", "--clip", "-1"), "clip must be above 0, got -1.0"),
    ],
)
def test_a_flag_that_would_do_nothing_is_refused(words, answer, command, arrays):
    code, _, complained = command("estimate", "x.npy", "y.npy", *words)
    assert code == 2 and answer in complained
    assert len(complained.strip().splitlines()) == 1


def test_what_is_not_certified_or_is_withheld_is_said(command, tmp_path, monkeypatch):
    dice = np.random.default_rng(0)
    for name in "xy":
        np.save(tmp_path / f"{name}.npy", dice.standard_normal((120, 40)))
    real = ESTIMATORS["flo"].run

    def explode(request):
        return dataclasses.replace(real(request), nats=-35_200.0, std_error=9.0)

    monkeypatch.setitem(
        ESTIMATORS, "flo", dataclasses.replace(ESTIMATORS["flo"], run=explode)
    )
    words = ("estimate", "x.npy", "y.npy", "--estimators", "info_nce", "flo", *QUICK)
    code, said, _ = command(*words)
    lines = {line.split()[0]: line for line in said.splitlines() if line.strip()}
    assert code == 0 and "none certified" in lines["info_nce"]
    assert "withheld" in lines["flo"] and "nan" not in said
    assert "Withheld: flo gives no number: it reads -35,200.00 ± 9.00 nats" in said
    answer = json.loads(command(*words, "--json")[1])["estimates"][1]
    assert answer["nats"] is None and "below zero" in answer["withheld"]

"""Tables: what becomes of columns, gaps, targets and other tables, and what is said."""

import csv
import json

import pyarrow
import pyarrow.parquet
import pytest
import torch

import invariance as inv
from invariance.data import Column, Row, kind_of, load
from invariance.errors import DataError, SettingError

PARTS = ("train", "test")


def make_columns(n=60):
    """Two classes; a number with gaps, a category, and what says nothing."""
    return {
        "age": [None if k % 10 == 3 else 20 + k for k in range(n)],
        "color": [("red", "blue", "green")[k % 3] for k in range(n)],
        "town": ["here"] * n,
        "fax": [""] * n,
        "note": [f"text {k}" for k in range(n)],
        "sold": [("yes", "no")[k % 2] for k in range(n)],
    }


def write_csv(path, columns):
    with path.open("w", newline="", encoding="utf-8") as file:
        lines = csv.writer(file)
        lines.writerow(columns)
        lines.writerows(zip(*columns.values(), strict=True))
    return path


def all_rows(source):
    (batch,) = source.batches([torch.arange(len(source))])
    return batch


@pytest.fixture
def table(tmp_path):
    return write_csv(tmp_path / "shop.csv", make_columns())


def test_columns_are_told_apart_and_the_useless_left_out_with_a_word(table):
    source = load(table, target="sold", hold_out="nothing")
    age, color = source.kind.columns
    assert (age.name, age.categories, age.missing) == ("age", None, True)
    assert color.categories == ("blue", "green", "red") and not color.missing
    assert source.class_names == ("no", "yes")
    said = " ".join(map(str, source.notes))
    for reason in (
        "'town' (the same in every row)",
        "'fax' (all missing)",
        "'note' (60 different texts in 60 rows)",
        "Classes are from 'sold'",
    ):
        assert reason in said


def test_the_target_is_never_an_input(table):
    for source in (
        load(table, target="sold"),
        load(table, target="sold", labels=False),
    ):
        assert {column.name for column in source.kind.columns} == {"age", "color"}
    # by its usual name nobody needs to say so
    columns = make_columns()
    columns["class"] = columns.pop("sold")
    source = load(columns)
    assert source.class_names == ("no", "yes") and source.kind.shape == (2,)


def test_mean_scale_and_categories_are_those_of_the_training_rows():
    columns = make_columns()
    train, test = (load(columns, target="sold", split=s) for s in ("train", "test"))
    assert len(train) + len(test) == 60 and train.kind == test.kind
    ages = all_rows(train)[:, 0]
    known = ages[~ages.isnan()].double()
    assert train.kind.columns[0].mean == pytest.approx(float(known.mean()))
    assert train.kind.columns[0].scale == pytest.approx(float(known.std(correction=0)))
    laid_out = train.kind.plain(all_rows(train))
    assert laid_out.shape[1] == 1 + 1 + 3  # the age, its gap, and three colors
    assert laid_out.isfinite().all()
    assert laid_out[:, 1].equal(ages.isnan().float())
    assert (laid_out[:, 2:].sum(1) == 1).all()


def test_the_same_row_is_never_in_both_parts():
    columns = {"a": [k // 4 for k in range(400)], "y": ["p", "q"] * 200}
    train, test = (load(columns, target="y", split=s) for s in ("train", "test"))
    assert not {*all_rows(train)[:, 0].tolist()} & {*all_rows(test)[:, 0].tolist()}


@pytest.mark.parametrize(("columns", "n"), [((), 300), (("age", "note", "town"), 270)])
def test_a_part_read_with_the_kind_of_another_holds_out_the_same_rows(columns, n):
    # 'note', 'town' and 'fax' are left out, and rows are told apart by them as well
    table = make_columns(300)
    train = load(table, target="sold", columns=columns)
    kind = kind_of(json.loads(json.dumps(train.kind.describe())))
    again = {part: load(table, split=part, kind=kind) for part in PARTS}
    assert all_rows(again["train"]).nan_to_num().equal(all_rows(train).nan_to_num())
    assert len(again["test"]) == train.origin.n_held_out == 300 - len(train)
    # without what was left out a table is read all the same, where a row has anything
    less = {name: table[name] for name in ("age", "color", "sold")}
    assert len(load(less, split="all", kind=kind)) == n


def test_a_file_that_is_no_parquet_is_one_sentence(tmp_path):
    path = tmp_path / "shop.parquet"
    path.write_bytes(b"PAR1 not really")
    with pytest.raises(DataError, match=r"shop.parquet' cannot be read: .*[^.]\.$"):
        load(path)


def test_csv_parquet_json_lines_and_python_are_one_table(tmp_path, table):
    columns = make_columns()
    frame = pyarrow.table(columns)
    pyarrow.parquet.write_table(frame, tmp_path / "shop.parquet")
    whole = zip(*columns.values(), strict=True)
    rows = [dict(zip(columns, cells, strict=True)) for cells in whole]
    lines = tmp_path / "shop.jsonl"
    lines.write_text("\n".join(map(json.dumps, rows)))
    sources = [
        load(data, target="sold", split="all")
        for data in (table, tmp_path / "shop.parquet", lines, columns, frame)
    ]
    first = all_rows(sources[0])
    for source in sources[1:]:
        assert source.kind == sources[0].kind
        torch.testing.assert_close(all_rows(source), first, equal_nan=True)


def test_names_that_only_later_lines_have_are_left_out_with_a_word(tmp_path):
    rows = [{"a": k, "b": k % 3} | ({"late": 1} if k == 9 else {}) for k in range(20)]
    (tmp_path / "shop.jsonl").write_text("\n".join(map(json.dumps, rows)))
    source = load(tmp_path / "shop.jsonl")
    assert [column.name for column in source.kind.columns] == ["a", "b"]
    said = " ".join(map(str, source.notes))
    assert "Not in the first line, which names the columns" in said and "'late'" in said


def test_another_table_is_read_in_the_same_way(tmp_path, table):
    kind = load(table, target="sold").kind
    again = kind_of(json.loads(json.dumps(kind.describe())))
    assert again == kind
    other = {"color": ["red", "pink", "pink"], "new": [1, 2, 3], "age": ["30", "x", ""]}
    source = load(write_csv(tmp_path / "new.csv", other), kind=again, split="all")
    expected = torch.tensor(
        [[30.0, 2.0], [torch.nan, torch.nan], [torch.nan, torch.nan]]
    )
    torch.testing.assert_close(all_rows(source), expected, equal_nan=True)
    said = " ".join(map(str, source.notes))
    assert "age 'x' (1 row)" in said
    assert "color 'pink' (2 rows)" in said
    del other["age"]
    with pytest.raises(
        DataError, match=r"no column 'age', which the encoder takes: it"
    ):
        load(write_csv(tmp_path / "less.csv", other), kind=again, split="all")


def test_rows_without_a_class_are_embedded_but_not_learned_from():
    columns = make_columns()
    columns["sold"][:5] = [""] * 5
    source = load(columns, target="sold", hold_out="nothing")
    assert len(source) == 55
    assert "5 rows were left out without a 'sold'" in " ".join(map(str, source.notes))
    assert len(load(columns, target="sold", labels=False)) == 60
    whole = load(columns, kind=source.kind, split="all")
    assert len(whole) == 60 and whole.labels[:6].tolist() == [-1] * 5 + [0]


def test_a_row_by_itself(tmp_path):
    kind = Row([Column("age", 50, 10), Column("color", categories=("blue", "red"))])
    for raw in ({"color": "red", "age": "60", "more": 1}, ["60", "red"]):
        assert kind.read(raw).tolist() == [60.0, 1.0]
    _, raw = kind.open('{"age": 60, "color": "red"}')
    assert kind.show(kind.read(raw)) == "age 60 · color red"
    one = write_csv(tmp_path / "one.csv", {"color": ["red"], "age": [60]})
    assert kind.read(kind.open(one)[1]).tolist() == [60.0, 1.0]
    none = write_csv(tmp_path / "none.csv", {"color": [], "age": []})
    two = write_csv(tmp_path / "two.csv", {"color": ["red"] * 2, "age": [60, 61]})
    for query, why in {
        "no such row": "there is no such file",
        "gone.csv": "there is no such file",
        "{60}": "Expecting property name",
        none: "0 rows, but a query is one",
        two: "2 rows, but a query is one",
    }.items():
        with pytest.raises(DataError, match=rf"cannot be read as a row \({why}"):
            kind.open(query)
    with pytest.raises(DataError, match="it has no 'age'"):
        kind.read({"color": "red"})
    # half precision keeps categories
    assert kind.prepare(kind.read(raw)[None], torch.bfloat16).dtype == torch.float32


@pytest.mark.parametrize(
    ("columns", "how", "error", "message"),
    [
        ({}, {}, DataError, "has no columns"),
        ({"a": [], "b": []}, {}, DataError, "has no rows"),
        ({"a": [1, 1], "b": ["", None]}, {}, DataError, "No column .* to learn from"),
        (
            {"a": ["x y", "z w", "q"], "b": ["k", "l", "m"]},
            {},
            DataError,
            "Every column .* text that differs .* --text-column",
        ),
        ({"a": [1, 2], "b": [3]}, {}, DataError, "different numbers of rows: 'a' 2"),
        ({"a": [1, 2]}, {"target": "b"}, DataError, "no column 'b', named as the"),
        (
            {"sold": [1, 2], "a": [3, 4]},
            {"target": "solt"},
            DataError,
            "Did you mean 'sold'",
        ),
        (
            {"a": [1, 2], "b": ["x", "y"]},
            {"target": "b", "columns": ("a", "b")},
            SettingError,
            "'b' is the target, and is also among the columns to learn from",
        ),
        ({"a": [1, 2]}, {"columns": ("c",)}, DataError, "no column 'c', asked for to"),
        (
            {"a": [*range(50)], "who": [f"man {k}" for k in range(50)]},
            {"target": "who"},
            DataError,
            "'who' has 50 different texts in 50 rows, but scores need classes or",
        ),
        ({"y": ["p", "q"]}, {"target": "y"}, DataError, "no column but the target"),
        ({"a": [1, 2], "y": ["p", "p"]}, {"target": "y"}, DataError, "the same in eve"),
    ],
)
def test_what_is_wrong_is_said_in_one_sentence(columns, how, error, message):
    with pytest.raises(error, match=message):
        load(columns, **how)


@pytest.mark.parametrize("mark", [",", ";", "\t"])
def test_commas_semicolons_and_tabs_part_cells(mark, tmp_path):
    """And where semicolons do, a number may have a comma."""
    half = "0,5" if mark == ";" else "0.5"
    lines = [("age", "town"), ("1", "here"), (half, "there"), ("2", "a, b")] * 3
    path = tmp_path / "a.csv"
    with path.open("w", newline="") as file:
        csv.writer(file, delimiter=mark).writerows([lines[0], *lines[1:4], *lines[1:4]])
    source = load(path)
    assert [column.name for column in source.kind.columns] == ["age", "town"]
    assert source.kind.columns[1].categories == ("a, b", "here", "there")
    assert all_rows(source)[:3, 0].tolist() == [1.0, 0.5, 2.0]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"age,town\n1,Z\xfcrich\n2,here\n", "not written in UTF-8, as line 2 shows"),
        (b"age,gr\xf6\xdfe\n1,2\n2,3\n", "not written in UTF-8, as line 1 shows"),
        (b"5.1,3.5,setosa\n4.9,3.0,setosa\n", "reads like a row of values .'5.1'"),
    ],
)
def test_a_file_that_says_something_else_than_it_means(text, message, tmp_path):
    path = tmp_path / "a.csv"
    path.write_bytes(text)
    with pytest.raises(DataError, match=message):
        load(path)


def test_a_target_of_numbers_is_to_be_predicted():
    columns = make_columns(100) | {"price": [k + 0.5 for k in range(99)] + [None]}
    train, test = (load(columns, split=part, target="price") for part in PARTS)
    assert train.labels is None and len(train) + len(test) == 99
    both = [*train.quantities.tolist(), *test.quantities.tolist()]
    assert sorted(both) == [k + 0.5 for k in range(99)]
    said = " ".join(map(str, train.notes))
    assert "'price' is a number to predict." in said and "1 row was left out" in said
    assert "price" not in [column.name for column in train.kind.columns]
    some = load(columns, target="price", n=10).quantities.tolist()
    assert some == [float(train.quantities[k * len(train) // 10]) for k in range(10)]
    assert load(columns, target="price", labels=False).quantities is None


def test_large_numbers_stay_apart_as_categories(tmp_path):
    codes = [2_000_001.0, 2_000_002.0, "x"] * 4
    source = load({"code": codes, "n": [*range(12)]})
    assert source.kind.columns[0].categories == ("2000001", "2000002", "x")


def test_a_header_with_one_name_twice(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("a,a\n1,2\n3,4\n")
    with pytest.raises(DataError, match="several columns called 'a'"):
        load(path)


def test_sentences_stay_sentences(tmp_path):
    texts = {"text": [f"a sentence {k}" for k in range(9)], "n": [*range(9)]}
    path = write_csv(tmp_path / "a.csv", texts)
    assert load(path).kind.name == "text"
    assert load(path, kind="row").kind.shape == (1,)  # without the texts
    assert load(path, columns=("n",)).kind.name == "row"


def test_settings_of_tables_are_refused_elsewhere():
    with pytest.raises(SettingError, match="target is for samples of the kind row"):
        load("shapes", n=4, target="sold")


def test_generated_rows():
    points, spirals = inv.data.double_spiral(500)
    assert points.norm(dim=1).max() <= 2 and spirals.bincount().tolist() == [250, 250]
    again, _ = inv.data.double_spiral(500)
    assert points.equal(again)
    train, test = (load("beetles", n=200, split=s) for s in ("train", "test"))
    assert train.kind == test.kind and len(train.class_names) == 6
    assert not all_rows(train).nan_to_num().equal(all_rows(test).nan_to_num())
    missing = [column.name for column in train.kind.columns if column.missing]
    assert missing == ["mass_mg", "horn_mm"]
    assert load("double_spiral", n=10, split="all").class_names[0] == "first spiral"

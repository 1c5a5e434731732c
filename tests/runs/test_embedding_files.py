"""Embeddings as a value: saved, loaded, shown; and files that older versions wrote."""

import json
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import invariance as inv
from invariance.errors import DataError, SettingError, ShapeError

ENDINGS = [".npz", ".parquet", ".csv"]
NAMES = ["cat/0.png", 'cat/a, "b"\nc.png', "dog/фото 1.png", "<b>&.png"]
ORIGIN = {"encoder": "mark", "encoder_name": "tiny", "data": "photos", "limit": 9}


def same_rows(a, b):
    assert a.names == b.names and a.features.shape == b.features.shape
    assert a.features.numpy().tobytes() == b.features.numpy().tobytes()
    assert (a.labels is None) == (b.labels is None)
    assert a.labels is None or torch.equal(a.labels, b.labels)


@st.composite
def parts(draw):
    """Rows, names and labels."""
    n, width = draw(st.integers(1, 12)), draw(st.integers(1, 6))
    bits = st.floats(width=32, allow_nan=False)
    values = draw(st.lists(bits, min_size=n * width, max_size=n * width))
    alphabet = st.characters(exclude_categories=["Cs"], exclude_characters="\0")
    names = draw(st.lists(st.text(alphabet, max_size=9), min_size=n, max_size=n))
    labels = draw(st.none() | st.lists(st.integers(-1, 3), min_size=n, max_size=n))
    if labels is not None and max(labels) < 0:
        labels[0] = 0  # of files without any label there is another test
    return np.array(values, np.float32).reshape(n, width), tuple(names), labels


@pytest.mark.parametrize("ending", ENDINGS)
@settings(
    max_examples=40,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(parts=parts())
def test_what_is_saved_is_loaded_bit_for_bit(ending, tmp_path, parts):
    features, names, labels = parts
    value = inv.Embeddings(
        torch.from_numpy(features),
        names,
        None if labels is None else torch.tensor(labels),
        class_names=() if labels is None else ("a", "b,", 'c"', "d\n"),
    )
    path = value.save(tmp_path / f"out{ending}", overwrite=True)
    loaded = inv.Embeddings.load(path)
    same_rows(loaded, value)
    if value.labels is not None:
        for label in value.labels.unique().tolist():
            if label >= 0:
                assert loaded.class_names[label] == value.class_names[label]


@pytest.mark.parametrize("ending", ENDINGS)
def test_numbers_that_are_not_finite_come_back_too(ending, tmp_path):
    odd = torch.tensor([[float("nan"), float("inf"), -float("inf"), -0.0, 1e-45]])
    loaded = inv.Embeddings.load(
        inv.Embeddings(odd, ("x",)).save(tmp_path / f"odd{ending}")
    )
    assert torch.equal(loaded.features.isnan(), odd.isnan())
    assert loaded.features[:, 1:].numpy().tobytes() == odd[:, 1:].numpy().tobytes()


@pytest.mark.parametrize("ending", [".npz", ".parquet"])
def test_saving_a_value_writes_the_file_that_embedding_writes(
    ending, run, photos, tmp_path
):
    written = inv.write_embeddings(run, photos, tmp_path / f"a{ending}").path
    saved = inv.embed(run, photos).save(tmp_path / f"b{ending}")
    assert saved.read_bytes() == written.read_bytes()
    loaded = inv.Embeddings.load(saved)
    assert (loaded.encoder_name, loaded.data) == ("tiny", str(photos.resolve()))


def test_a_file_is_replaced_only_when_asked(tmp_path):
    value = inv.Embeddings(torch.eye(2), ("a", "b"))
    path = value.save(tmp_path / "x.npz")
    with pytest.raises(DataError, match="exists already: choose another name, or use"):
        value.save(path)
    assert value.save(str(path), overwrite=True) == path
    with pytest.raises(SettingError, match=r"'x\.h5' has the ending '\.h5'"):
        value.save("x.h5")
    with pytest.raises(SettingError, match="There is no folder 'no' to write into"):
        value.save("no/x.npz")
    with pytest.raises(SettingError, match="is a folder: name a file"):
        (tmp_path / "dir.npz").mkdir()
        value.save(tmp_path / "dir.npz")
    with pytest.raises(DataError, match="There is no file of embeddings at"):
        inv.Embeddings.load(tmp_path / "none.npz")
    assert {p.name for p in tmp_path.iterdir()} == {"x.npz", "dir.npz"}


def test_rows_and_names_belong_together():
    with pytest.raises(ShapeError, match="got 2 rows, 1 names and 1 labels"):
        inv.Embeddings(torch.eye(2), ("a",))


def test_a_value_says_what_it_is():
    labels = torch.tensor([0, 0, 1, -1])
    value = inv.Embeddings(
        torch.zeros(4, 3),
        tuple(NAMES),
        labels,
        class_names=("cat", "<dog>"),
        unreadable={"x.png": "empty"},
        **ORIGIN,
    )
    assert repr(value) == (
        "Embeddings(4 rows of 3 features, 2 classes, 1 unreadable left out, by tiny, "
        "of 'photos')"
    )
    page = value._repr_html_()
    assert "&lt;b&gt;&amp;.png" in page and "&lt;dog&gt;" in page
    assert "<b>&" not in page and "<dog>" not in page
    empty = inv.Embeddings(torch.empty(0, 3), ())
    assert repr(empty) == "Embeddings(0 rows of 3 features, no labels)"
    assert empty._repr_html_().endswith("</table>")


def test_files_of_older_versions_are_read(tmp_path):
    """As 0.1.0 wrote them: strings quoted only where needed, nine digits a number."""
    features = torch.linspace(-1, 1, 8).reshape(4, 2)
    labels = torch.tensor([0, 0, 1, -1])
    value = inv.Embeddings(
        features, tuple(NAMES), labels, class_names=("cat", "dog"), **ORIGIN
    )
    about = {"n": 4, "width": 2, "labelled": True, "class_names": ["cat", "dog"]}
    about |= {**ORIGIN, "split": "all", "unreadable": {}, "of_a_later_version": 1}
    lines = ["name,label,class,f0,f1"]
    words = ("0,cat", "0,cat", "1,dog", ",")
    for name, word, row in zip(NAMES, words, features.tolist(), strict=True):
        quoted = '"' + name.replace('"', '""') + '"' if "," in name else name
        lines.append(f"{quoted},{word},{row[0]:.9g},{row[1]:.9g}")
    (tmp_path / "old.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    np.savez(
        tmp_path / "old.npz",
        features=features.numpy(),
        names=np.array(NAMES),
        labels=labels.numpy(),
        class_names=np.array(["cat", "dog"]),
        about=np.array(json.dumps(about)),
    )
    columns = {
        "name": pa.array(NAMES),
        "label": pa.array([0, 0, 1, None], pa.int64()),
        "class": pa.array(["cat", "cat", "dog", None]),
        "features": pa.array(features.tolist(), pa.list_(pa.float32(), 2)),
    }
    table = pa.table(columns).replace_schema_metadata({"invariance": json.dumps(about)})
    pyarrow.parquet.write_table(table, tmp_path / "old.parquet")
    for ending in ENDINGS:
        loaded = inv.Embeddings.load(tmp_path / f"old{ending}")
        same_rows(loaded, value)
        assert loaded.class_names == ("cat", "dog")
        assert loaded.encoder == ("" if ending == ".csv" else "mark")


@pytest.mark.parametrize(
    "text", ["", "a,b\n1,2\n", "name\nx\n", "name,f0\nx,hello\n", "name,f1\nx,1\n"]
)
def test_a_csv_file_of_something_else_is_refused(text, tmp_path):
    (tmp_path / "x.csv").write_text(text)
    with pytest.raises(DataError, match="is not a file of embeddings: expected the"):
        inv.Embeddings.load(tmp_path / "x.csv")


def test_other_npz_and_parquet_files_are_refused(tmp_path):
    np.savez(tmp_path / "x.npz", features=np.zeros((2, 2)))
    with pytest.raises(DataError, match="is not a file of embeddings"):
        inv.Embeddings.load(tmp_path / "x.npz")
    pyarrow.parquet.write_table(pa.table({"a": [1]}), tmp_path / "x.parquet")
    with pytest.raises(DataError, match="does not say what it holds"):
        inv.Embeddings.load(tmp_path / "x.parquet")
    (tmp_path / "y.parquet").write_text("no")
    with pytest.raises(DataError, match="cannot be read as Parquet"):
        inv.Embeddings.load(tmp_path / "y.parquet")


# pyarrow loads pandas when it first reads, where there is one: that is not reading
READ = """
import sys, tracemalloc, pandas, pyarrow
from invariance.runs._embedding_files import open_embeddings
tracemalloc.start()
about, blocks = open_embeddings(sys.argv[1])
n = sum(len(rows.names) for rows in blocks())
print(n, tracemalloc.get_traced_memory()[1], pyarrow.default_memory_pool().max_memory())
"""


@pytest.mark.parametrize("ending", [".npz", ".parquet"])
def test_a_file_is_read_without_holding_it(ending, tmp_path, one_thread):
    """In a process of its own, so that its peak memory is that of reading."""
    features = torch.randn(100_000, 256, generator=torch.Generator().manual_seed(0))
    names = tuple(map(str, range(len(features))))
    path = inv.Embeddings(features, names).save(tmp_path / f"large{ending}")
    done = subprocess.run(
        [sys.executable, "-c", READ, str(path)],
        env=one_thread,
        capture_output=True,
        text=True,
    )
    n, *peaks = map(int, done.stdout.split())
    assert n == len(features) and 2**23 < sum(peaks) < 60 * 2**20, done.stderr

"""What a run on samples that are no images is good for afterwards."""

import json
import re
import shutil

import numpy as np
import pytest
import torch
from PIL import Image
from torch import nn

import invariance as inv
from invariance.data import KINDS, Kind, Samples
from invariance.errors import DataError, SettingError


class Word(Kind):
    """A word as the numbers of its letters."""

    name = word = "word"
    baseline = "letters"
    dtype = torch.int64

    def read(self, raw):
        """Zeros after the end."""
        numbers = [ord(letter) - 96 for letter in raw[: self.shape[0]]]
        return torch.tensor(numbers + [0] * (self.shape[0] - len(numbers)))

    def show(self, sample):
        """The word again."""
        return "".join(chr(96 + k) for k in sample.tolist() if k)


def bag():
    """An encoder of words."""
    return nn.EmbeddingBag(27, 16)


def settings(folder, **changes):
    """Of a run of a second or two."""
    small = {"epochs": 2, "batch_size": 16, "hidden": 16, "width": 8, "quiet": True}
    return inv.Train(**small | {"out": str(folder)} | changes)


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    """A file of 80 rows in two classes."""
    dice = np.random.default_rng(0)
    labels = np.arange(80) % 2
    rows = dice.normal(size=(80, 5)) + 4 * labels[:, None]
    path = tmp_path_factory.mktemp("table") / "rows.npz"
    np.savez(path, vectors=rows.astype(np.float32), labels=labels)
    return path


@pytest.fixture(scope="module")
def run(table, tmp_path_factory):
    """Trained on the file, by its path, as from the command line."""
    return inv.train(settings(tmp_path_factory.mktemp("runs"), data=str(table))).folder


@pytest.fixture(scope="module")
def spelled(tmp_path_factory):
    """A run on words, a kind of one's own, and the words."""
    dice = np.random.default_rng(0)
    letters = ("abcde", "vwxyz")
    made = ["".join(dice.choice([*letters[k % 2]], 4)) for k in range(80)]
    words = Samples(made, Word((5,)), labels=[letters[k % 2] for k in range(80)])

    def hide(batch, draws):
        return batch * (draws.uniform(batch.shape[1]) > 0.2)

    folder = tmp_path_factory.mktemp("words")
    views = inv.views.ViewSet([[hide], [hide]])
    done = inv.train(settings(folder), data=words, encoder=bag(), views=views)
    return done.folder, words


def test_rows_are_embedded_from_any_place(run, table):
    stored = np.load(table)
    by_file, by_array = inv.embed(run, table), inv.embed(run, stored["vectors"])
    assert by_file.features.equal(by_array.features) and len(by_file.names) == 80
    assert by_file.labels.tolist() == stored["labels"].tolist()
    encoder = inv.load(run)
    values = torch.tensor(stored["vectors"])
    with torch.no_grad():
        torch.testing.assert_close(by_file.features, encoder(values))
    assert "rows" in by_file.notes[0] or "80 row" in by_file.notes[0]


def test_a_file_of_embeddings_is_written_and_searched(run, table, tmp_path):
    file = inv.write_embeddings(run, table, tmp_path / "rows.parquet")
    assert file.n == 80
    row, sheet = np.load(table)["vectors"][3], tmp_path / "sheet.png"
    np.save(tmp_path / "query.npy", row)
    by_file = inv.search(run, file.path, str(tmp_path / "query.npy"), k=3)
    by_row = inv.search(run, table, [row], k=3, sheet=sheet)
    assert [h.name for h in by_file.neighbors[0]] == [
        h.name for h in by_row.neighbors[0]
    ]
    assert by_row.neighbors[0].hits[0].name == "3"
    assert "in 80 rows" in by_row.lines()[0]
    assert len({*Image.open(sheet).convert("L").tobytes()}) > 5


@pytest.mark.parametrize("query", [[1.0, 2.0], "nothing.npy", [1, 2, 3, 4, np.nan]])
def test_a_query_that_is_no_row(run, table, query):
    given = query if isinstance(query, str) else [query]
    with pytest.raises(DataError, match="cannot be read as a row"):
        inv.search(run, table, given)


@pytest.mark.parametrize(
    "data", [np.zeros((9, 4)), np.zeros((9, 8, 8), np.uint8)], ids=["narrow", "images"]
)
def test_data_of_another_shape_or_kind_is_refused(run, data):
    with pytest.raises(DataError, match=r"rows of|expected 5|vectors come as"):
        inv.embed(run, data)


def test_it_is_scored_again_to_the_same_numbers(run):
    before = [json.loads(x) for x in (run / "evaluation.jsonl").open()]
    again = inv.evaluate(run)
    for features in ("raw values", "untrained encoder", "trained encoder"):
        was = [
            row["value"]
            for row in before
            if (row["features"], row["protocol"]) == (features, "knn")
        ]
        assert again.values("knn", features) == was[:1]
    assert "test rows, held out" in str(again)
    assert str(again).index("raw values") < str(again).index("untrained encoder")


def test_fine_tuning_goes_without_crops(run):
    how = {"fine_tune": {"epochs": 1}, "linear_sgd": {"epochs": 1}}
    scores = inv.evaluate(
        run, protocols=["fine_tune", "linear_sgd"], settings=how, supervised=True
    )
    assert scores.values("fine_tune") and scores.values("linear_sgd")


def test_it_is_diagnosed(run):
    result = inv.diagnose(run, batch_size=16, keep=False)
    assert ("alignment", "h") in {(r.name, r.of) for r in result.readings}


@pytest.mark.parametrize("to", ["safetensors", "pt2"])
def test_it_is_exported(run, tmp_path, to):
    file = inv.export(run, to, tmp_path / f"it.{to}")
    assert file.difference <= 1e-4 * file.largest
    if to == "pt2":
        assert "samples" in file.usage and "(5,)" in file.usage
    else:
        assert inv.load(file.path).kind == inv.load(run).kind


def test_timm_has_no_such_network(run, tmp_path):
    with pytest.raises(SettingError, match="'mlp' is a network of this package"):
        inv.export(run, "timm", tmp_path / "it.safetensors")


def test_the_report_calls_rows_by_their_name(run):
    page = (run / "report.html").read_text()
    assert re.search(r"Map of \d+ rows", page) and "to train on" in page
    assert "row 0" in page and "raw values" in page
    assert "images" not in (run / "train.log").read_text().split("kNN", 1)[0]


def test_words_are_written_in_the_report(spelled):
    folder, words = spelled
    page = (folder / "report.html").read_text()
    shown = [word for word in words.items if f'class="thumb text">{word}<' in page]
    assert len(shown) >= 5


def test_words_are_embedded_and_searched(spelled, tmp_path):
    folder, words = spelled
    encoder = inv.load(folder, network=bag())
    features = inv.embed(encoder, words).features
    assert features.shape == (80, 16)
    sheet = tmp_path / "words.png"
    found = inv.search(encoder, words, [words.items[7]], k=2, sheet=sheet)
    assert words.items[int(found.neighbors[0].hits[0].name)] == words.items[7]
    assert sheet.exists() and "in 80 words" in found.lines()[0]


def test_a_kind_that_nobody_has_added_says_so(spelled, monkeypatch):
    folder, _ = spelled
    encoder = inv.load(folder, network=bag())
    with pytest.raises(SettingError, match=r"add its class to inv\.data\.KINDS"):
        encoder.kind.read("abc")
    monkeypatch.setitem(KINDS, "word", Word)
    known = inv.load(folder, network=bag())
    assert known.kind.show(known.kind.read("abc")) == "abc"


def test_a_moved_run_still_opens(run, table, tmp_path):
    place = shutil.copytree(run, tmp_path / "elsewhere")
    assert inv.embed(place, table).features.equal(inv.embed(run, table).features)


def test_pairs_are_read_again_by_the_columns_of_the_run(tmp_path):
    lines = [
        json.dumps({"asked": f"what is number {k}", "said": f"tell me number {k}"})
        for k in range(60)
    ]
    for name, rows in (("pairs", lines), ("others", lines[::-1][:40])):
        (tmp_path / f"{name}.jsonl").write_text("\n".join(rows))
    how = {"data": str(tmp_path / "pairs.jsonl"), "text_column": "asked,said"}
    folder = inv.train(settings(tmp_path, method="simcse", **how)).folder
    again = inv.evaluate(folder)
    named = inv.evaluate(folder, data=how["data"])
    for row, other in zip(again.rows, named.rows, strict=True):
        assert row["protocol"] == "partner" and row["value"] == other["value"]
    assert " test pairs, held out" in str(again)
    assert inv.evaluate(folder, data=tmp_path / "others.jsonl").rows
    asked = {"query": "what is number 7", "text": ["what is number 8"]}
    for hits in inv.search(folder, k=1, **asked).neighbors:
        assert hits.hits[0].name == hits.query
    Image.new("RGB", (9, 9)).save(tmp_path / "one.png")
    Image.new("RGB", (9, 9)).save(tmp_path / "two.png")
    with pytest.raises(DataError, match="has images, but sentences are expected"):
        inv.evaluate(folder, data=tmp_path)


def test_runs_with_other_targets_have_baselines_of_their_own(tmp_path):
    """Both have as many rows to fit with and to test; only the labels differ."""
    dice = np.random.default_rng(0)
    rows = dice.normal(size=(96, 3))
    labels = np.where(rows[:, 0] > 0, "p", "q"), dice.choice(["u", "v"], 96)
    cells = zip(*rows.T.round(3).astype(str), *labels, strict=True)
    path = tmp_path / "rows.csv"
    path.write_text("\n".join(map(",".join, [tuple("xyzab"), *cells])) + "\n")
    small = {"method": "scarf", "epochs": 1, "evaluate": False}
    runs = [
        inv.train(settings(tmp_path, data=str(path), target=target, **small))
        for target in "ab"
    ]
    both = inv.evaluate(runs, protocols="knn").rows
    asked = [row for row in both if row["features"] == "raw columns"]
    assert asked[0]["n_test"] == asked[1]["n_test"]
    for row, run in zip(asked, runs, strict=True):
        alone = inv.evaluate(run, protocols="knn").values("knn", "raw columns")
        assert [row["value"]] == alone

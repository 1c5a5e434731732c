"""Data sets of Hugging Face: by name, from a folder, and as objects."""

import io
import sys

import datasets
import numpy as np
import pytest
import torch
from datasets import ClassLabel, Dataset, DatasetDict, Features, Image, Value
from PIL import Image as Pillow

from invariance import Train, evaluate, train
from invariance.data import fingerprint, has_captions, load
from invariance.errors import DataError, SettingError
from invariance.training import make_plan

PETS = ClassLabel(names=["cat", "dog", "fox"])


@pytest.fixture(autouse=True)
def _own_cache(tmp_path_factory, monkeypatch):
    """What the library prepares goes where tests may write, and it is silent."""
    place = tmp_path_factory.mktemp("hf")
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", str(place))
    datasets.disable_progress_bars()


def png(k, mode="RGB"):
    pixels = np.random.default_rng(k).integers(0, 256, (20, 24, 3), np.uint8)
    file = io.BytesIO()
    Pillow.fromarray(pixels).convert(mode).save(file, "PNG")
    return file.getvalue()


def images(n, start=0, mode="RGB", **columns):
    """Rows of images as a set has them, and more columns by a function of the row."""
    numbers = range(start, start + n)
    rows = {"image": [{"bytes": png(k, mode), "path": None} for k in numbers]}
    features = {"image": Image()}
    for name, (column, feature) in columns.items():
        rows[name] = [column(k) for k in numbers]
        features[name] = feature
    return Dataset.from_dict(rows, features=Features(features))


def pets(n, start=0):
    return images(n, start, label=(lambda k: k % 3, PETS))


@pytest.fixture
def saved(tmp_path):
    """A folder with both parts, as save_to_disk writes it."""
    DatasetDict(train=pets(24), test=pets(6, 24)).save_to_disk(tmp_path / "pets")
    return str(tmp_path / "pets")


@pytest.mark.parametrize("storage", ["resident", "streamed"])
@pytest.mark.parametrize("prefix", ["", "hf:"])
def test_a_saved_set_has_its_own_parts(saved, prefix, storage):
    source = load(prefix + saved, storage=storage)
    assert (len(source), source.shape, source.name) == (24, (3, 32, 32), "pets")
    assert source.class_names == ("cat", "dog", "fox")
    assert source.labels.tolist() == [k % 3 for k in range(24)]
    assert source.origin.own_test and source.origin.n_held_out == 6
    test = load(prefix + saved, split="test", storage=storage)
    whole = load(prefix + saved, split="all")
    assert (len(test), len(whole)) == (6, 30)
    (last,) = whole.batches([torch.arange(24, 30)])
    (same,) = test.batches([torch.arange(6)])
    assert last.equal(same)


def test_rows_are_decoded_as_files_are(saved, tmp_path):
    (tmp_path / "files").mkdir()
    for k in range(5):
        (tmp_path / "files" / f"{k}.png").write_bytes(png(k))
    files = load(str(tmp_path / "files"), split="all")
    rows = load(saved, split="all", n=30)
    assert files.samples.equal(rows.samples[:5])


def test_one_split_alone_holds_out_a_tenth(saved):
    source, test = (load(f"hf:{saved}@train", split=s) for s in ("train", "test"))
    assert len(source) + len(test) == 24 and not source.origin.own_test
    assert source.origin.n_held_out == len(test) > 0


def test_the_library_loads_folders_and_files(tmp_path):
    """As it does by name, where the hub has such files."""
    place = tmp_path / "hub" / "data"
    place.mkdir(parents=True)
    pets(8).to_parquet(place / "train-00000-of-00001.parquet")
    pets(4, 8).to_parquet(place / "test-00000-of-00001.parquet")
    source = load(f"hf:{tmp_path / 'hub'}")
    assert (len(source), source.origin.n_held_out, source.name) == (8, 4, "hub")
    assert source.class_names == ("cat", "dog", "fox")
    file = place / "train-00000-of-00001.parquet"
    assert len(load(f"hf:{file}", split="all")) == 8
    assert len(load(f"hf:{tmp_path / 'hub'}@train[:50%]", split="all")) == 4


def test_objects_are_data_too():
    source = load(DatasetDict(train=pets(9), validation=pets(3, 9)))
    assert (len(source), source.origin.n_held_out) == (9, 3)
    assert len(load(pets(9), split="all")) == 9
    shuffled = load(pets(9).shuffle(seed=1).select(range(4)), split="all")
    assert len(shuffled) == 4 and len({*shuffled.labels.tolist()}) > 1


def test_a_test_part_whose_labels_are_secret_is_left_out():
    secret = images(5, 30, label=(lambda k: -1, PETS))
    source = load(DatasetDict(train=pets(9), validation=pets(3, 9), test=secret))
    assert (len(source), source.origin.n_held_out) == (9, 3)
    assert "Splits left out: test" in " ".join(map(str, source.notes))
    source = load(DatasetDict(train=pets(30), test=secret))
    assert not source.origin.own_test and 0 < source.origin.n_held_out < 10


def test_splits_that_nobody_knows_are_named():
    with pytest.raises(DataError, match="the splits a and b, but none called train"):
        load(DatasetDict(a=pets(3), b=pets(3)))
    assert len(load(DatasetDict(a=pets(3)), split="all")) == 3


def test_columns_of_images_are_told_apart(tmp_path):
    two = images(6, mask=(lambda k: {"bytes": png(k, "L"), "path": None}, Image()))
    assert load(two).shape == (3, 32, 32)
    two = two.rename_column("image", "left")
    with pytest.raises(
        DataError, match="It has left, mask: name it with --image-column"
    ):
        load(two)
    assert load(two, image_column="mask").shape == (1, 32, 32)
    with pytest.raises(DataError, match=r"no column 'rigth'.*left \(images\)"):
        load(two, image_column="rigth")
    plan = make_plan(Train(image_column="mask"), data=two)
    assert plan.source.shape == (1, 32, 32)
    with pytest.raises(SettingError, match="image_column is for methods of images"):
        make_plan(Train(data="shapes", image_column="mask"))


def test_classes_come_from_the_column_that_is_told():
    coarse = ClassLabel(names=["small", "large"])
    both = images(30, fine=(lambda k: k % 3, PETS), coarse=(lambda k: k % 2, coarse))
    source = load(both)
    assert source.class_names == ("cat", "dog", "fox")
    assert "(--target coarse takes others)" in " ".join(map(str, source.notes))
    plan = make_plan(Train(target="coarse", batch_size=8), data=both)
    assert plan.source.class_names == plan.held_out.class_names == ("small", "large")
    assert load(both, labels=False).labels is None


def test_other_columns_may_be_classes():
    words = images(8, label=(lambda k: "ab"[k % 2], Value("string")))
    assert load(words, split="all").class_names == ("a", "b")
    real = images(8, label=(lambda k: k / 7, Value("float32")))
    assert load(real, split="all").labels is None
    with pytest.raises(DataError, match="has 8 different numbers in 8 rows"):
        load(real, split="all", target="label")


def test_broken_rows_are_counted_and_named():
    rows = [{"bytes": png(k), "path": None} for k in range(20)]
    rows[3], rows[4] = {"bytes": b"none", "path": None}, None
    broken = Dataset.from_dict({"image": rows}, features=Features({"image": Image()}))
    source = load(broken)
    assert len(source) == 18
    text = " ".join(map(str, source.notes))
    assert "rows/3 (not an image)" in text and "rows/4 (no image in this row)" in text


def test_captions():
    lists = datasets.Sequence(Value("string"))
    both = images(
        20,
        captions=(lambda k: [f"thing {k}", f"a {k}"], lists),
        size=(int, Value("int32")),
    )
    assert has_captions(both) and not has_captions(pets(3))
    source = load(both, captions=True, split="all")
    assert source.other.kind.show(source.other.samples[7]) == "thing 7 / a 7"
    assert load(both, split="all").other is None
    plan = make_plan(Train(method="clip", batch_size=4), data=both)
    assert plan.source.other is not None and plan.test is not None
    two = images(
        4, a=(lambda k: "x", Value("string")), b=(lambda k: "y", Value("string"))
    )
    with pytest.raises(DataError, match=r"has the captions\? It has .*b \(string\)"):
        load(two, captions=True)


def sentences(n, start=0, column="text", label=True):
    rows = {column: [f"sentence number {k}" for k in range(start, start + n)]}
    features = {column: Value("string")}
    if label:
        rows["label"] = [k % 2 for k in range(n)]
        features["label"] = ClassLabel(names=["no", "yes"])
    return Dataset.from_dict(rows, features=Features(features))


def test_sentences():
    data = DatasetDict(train=sentences(20), test=sentences(5, 20))
    source, test = load(data), load(data, split="test")
    assert source.kind.name == "text" and (len(source), len(test)) == (20, 5)
    assert source.kind.show(source.samples[3]) == "sentence number 3"
    assert test.kind.show(test.samples[0]) == "sentence number 20"
    assert source.class_names == test.class_names == ("no", "yes")
    assert source.origin.own_test
    odd = sentences(20, column="utterance", label=False)
    assert len(load(odd)) == 20
    assert make_plan(Train(method="simcse", batch_size=4), data=odd).source
    two = odd.add_column("reply", ["yes indeed"] * 20)
    with pytest.raises(DataError, match="It has utterance, reply: name it with"):
        load(two, kind="text")
    assert len(load(two, text_column="reply,utterance", split="all")) == 20


def test_tables():
    def rows(n, start=0):
        numbers = range(start, start + n)
        return Dataset.from_dict(
            {
                "age": [float(k % 7) for k in numbers],
                "town": ["here" if k % 3 else "there" for k in numbers],
                "sex": [k % 2 for k in numbers],
            },
            features=Features(
                age=Value("float64"),
                town=Value("string"),
                sex=ClassLabel(names=["f", "m"]),
            ),
        )

    data = DatasetDict(train=rows(30), test=rows(8, 3))
    source, test = load(data), load(data, split="test")
    assert source.kind.name == "row" and [len(source), len(test)] == [30, 8]
    assert [column.name for column in source.kind.columns] == ["town", "age"]
    assert source.class_names == ("f", "m")
    assert test.labels.tolist() == [k % 2 for k in range(3, 11)]
    kept_apart = load(data, labels=False)
    assert [column.name for column in kept_apart.kind.columns] == ["town", "age"]
    with pytest.raises(DataError, match=r"no column of images: it has age \(float64\)"):
        load(data, kind="image")


def test_what_is_neither_is_named():
    odd = Dataset.from_dict({"when": [[1, 2], [3, 4]]})
    with pytest.raises(
        DataError, match="no column of images, texts or numbers: it has"
    ):
        load(odd)
    with pytest.raises(DataError, match="streamed"):
        load(pets(4).to_iterable_dataset())


def test_without_the_library(monkeypatch, saved):
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(DataError, match=r'pip install "invariance\[hf\]"'):
        load("hf:ylecun/mnist")
    with pytest.raises(DataError, match=r'pip install "invariance\[hf\]"'):
        load(saved)


def test_the_name_goes_to_the_library(monkeypatch):
    asked = []

    def load_dataset(name, config=None, split=None):
        asked.append((name, config, split))
        return DatasetDict(train=pets(8), test=pets(4)) if split is None else pets(5)

    monkeypatch.setattr(datasets, "load_dataset", load_dataset)
    assert len(load("hf:owner/pets")) == len(load("hf:owner/pets")) == 8
    assert len(load("hf:owner/pets:small@train[:10%]", split="all")) == 5
    assert asked == [("owner/pets", None, None), ("owner/pets", "small", "train[:10%]")]
    plan = make_plan(Train(data="hf:owner/pets:small", batch_size=4))
    assert plan.name == "pets-small-simclr" and plan.about_images()["path"] is None

    def fail(*_, **__):
        raise ConnectionError("no network")

    monkeypatch.setattr(datasets, "load_dataset", fail)
    with pytest.raises(
        DataError, match=r"hf:owner/cats cannot be loaded \(no network\)"
    ):
        load("hf:owner/cats")


def test_a_folder_that_is_not_there_is_named():
    with pytest.raises(DataError, match=r"There is no folder or file '\./nothing'"):
        train(Train(data="hf:./nothing"))


def test_the_fingerprint_is_that_of_the_rows(saved, tmp_path):
    before = fingerprint(saved)
    assert fingerprint(DatasetDict(train=pets(24), test=pets(6, 24))) == before
    assert fingerprint(DatasetDict(train=pets(24), test=pets(6, 25))) != before


def test_a_run_finds_its_set_from_elsewhere(saved, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run = train(
        Train(data="hf:pets", epochs=1, batch_size=8, evaluate=False, quiet=True)
    )
    assert run.folder.name == "pets-simclr"
    folder = run.folder.resolve()
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    scores = evaluate(folder, protocols=["knn"])
    assert {row["n_test"] for row in scores.rows} == {6}

import logging
import os
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from invariance.data import (
    Resident,
    Streamed,
    fingerprint,
    load,
    same_images,
)
from invariance.errors import DataError


def everything(source):
    return next(source.batches([torch.arange(len(source))]))


def test_class_folders_give_labels(fill):
    source = load(fill("dog", "cat/young", "cat/old"), split="all")
    assert source.class_names == ("cat", "dog")
    assert source.labels.tolist() == [0] * 10 + [1] * 5
    assert source.paths[0] == "cat/old/000.png"


@pytest.mark.parametrize("folders", [("",), ("deep/er",), ("", "cats", "dogs")])
def test_plain_files_are_unlabelled(fill, folders):
    source = load(fill(*folders), split="all")
    assert source.labels is None and source.class_names == ()
    assert len(source) == 5 * len(folders)


def test_a_folder_around_the_folder_changes_nothing(fill):
    source = load(fill("download/a", "download/b"), split="all")
    assert source.class_names == ("a", "b")


def test_a_file_of_labels_says_what_each_image_shows(fill):
    root = fill("", "more", n=20)
    names = sorted(p.relative_to(root).as_posix() for p in root.rglob("*.png"))
    tags = np.random.default_rng(0).integers(0, 2, (len(names), 3))
    lines = [
        f"{name}, {','.join(map(str, row))}"
        for name, row in zip(names, tags, strict=True)
    ]
    table = root / "labels.csv"
    table.write_text("\ufeffFile,person,dog,cat\n" + "\n".join(lines[::-1]) + "\n")
    whole = load(root, split="all")
    assert whole.labels is None and whole.class_names == ("person", "dog", "cat")
    assert whole.tags.tolist() == tags.tolist() and list(whole.paths) == names
    assert not any("csv" in str(note) for note in whole.notes)
    train, test = load(root), load(root, split="test", storage="streamed")
    assert len(train) + len(test) == 40 and len(test.tags) == len(test) > 0
    mark = fingerprint(root)
    table.write_text(table.read_text().replace(",1", ",0"))
    assert same_images(mark, fingerprint(root)) and mark != fingerprint(root)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("file,a,b\n000.png,1,2\n", r"Line 2 .* 2 numbers that are 0 or 1: got '000"),
        ("file,a,b\n000.png,1\n", "Line 2 .* needs a file and 2 numbers"),
        ("file,a,b\n000.png,1,1\n", r"4 images are not in .*the first is 001\.png"),
    ],
)
def test_a_file_of_labels_that_does_not_fit(fill, text, message):
    root = fill("")
    (root / "labels.csv").write_text(text)
    with pytest.raises(DataError, match=message):
        load(root)


def test_a_file_of_labels_may_spell_paths_its_own_way(fill):
    root = fill("caf\N{LATIN SMALL LETTER E}\N{COMBINING ACUTE ACCENT}", n=3)
    rows = "".join(f"caf\u00e9\\{k:03}.png,{k % 2},1\n" for k in range(3))
    (root / "labels.csv").write_text(f"file,a,b\n{rows}", encoding="utf-8")
    assert load(root, split="all").tags.tolist() == [[0, 1], [1, 1], [0, 1]]


def test_another_kind_of_labels_is_left_alone(fill):
    root = fill("cat", "dog")
    (root / "labels.csv").write_text("name,class\n000.png,cat\n")
    source = load(root, split="all")
    assert source.tags is None and source.class_names == ("cat", "dog")
    assert "1 file without an image's ending left out (.csv)" in str(source.notes[0])


@pytest.mark.parametrize("name", ["test", "val", "Validation"])
def test_train_and_test_folders_are_the_splits(fill, name):
    root = fill("train/a", "train/b", f"{name}/b", "extra", n=3)
    train, test = load(root), load(root, split="test")
    assert (len(train), len(test), len(load(root, split="all"))) == (6, 3, 9)
    assert train.class_names == test.class_names == ("a", "b")
    assert test.labels.tolist() == [1, 1, 1]
    assert any("3 images outside train" in str(note) for note in train.notes)


def test_without_a_test_folder_a_tenth_is_held_out(fill):
    root = fill("a", "b", n=60)
    train, test = load(root), load(root, split="test")
    assert not {*train.paths} & {*test.paths}
    assert len(train) + len(test) == 120 and 4 <= len(test) <= 22
    before = {*test.paths}
    fill("c", n=10)
    assert before <= {*load(root, split="test").paths}


def test_names_with_spaces_and_other_letters(fill):
    source = load(fill("my cats", "собаки", "鳥 🐦"), split="all")
    assert source.class_names == ("my cats", "собаки", "鳥 🐦")
    assert "鳥 🐦/000.png" in source.paths


def test_a_messy_folder_loads_and_tells(tmp_path, picture):
    for k in range(100):
        picture(k).save(tmp_path / f"photo {k} é.png")
    for k in range(4):
        (tmp_path / f"broken{k}.jpg").write_bytes(os.urandom(300))
    picture(0, 64).save(tmp_path / "cut.png")
    whole = (tmp_path / "cut.png").read_bytes()
    (tmp_path / "cut.png").write_bytes(whole[: len(whole) // 2])
    for k in range(3):
        (tmp_path / f"zero{k}.png").touch()
    for name in ("read me.txt", "list.csv", "LICENSE", ".DS_Store", ".hidden.png"):
        (tmp_path / name).write_text("words")
    (tmp_path / "__MACOSX").mkdir()
    (tmp_path / "__MACOSX" / "ghost.png").write_text("words")
    source = load(tmp_path, split="all", storage="resident")
    assert isinstance(source, Resident) and len(source) == 100
    assert {*source.unreadable} == {
        *(f"broken{k}.jpg" for k in range(4)),
        *(f"zero{k}.png" for k in range(3)),
        "cut.png",
    }
    text = " ".join(map(str, source.notes))
    assert "3 files without an image's ending left out" in text
    assert "8 unreadable images were left out" in text and "zero1.png (an empty" in text
    assert "resident on cpu, as asked" in text
    kinds = [note.kind for note in source.notes]
    assert kinds == ["left out", "size", "storage", "unreadable"]


def test_a_folder_that_cannot_be_opened_is_called_one(fill, monkeypatch):
    root = fill("open", "closed")
    scan = os.scandir

    def refuse(place):
        if Path(place).name == "closed":
            raise PermissionError(13, "Permission denied", str(place))
        return scan(place)

    monkeypatch.setattr(os, "scandir", refuse)
    text = " ".join(map(str, load(root, split="all").notes))
    assert "1 unreadable folder was left out: closed/ (Permission denied)." in text
    for path in (root / "open").iterdir():
        path.unlink()
    with pytest.raises(DataError, match=r"The only folder of .*, closed/, cannot be"):
        load(root, split="all")


def test_broken_files_met_while_streaming_are_replaced(fill, caplog):
    root = fill("a", "b", n=12)
    cut = root / "a" / "003.png"
    cut.write_bytes(cut.read_bytes()[:200])
    source = load(root, split="all", storage="streamed", workers=0)
    with caplog.at_level(logging.WARNING, logger="invariance.data"):
        batch, again = source.batches([torch.tensor([3, 4, 3]), torch.tensor([3])])
    assert len(batch) == 3
    assert torch.equal(batch[0], batch[1]) and torch.equal(again[0], batch[1])
    assert [*source.unreadable] == ["a/003.png"]
    assert sum("a/003.png cannot be read" in m for m in caplog.messages) == 1
    assert any(
        "replaced by a neighbor: a/003.png" in str(note) for note in source.notes
    )


def test_the_neighbor_has_the_same_class(fill):
    root = fill("a", "b", n=5)
    cut = root / "a" / "004.png"
    cut.write_bytes(cut.read_bytes()[:200])
    source = load(root, split="all", storage="streamed", workers=0)
    (pair,) = source.batches([torch.tensor([4, 0])])
    assert torch.equal(pair[0], pair[1])


@pytest.mark.parametrize("storage", ["resident", "streamed"])
def test_too_many_broken_files_are_an_error(fill, storage):
    root = fill(n=30)
    for k in range(10):
        cut = root / f"{k:03}.png"
        cut.write_bytes(cut.read_bytes()[:200])
    with pytest.raises(DataError, match=r"10 of the \d+ images .* cannot be read"):
        everything(load(root, split="all", storage=storage, workers=0))
    some = load(root, split="all", storage=storage, workers=0, max_bad_fraction=0.5)
    assert len(everything(some)) == (20 if storage == "resident" else 30)


def test_broken_files_do_not_count_against_a_small_part(fill):
    root = fill(n=40)
    for k in range(8):
        (root / f"zero{k}.png").touch()
    test = load(root, split="test", hold_out="tenth")
    assert len(test) < 20 and len(test.unreadable) == 8


def test_a_worker_reports_a_disk_that_fails(fill):
    root = fill(n=30)
    source = load(root, split="all", storage="streamed", workers=1)
    for file in root.iterdir():
        file.unlink()
    with pytest.raises(DataError, match=r"000\.png and the 29 tried in its place"):
        everything(source)


def test_none_can_be_read(tmp_path):
    for k in range(3):
        (tmp_path / f"{k}.png").write_text("not a picture")
    with pytest.raises(DataError, match=r"None of the 3 images .*not an image"):
        load(tmp_path)


def test_an_empty_folder(tmp_path):
    with pytest.raises(DataError, match=r"holds no images: put PNG"):
        load(tmp_path)
    (tmp_path / "notes.txt").write_text("words")
    with pytest.raises(DataError, match=r"holds no images \(only \.txt files\)"):
        load(str(tmp_path))


def test_one_image(fill):
    root = fill(n=1)
    with pytest.raises(DataError, match=r"has 1 readable image, .* at least 2"):
        load(root)
    assert len(load(root, split="all")) == 1


def test_two_images_give_both_parts(fill):
    root = fill("a", "b", n=1)
    assert len(load(root)) == len(load(root, split="test")) == 1


def test_loops_of_links_end(fill):
    root = fill("a", "b")
    (root / "a" / "again").symlink_to(root)
    (root / "b" / "gone.png").symlink_to(root / "nowhere.png")
    source = load(root, split="all")
    assert len(source) == 10
    assert source.unreadable == {"b/gone.png": "a broken link"}


def test_names_that_are_not_unicode_can_be_told(fill):
    root = fill(n=3)
    with open(os.fsencode(root) + b"/caf\xe9.png", "wb") as file:  # noqa: PTH123
        file.write(b"nothing")
    source = load(root, split="all", max_bad_fraction=0.5)
    assert len(source) == 3
    " ".join(map(str, source.notes)).encode("utf-8")


@pytest.mark.parametrize(("side", "size"), [(10, 32), (50, 48), (300, 128)])
def test_the_size_is_the_median_shorter_side(tmp_path, side, size, picture):
    for k in range(3):
        picture(k, side).save(tmp_path / f"{k}.png")
    source = load(tmp_path)
    assert source.shape == (3, size, size)
    assert any(f"image_size={size} was chosen" in str(note) for note in source.notes)
    assert load(tmp_path, image_size=24, channels=1).shape == (1, 24, 24)


def test_train_and_test_have_one_size(tmp_path, picture):
    for k in range(30):
        picture(k, 40 + 4 * k).save(tmp_path / f"{k}.png")
    train, test = (
        load(tmp_path, split=split, hold_out="tenth") for split in ("train", "test")
    )
    assert train.shape == test.shape


@pytest.mark.parametrize("workers", [0, 2])
def test_streamed_is_resident_in_any_order(fill, workers):
    root = fill("a", "b", n=20)
    resident = load(root, split="all", storage="resident")
    streamed = load(root, split="all", storage="streamed", workers=workers)
    assert isinstance(streamed, Streamed)
    assert resident.paths == streamed.paths
    order = torch.randperm(40, generator=torch.Generator().manual_seed(0))
    asked = [*order.split(7), order[:1], order[:0]]
    pairs = zip(resident.batches(asked), streamed.batches(iter(asked)), strict=True)
    for index, (a, b) in zip(asked, pairs, strict=True):
        assert a.shape == (len(index), 3, 32, 32) and a.dtype == torch.uint8
        assert torch.equal(a, b)


def test_an_endless_stream_can_be_left(fill):
    source = load(fill(n=6), split="all", storage="streamed", workers=1)

    def forever():
        while True:
            yield torch.tensor([0, 1])

    stream = source.batches(forever())
    assert len(next(stream)) == 2
    stream.close()


def test_at_most_n_evenly_spread(fill):
    root = fill("a", "b", n=20)
    source = load(root, split="all", n=10)
    assert source.labels.tolist() == [0] * 5 + [1] * 5
    assert source.paths[1] == "a/004.png"


def test_every_kind_of_file_in_one_folder(tmp_path):
    rng = np.random.default_rng(0)
    base = Image.fromarray(rng.integers(0, 256, (40, 40, 3), np.uint8))
    for mode in ("RGB", "L", "RGBA", "LA", "P", "1"):
        base.convert(mode).save(tmp_path / f"{mode}.png")
    Image.fromarray(rng.integers(0, 65536, (40, 40), np.uint16)).save(
        tmp_path / "wide.PNG"
    )
    for suffix in ("JPG", "webp", "bmp", "gif", "tif"):
        base.save(tmp_path / f"a.{suffix}")
    base.convert("CMYK").save(tmp_path / "cmyk.jpeg")
    source = load(tmp_path, split="all")
    assert len(source) == 13 and not source.unreadable
    assert everything(source).shape == (13, 3, 40, 40)

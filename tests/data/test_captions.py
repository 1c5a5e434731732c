"""Images with captions, from folders and shards; what cannot be used costs itself."""

import csv
import io
import json
import tarfile

import pyarrow
import pyarrow.parquet
import pytest
import torch
from PIL import Image

from invariance.data import load
from invariance.errors import DataError

N = 30


def draw(k):
    return Image.new("RGB", (16, 16), (8 * k, 255 - 8 * k, 100))


def caption(k, form=0):
    return [f"a thing of number {k}", f"number {k} it is"][form]


@pytest.fixture
def folder(tmp_path):
    """Thirty images in two subfolders, without captions."""
    root = tmp_path / "photos"
    for k in range(N):
        path = root / "ab"[k % 2] / f"{k}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        draw(k).save(path)
    return root


def name(k):
    return f"{'ab'[k % 2]}/{k}.png"


def write_csv(path, rows, head=("image", "caption")):
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([head, *rows])


def sentences(source, row=0):
    """All captions of a sample in words."""
    tokens = next(iter(source.other.batches([torch.tensor([row])])))[0]
    return source.other.kind.show(tokens).split(" / ")


def numbers(source):
    """Which images these are, by their color, and by their first caption."""
    pixels = next(iter(source.batches([torch.arange(len(source))])))
    colors = (pixels[:, 0, 0, 0].float() / 8).round().long().tolist()
    texts = [int("".join(filter(str.isdigit, sentences(source, i)[0])))
             for i in range(len(source))]  # fmt: skip
    return colors, texts


@pytest.mark.parametrize(("forms", "more"), [(1, ""), (2, ", 2 of each image at most")])
def test_captions_say_how_long_and_how_many_they_are(folder, forms, more):
    rows = [(name(k), caption(k, form)) for k in range(N) for form in range(forms)]
    write_csv(folder / "captions.csv", rows)
    kind = load(folder, captions=True).other.kind
    assert kind.shape_words == f"up to {kind.shape[1]} tokens{more}"


@pytest.mark.parametrize("kind", ["csv", "jsonl", "parquet", "list"])
@pytest.mark.parametrize("storage", ["resident", "streamed"])
def test_captions_go_with_their_images(folder, kind, storage):
    rows = [(name(k), caption(k, form)) for k in range(N) for form in (0, 1)]
    if kind == "csv":
        write_csv(folder / "captions.csv", rows)
    elif kind == "jsonl":
        lines = [json.dumps({"file_name": a, "text": b}) for a, b in rows]
        (folder / "metadata.jsonl").write_text("\n".join(lines))
    elif kind == "parquet":
        table = pyarrow.table(
            {"path": [a for a, _ in rows], "title": [b for _, b in rows]}
        )
        pyarrow.parquet.write_table(table, folder / "captions.parquet")
    else:
        lines = [json.dumps({"image": name(k), "captions": [caption(k), caption(k, 1)]})
                 for k in range(N)]  # fmt: skip
        (folder / "captions.jsonl").write_text("\n".join(lines))
    source = load(folder, captions=True, storage=storage, workers=0)
    colors, texts = numbers(source)
    assert colors == texts
    assert sentences(source) == [caption(texts[0]), caption(texts[0], 1)]
    assert source.other.kind.shape[0] == 2


def test_all_captions_of_an_image_are_in_one_part(folder):
    write_csv(folder / "captions.csv", [(name(k), caption(k, f))
                                        for k in range(N) for f in (0, 1)])  # fmt: skip
    train = load(folder, captions=True)
    how = {"captions": True, "other_kind": train.other.kind}
    test = load(folder, split="test", **how)
    first, second = (set(numbers(source)[1]) for source in (train, test))
    assert not first & second
    assert len(first | second) == N
    assert train.other.kind.seen == test.other.kind.seen


def test_a_named_file_and_named_columns(folder, tmp_path):
    path = tmp_path / "words.csv"
    write_csv(path, [(f"{k}.png", "?", caption(k)) for k in range(N)],
              ("who", "id", "says"))  # fmt: skip
    source = load(folder, captions=path, image_column="who", text_column="says")
    colors, texts = numbers(source)
    assert colors == texts
    with pytest.raises(DataError, match=r"who, id, says.*--image-column"):
        load(folder, captions=path)
    with pytest.raises(DataError, match="There is no file"):
        load(folder, captions="nothing.csv")


def test_without_captions_a_folder_is_images(folder):
    write_csv(folder / "captions.csv", [(name(0), caption(0))])
    assert load(folder, split="all").other is None
    (folder / "captions.csv").unlink()
    with pytest.raises(DataError, match=r"has no captions.csv.*--captions"):
        load(folder, captions=True)


def test_what_cannot_be_used_is_named_and_the_rest_is_used(folder):
    rows = [[name(k), caption(k)] for k in range(2, N)]
    rows += [["lost.png", "nothing to see"], [name(3), "  "], [name(4)]]
    write_csv(folder / "captions.csv", rows)
    with (folder / "captions.csv").open("ab") as file:
        file.write(f"{name(5)},caf".encode() + b"\xe9\n")
    source = load(folder, captions=True, split="all")
    assert len(source) == N - 2
    text = "\n".join(map(str, source.notes))
    assert "2 images without a caption left out: a/0.png, b/1.png." in text
    assert "1 captioned image that does not exist left out: lost.png." in text
    assert (
        "3 captions that cannot be used left out: line 31 (an empty sentence), "
        "line 33 (not UTF-8 text), line 32 (1 column instead of 2)." in text
    )


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "Which column of .* has the images"),
        ("image,caption\n", "holds no caption that can be used"),
        (
            'image,caption\na/0.png,"a red\nb/1.png,a',
            "quotation mark in line 2 .* never closed",
        ),
        (
            "image,caption\nx.png,one\ny.png,two\n",
            "has 2 captioned images that do not",
        ),
        (
            "image,caption\na/0.png,one\n",
            "29 images without a caption, of 30, more than",
        ),
    ],
)
def test_a_file_that_cannot_be_used_is_refused(folder, content, message):
    (folder / "captions.csv").write_text(content)
    with pytest.raises(DataError, match=message):
        load(folder, captions=True)


def test_two_files_of_captions_are_a_question(folder):
    for ending in ("csv", "jsonl"):
        (folder / f"captions.{ending}").write_text("image,caption\n")
    with pytest.raises(DataError, match=r"captions.csv and captions.jsonl.*--captions"):
        load(folder, captions=True)


def add_file(shard, path, content):
    about = tarfile.TarInfo(path)
    about.size = len(content)
    shard.addfile(about, io.BytesIO(content))


@pytest.fixture
def shards(tmp_path):
    """Three shards of ten; captions as texts and as fields."""
    for part in range(3):
        with tarfile.open(tmp_path / f"part-{part:02}.tar", "w") as shard:
            for k in range(10 * part, 10 * part + 10):
                file = io.BytesIO()
                draw(k).save(file, "PNG")
                add_file(shard, f"{k:05}.png", file.getvalue())
                if k % 2:
                    add_file(shard, f"{k:05}.txt", caption(k).encode())
                else:
                    about = {"caption": [caption(k), caption(k, 1)], "url": "?"}
                    add_file(shard, f"{k:05}.json", json.dumps(about).encode())
    return tmp_path


@pytest.mark.parametrize("storage", ["resident", "streamed"])
@pytest.mark.parametrize("data", ["", "part-{00..02}.tar", "part-*.tar"])
def test_shards_are_read_as_they_are(shards, data, storage):
    how = {"captions": True, "storage": storage, "workers": 0}
    source = load(str(shards / data), split="all", **how)
    colors, texts = numbers(source)
    assert colors == texts == list(range(N))
    assert source.paths[3] == "part-00.tar/00003.png"
    assert len(sentences(source, 0)) == 2
    assert len(sentences(source, 1)) == 1
    train, test = (load(str(shards / data), split=s, **how) for s in ("train", "test"))
    assert sorted(numbers(train)[0] + numbers(test)[0]) == list(range(N))


def test_shards_are_images_too(shards):
    source = load(str(shards / "part-01.tar"))
    assert (len(source), source.other) == (10, None)


def test_broken_shards_give_what_they_have(shards):
    path = shards / "part-02.tar"
    path.write_bytes(path.read_bytes()[:9000])  # in the midst of the fifth image
    with tarfile.open(shards / "part-03.tar", "w") as shard:
        add_file(shard, "1.txt", b"a caption alone")
        add_file(shard, "2.txt", b"caf\xe9")
    source = load(str(shards), captions=True, split="all", max_bad_fraction=0.5)
    text = "\n".join(map(str, source.notes))
    assert 20 < len(source) < 27
    assert "part-02.tar" in text
    assert "1 captioned image that does not exist left out: part-03.tar/1" in text
    assert "part-03.tar/2.txt (not UTF-8 text)" in text
    (shards / "packed.tar").write_bytes(b"\x1f\x8b" + b"0" * 2000)
    with pytest.raises(DataError, match=r"not a plain \.tar file"):
        load(str(shards / "packed.tar"), captions=True)
    with pytest.raises(DataError, match="no folder or file"):
        load(str(shards / "part-{07..09}.tar"), captions=True)


def test_captioned_shapes_hold_combinations_out():
    train = load("captioned_shapes", n=400, captions=True)
    test = load("captioned_shapes", n=100, split="test", captions=True,
                other_kind=train.other.kind)  # fmt: skip
    names = train.other.class_names
    held_out = {names[k] for k in test.other.labels.tolist()}
    assert len(names) == 80
    assert len(held_out) == 16
    said = " ".join(one for i in range(400) for one in sentences(train, i))
    assert not any(f"{both} " in said for both in held_out)
    for i in range(20):
        color, shape = names[test.other.labels[i]].split()
        assert test.class_names[test.labels[i]] == shape
        assert all(color in one and shape in one for one in sentences(test, i))
    assert load("captioned_shapes", n=10).other is None

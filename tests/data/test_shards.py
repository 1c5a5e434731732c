"""WebDataset's shards: plain images with classes, parts, broken members, resume."""

import io
import json
import tarfile

import pytest
import torch

from invariance import Train, embed, train
from invariance.data import data_exists, find_place, fingerprint, has_captions, load
from invariance.errors import DataError


class ShardWriter:
    """Writes samples as webdataset.ShardWriter does: its names, order and encoders."""

    def __init__(self, pattern, maxcount):
        self.pattern, self.maxcount, self.n, self.tar = pattern, maxcount, 0, None

    def write(self, sample):
        if self.n % self.maxcount == 0:
            self.close()
            place = self.pattern % (self.n // self.maxcount)
            self.tar = tarfile.open(place, "w")  # noqa: SIM115, close does it
        for field in sorted(sample):
            if field != "__key__":
                self.add(f"{sample['__key__']}.{field}", encode(field, sample[field]))
        self.n += 1

    def add(self, name, content):
        about = tarfile.TarInfo(name)
        about.size, about.mode = len(content), 0o444
        self.tar.addfile(about, io.BytesIO(content))

    def close(self):
        if self.tar is not None:
            self.tar.close()


def encode(field, value):
    if isinstance(value, bytes):
        return value
    if field.endswith("json"):
        return json.dumps(value).encode()
    if field.rpartition(".")[2] in ("jpg", "png"):
        file = io.BytesIO()
        value.save(file, "PNG")
        return file.getvalue()
    return str(value).encode()


@pytest.fixture
def write(tmp_path, picture):
    """Write n samples into shards of ten; ``about(k)`` is what goes with image k."""

    def write_shards(about=lambda k: {"cls": k % 3}, n=30, pattern="part-%06d.tar"):
        (tmp_path / pattern).parent.mkdir(parents=True, exist_ok=True)
        writer = ShardWriter(str(tmp_path / pattern), maxcount=10)
        for k in range(n):
            sample = {"__key__": f"sample{k:06d}", "png": picture(k)}
            writer.write({k: v for k, v in (sample | about(k)).items() if v != ""})
        writer.close()
        return tmp_path

    return write_shards


@pytest.mark.parametrize("storage", ["resident", "streamed"])
@pytest.mark.parametrize("data", ["", "part-{000000..000002}.tar", "part-*.tar"])
def test_plain_images_with_classes(write, data, storage):
    place = str(write() / data)
    source = load(place, split="all", storage=storage)
    assert len(source) == 30 and source.shape == (3, 32, 32)
    assert source.labels.tolist() == [k % 3 for k in range(30)]
    assert source.paths[11] == "part-000001.tar/sample000011.png"
    assert source.origin.classes_by == "label"
    train_part, test_part = (load(place, split=s) for s in ("train", "test"))
    assert test_part.paths and not {*train_part.paths} & {*test_part.paths}
    assert train_part.origin.n_held_out == len(test_part) == 30 - len(train_part)


def test_any_order_gives_the_same_image(write):
    source = load(str(write()), split="all", storage="streamed", workers=0)
    there = load(str(write()), split="all", storage="resident")
    rows = torch.tensor([29, 0, 17])
    assert next(source.batches([rows])).equal(next(there.batches([rows])))


@pytest.mark.parametrize(
    ("about", "names"),
    [
        (lambda k: {"cls": ["cat", "dog"][k % 2]}, ("cat", "dog")),
        (lambda k: {"cls.txt": f"{k % 2}\n"}, ("0", "1")),
        (lambda k: {"json": {"label": k % 2, "id": k}}, ("0", "1")),
        (lambda k: {"json": {"label": ["no", "yes"][k % 2]}}, ("no", "yes")),
        (lambda k: {"cls": k % 2, "json": {"label": 7}}, ("0", "1")),
    ],
)
def test_classes_are_said_in_several_ways(write, about, names):
    source = load(str(write(about)), split="all")
    assert source.labels.tolist() == [k % 2 for k in range(30)]
    assert source.class_names == names


def test_without_classes_all_is_for_training(write):
    place = str(write(lambda k: {"json": {"url": k}}))
    source = load(place)
    assert len(source) == 30 and source.labels is None
    assert source.origin.n_held_out == 0
    with pytest.raises(DataError, match="no labels to score by"):
        load(place, split="test")


def test_labels_can_be_left_aside(write):
    source = load(str(write()), labels=False)
    assert len(source) == 30 and source.labels is None


def test_a_tar_of_a_folder_has_the_classes_of_the_folder(write):
    place = write(lambda k: {"__key__": f"pets/{['cat', 'dog'][k % 2]}/{k}"})
    source = load(str(place), split="all")
    assert source.class_names == ("cat", "dog")
    assert source.labels.tolist() == [k % 2 for k in range(30)]
    assert source.origin.classes_by == "folder"


def test_a_tar_of_a_folder_has_its_parts(write):
    def about(k):
        return {"__key__": f"{'test' if k >= 24 else 'train'}/{'ab'[k % 2]}/{k}"}

    place = str(write(about))
    assert [len(load(place, split=s)) for s in ("train", "test", "all")] == [24, 6, 30]
    assert load(place).class_names == ("a", "b")


def test_own_parts_by_the_names_of_shards(write):
    write(pattern="birds-train-%02d.tar")
    place = str(write(lambda k: {"cls": 2}, n=12, pattern="birds-val-%02d.tar"))
    source, test_part = load(place), load(place, split="test")
    assert (len(source), len(test_part), source.origin.n_held_out) == (30, 12, 12)
    assert source.origin.own_test
    assert len(load(place, split="all")) == 42
    assert test_part.labels.unique().tolist() == [2]
    assert test_part.class_names == source.class_names == ("0", "1", "2")


def test_parts_by_folders_of_shards(write):
    write(pattern="train/%02d.tar")
    place = str(write(n=10, pattern="valid/%02d.tar"))
    assert len(load(place)) == 30
    assert load(place, split="test").paths[0] == "valid/00.tar/sample000000.png"


def test_a_part_that_is_neither_is_left_out(write):
    for part in ("train", "val", "test"):
        place = str(write(n=10, pattern=part + "-%02d.tar"))
    source = load(place)
    assert (len(source), source.origin.n_held_out) == (10, 10)
    assert "10 images outside train and test left out." in map(str, source.notes)


@pytest.mark.parametrize("storage", ["resident", "streamed"])
def test_broken_members_are_counted_and_named(write, storage):
    broken = {4: b"no image", 5: b""}
    place = str(write(lambda k: {"png": broken[k]} if k in broken else {"cls": k % 3}))
    source = load(place, split="all", storage=storage)
    assert len(source) == 28
    text = " ".join(map(str, source.notes))
    assert "2 unreadable images were left out: part-000000.tar/sample000004.png" in text


def test_too_many_broken_members_are_an_error(write):
    place = str(write(lambda k: {"png": b"nothing"} if k % 2 else {}))
    with pytest.raises(DataError, match=r"15 of the 30 images .* cannot be read"):
        load(place)


def test_images_without_a_class(write):
    place = str(write(lambda k: {"cls": -1 if k in (3, 4) else k % 3}))
    source = load(place)
    text = " ".join(map(str, source.notes))
    assert "2 images of" in text and "sample000003.png: --no-labels" in text
    assert len(load(place, labels=False)) == 30
    assert load(place, split="all").labels.tolist()[2:5] == [2, -1, -1]
    place = str(write(lambda k: {"cls": k if k < 5 else "", "json": {}}))
    with pytest.raises(DataError, match=r"25 images of .* without a class, of 30"):
        load(place)


def test_a_sample_of_several_images(write, picture):
    place = str(write(lambda k: {"mask.png": picture(k), "cls": 1}))
    source = load(place, split="all")
    assert len(source) == 30 and source.paths[0].endswith("sample000000.png")
    assert "30 further images of samples left out" in " ".join(map(str, source.notes))
    both = write(
        lambda k: {"png": "", "left.png": picture(k), "right.png": picture(k)},
        pattern="stereo/%02d.tar",
    )
    assert len(load(str(both / "stereo"))) == 60


def test_lists_of_shards(write):
    place = write()
    names = [str(place / f"part-00000{k}.tar") for k in range(3)]
    for data in (names[:2], tuple(names[:2]), "::".join(names[:2])):
        assert len(load(data, split="all")) == 20
    many = "::".join(names[:1] * 200)  # longer than any path can be
    assert len(load(many, split="all")) == 10 and data_exists(many)
    assert find_place(many) == many


def test_an_archive_beside_images_is_no_shard(write, fill):
    write()
    source = load(str(fill("cats", "dogs")))
    assert source.class_names == ("cats", "dogs")
    assert "(.tar)" in " ".join(map(str, source.notes))


def test_the_fingerprint_says_when_labels_or_images_change(write):
    place = str(write())
    before = fingerprint(place)
    assert fingerprint(str(write(lambda k: {"cls": k % 2}))) != before
    images = before.partition("+")[0]
    assert fingerprint(place).partition("+")[0] == images
    assert fingerprint(str(write(n=29))).partition("+")[0] != images


def test_a_shard_that_is_cut_off_may_be_asked_for_captions(write):
    root = write(lambda k: {"txt": f"thing {k}"}, n=9)
    (shard,) = root.glob("*.tar")
    assert has_captions(root)
    content = shard.read_bytes()
    for n in (1000, len(content) // 2):
        shard.write_bytes(content[:n])
        assert has_captions(root) == (n > 3000)


def test_packed_shards_are_answered_in_words(tmp_path):
    (tmp_path / "a.tar.gz").write_bytes(b"\x1f\x8b" + b"0" * 2000)
    with pytest.raises(DataError, match="without compression"):
        load(str(tmp_path / "a.tar.gz"))


def test_a_run_resumes_exactly_and_embeds_by_name(write, tmp_path, monkeypatch):
    place = write()
    monkeypatch.chdir(place)
    how = {"batch_size": 8, "epochs": 2, "log_every": 1}
    how |= {"evaluate": False, "quiet": True}
    data = "part-{000000..000002}.tar"
    whole = train(Train(data=data, out="whole", **how))
    assert whole.folder.name == f"{tmp_path.name}-simclr"

    def stop(epoch, learner):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(
            Train(data=data, out="part", checkpoint_seconds=0.0, **how), each_epoch=stop
        )
    (folder,) = (tmp_path / "part").iterdir()
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    resumed = train(Train(resume=str(folder), quiet=True))
    losses = [
        [(row["step"], row["loss"]) for row in run.metrics if "loss" in row]
        for run in (type(whole)(tmp_path / whole.folder), resumed)
    ]
    assert losses[0] == losses[1]
    rows = embed(folder, str(place))
    assert rows.names[29] == "part-000002.tar/sample000029.png"
    assert rows.labels.tolist() == [k % 3 for k in range(30)]

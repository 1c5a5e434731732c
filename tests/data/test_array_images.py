import pickle

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader, Dataset, IterableDataset

from invariance.data import Resident, fingerprint, load, same_images
from invariance.errors import DataError, SettingError

RNG = np.random.default_rng(0)
COLOR = RNG.integers(0, 256, (30, 12, 12, 3), np.uint8)


def everything(source):
    return next(source.batches([torch.arange(len(source))]))


@pytest.mark.parametrize(
    "images",
    [
        COLOR,
        torch.from_numpy(COLOR),
        torch.from_numpy(COLOR).permute(0, 3, 1, 2),
        COLOR.transpose(0, 3, 1, 2).copy(),
        (COLOR / 255).astype(np.float32),
        torch.from_numpy(COLOR) / 255,
        COLOR.astype(np.float64),
        COLOR.astype(np.int64),
        COLOR.astype(np.uint16) * 257,
        np.concatenate([COLOR, np.full((30, 12, 12, 1), 255, np.uint8)], 3),
    ],
    ids=str,
)
def test_every_layout_and_type_gives_the_same_bytes(images):
    wanted = torch.from_numpy(COLOR).permute(0, 3, 1, 2)
    assert torch.equal(everything(load(images, split="all")), wanted)


def test_grey_stays_grey_unless_asked():
    grey = COLOR[..., 0]
    assert load(grey, split="all").shape == (1, 12, 12)
    three = load(grey, split="all", channels=3)
    assert three.shape == (3, 12, 12)
    assert torch.equal(everything(three)[:, 1], torch.from_numpy(grey))
    assert load(grey > 99, split="all").shape == (1, 12, 12)


def test_resized_and_squared():
    assert load(COLOR, split="all", image_size=8, channels=1).shape == (1, 8, 8)
    assert load(COLOR[:, :9], split="all").shape == (3, 9, 9)


@pytest.mark.parametrize(
    ("images", "message"),
    [
        (np.zeros((5, 8, 8, 2), np.uint8), r"shape \(5, 8, 8, 2\): images come as"),
        (np.zeros(5, np.uint8), r"shape \(5,\)"),
        (np.zeros((0, 8, 8), np.uint8), r"is empty, of shape \(0, 8, 8\)"),
        (np.full((5, 8, 8), -1.0), "values from -1 to -1: expected uint8"),
        (np.full((5, 8, 8), 300), "values from 300 to 300"),
        (np.full((5, 8, 8), np.nan), "holds NaN or infinite values"),
        (
            np.full((5, 8, 8), 1.7),
            "floats up to 1.7, a range that is neither 0 to 1 nor",
        ),
        (np.zeros((5, 8, 8), complex), "holds complex128 values"),
        (np.zeros((1, 8, 8), np.uint8), "at least 2"),
        (torch.zeros(3, 8, 8), r"single image of 3 channels or 3 gray images: give a"),
        (np.zeros((4, 9, 9)), r"single image as images\[None\], 4 gray images as im"),
        (np.zeros((9, 9, 3), np.uint8), r"single image with 3 channels: give it as"),
        (np.zeros((9, 8, 1)), r"with 1 channel: give it as images\[None\]"),
        (7, "data is a int: expected a data set's name"),
    ],
)
def test_what_is_no_array_of_images(images, message):
    with pytest.raises(DataError, match=message):
        load(images)


def test_bfloat16_is_read_as_floats_are():
    x = torch.randint(256, (5, 3, 8, 8)) / 256  # exact in bfloat16
    for data, same in ((x, x.bfloat16()), ([*x], [*x.bfloat16()])):
        one, other = (load(images, split="all").samples for images in (data, same))
        assert torch.equal(one, other)
    rows = torch.randn(5, 7).bfloat16()
    assert torch.equal(load(rows, split="all").samples, rows.float())


def test_rows_of_numbers_one_by_one_are_answered_with_how_to_give_them():
    for rows in ([[1.0, 2.0]] * 4, [np.ones(3)] * 4):
        with pytest.raises(DataError, match=r"Rows of numbers come as one array"):
            load(rows)


def test_labels_tell_gray_images_from_the_channels_of_one():
    images = np.arange(3 * 8 * 8, dtype=np.uint8).reshape(3, 8, 8)
    counted = load((images, [0, 1, 0]), split="all")
    assert (len(counted), counted.shape) == (3, (1, 8, 8))
    said = load(images[:, None], split="all"), load(images[None], split="all")
    assert [(len(x), x.shape) for x in said] == [(3, (1, 8, 8)), (1, (3, 8, 8))]
    assert torch.equal(said[0].samples[:, 0], said[1].samples[0])
    tiny = load(np.zeros((50, 4, 4), np.uint8), split="all")  # gray, however small
    assert (len(tiny), tiny.shape) == (50, (1, 4, 4))


def test_labels_follow_their_images():
    labels = np.arange(30) % 3
    source = load((COLOR, labels))
    rows = {COLOR[i].tobytes(): labels[i] for i in range(30)}
    images = everything(source).permute(0, 2, 3, 1).numpy()
    assert [rows[x.copy().tobytes()] for x in images] == source.labels.tolist()
    assert source.class_names == ("0", "1", "2")


def test_labels_may_be_words_or_a_column():
    words = load((COLOR, ["b", "a"] * 15), split="all")
    assert words.class_names == ("a", "b") and words.labels[:2].tolist() == [1, 0]
    column = load((COLOR, np.ones((30, 1))), split="all")
    assert column.labels.tolist() == [1] * 30


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (np.zeros(29), r"30 images but labels of shape \(29,\)"),
        (np.zeros((29, 2)), r"labels of shape \(29, 2\)"),
        (np.full((30, 2), -1), r"labels of shape \(30, 2\), a column per class.*1 wh"),
        (np.full((30, 2), "a"), r"labels of shape \(30, 2\), a column per class"),
        (np.full(30, -1), "labels from -1 to -1"),
        (np.full(30, 0.5), "whole numbers"),
        (np.full(30, np.nan), "labels that are NaN or infinite"),
        (["cat"] * 29 + [None], "images whose label is None or NaN: give each"),
        (np.array(["a"] * 29 + [np.nan], object), "label is None or NaN"),
    ],
)
def test_labels_that_do_not_fit(labels, message):
    with pytest.raises(DataError, match=message):
        load((COLOR, labels))


@pytest.mark.parametrize("storage", ["resident", "streamed"])
def test_a_column_per_class_says_what_each_image_shows(storage, tmp_path):
    tags = RNG.integers(0, 2, (30, 4))
    np.savez(tmp_path / "a.npz", images=COLOR, labels=tags)
    for data in ((COLOR, tags), (COLOR, torch.tensor(tags) > 0), tmp_path / "a.npz"):
        parts = [load(data, split=s, storage=storage) for s in ("train", "test")]
        assert all(part.labels is None for part in parts)
        assert [part.class_names for part in parts] == [("0", "1", "2", "3")] * 2
        whole = load(data, split="all", storage=storage, workers=0)
        assert whole.tags.tolist() == tags.tolist()
        assert len(parts[0].tags) + len(parts[1].tags) == 30
        other = (COLOR, 1 - tags) if isinstance(data, tuple) else data
        mark, its = fingerprint(data), fingerprint(other)
        assert same_images(mark, its) and (mark != its) == isinstance(data, tuple)
        few = load(data, split="all", n=3, storage=storage)
        assert few.tags.tolist() == tags[[0, 10, 20]].tolist()


def test_parts_of_an_array_never_overlap():
    images = RNG.integers(0, 256, (500, 8, 8), np.uint8)
    data = images, np.arange(500) % 5
    train, test = load(data), load(data, split="test")
    assert len(train) + len(test) == 500 and 30 <= len(test) <= 70
    rows = {x.numpy().tobytes() for x in everything(train)}
    assert not rows & {x.numpy().tobytes() for x in everything(test)}


@pytest.mark.parametrize("workers", [0, 2])
def test_a_mapped_file_streams(tmp_path, workers):
    np.save(tmp_path / "a.npy", COLOR)
    source = load(tmp_path / "a.npy", split="all", storage="streamed", workers=workers)
    asked = [torch.tensor([3, 29, 0]), torch.tensor([7])]
    for index, batch in zip(asked, source.batches(asked), strict=True):
        assert torch.equal(
            batch, torch.from_numpy(COLOR[index.numpy()]).permute(0, 3, 1, 2)
        )


def test_a_mapped_file_travels_as_its_name(tmp_path):
    np.save(tmp_path / "a.npy", np.zeros((200, 32, 32), np.uint8))
    items = load(tmp_path / "a.npy", split="all", storage="streamed").items
    sent = pickle.dumps(items)
    assert len(sent) < 5000
    assert torch.equal(pickle.loads(sent).read(3)[0], items.read(3)[0])


@pytest.mark.parametrize(
    "names",
    [
        ("x_train", "y_train", "x_test", "y_test"),
        ("train_images", "train_labels", "test_images", "test_labels"),
    ],
)
def test_archives_with_parts(tmp_path, names):
    labels = np.arange(30) % 3
    arrays = (COLOR[:20], labels[:20], COLOR[20:], labels[20:, None])
    np.savez(tmp_path / "a.npz", **dict(zip(names, arrays, strict=True)))
    train, test = load(tmp_path / "a.npz"), load(tmp_path / "a.npz", split="test")
    assert train.labels.tolist() == labels[:20].tolist()
    assert test.labels.tolist() == labels[20:].tolist()
    both = load(tmp_path / "a.npz", split="all")
    assert torch.equal(everything(both)[20:], everything(test))


def test_archives_without_parts(tmp_path):
    np.savez(tmp_path / "a.npz", images=COLOR, labels=np.arange(30))
    assert load(tmp_path / "a.npz", split="all").labels.tolist() == [*range(30)]
    np.savez(tmp_path / "b.npz", COLOR)
    assert load(tmp_path / "b.npz", split="all").labels is None
    np.savez(tmp_path / "c.npz", weights=COLOR)
    with pytest.raises(DataError, match=r"holds weights: expected an array called"):
        load(tmp_path / "c.npz")
    (tmp_path / "d.npy").write_text("not numpy")
    with pytest.raises(DataError, match="cannot be read as a numpy file"):
        load(tmp_path / "d.npy")


class Pairs(Dataset):
    def __init__(self, kind):
        self.kind = kind

    def __len__(self):
        return 30

    def __getitem__(self, i):
        image = torch.from_numpy(COLOR[i]).permute(2, 0, 1)
        if self.kind == "float":
            return image / 255, torch.tensor(i % 3)
        if self.kind == "dict":
            return {"image": COLOR[i], "label": i % 3}
        if self.kind == "bad" and i == 4:
            raise OSError("disk on fire")
        return image if self.kind == "alone" else (image, i % 3)


@pytest.mark.parametrize("kind", ["pair", "float", "dict", "alone"])
@pytest.mark.parametrize("storage", ["resident", "streamed"])
def test_any_dataset(kind, storage):
    source = load(Pairs(kind), split="all", storage=storage, workers=0)
    assert torch.equal(everything(source), torch.from_numpy(COLOR).permute(0, 3, 1, 2))
    if kind == "alone" or storage == "streamed":
        assert source.labels is None
    else:
        assert source.labels.tolist() == [i % 3 for i in range(30)]


def test_a_dataset_that_lists_its_targets_streams_with_labels():
    data = Pairs("pair")
    data.targets, data.classes = [i % 3 for i in range(30)], ["a", "b", "c"]
    source = load(data, storage="streamed", workers=0)
    assert source.class_names == ("a", "b", "c")
    assert len(source.labels) == len(source) < 30


def test_a_broken_item_of_a_dataset_is_left_out():
    source = load(Pairs("bad"), split="all")
    assert len(source) == 29 and source.unreadable == {"image 4": "disk on fire"}


@pytest.mark.parametrize("storage", ["resident", "streamed"])
def test_a_broken_item_is_called_by_its_number_in_the_data_set(storage, caplog):
    source = load(Pairs("bad"), storage=storage, workers=0)
    everything(source)
    assert len(source) < 29  # a part: item 4 has another number in it
    assert source.unreadable == {"image 4": "disk on fire"}


def test_a_data_loader_is_answered_with_its_data_set():
    with pytest.raises(DataError, match=r"loader\.dataset"):
        load(DataLoader(Pairs("pair")))


def test_an_iterable_dataset_is_refused():
    class Endless(IterableDataset):
        def __iter__(self):
            return iter([])

    with pytest.raises(DataError, match="can only be iterated over"):
        load(Endless())


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ({"hold_out": "half"}, "Unknown hold_out 'half'"),
        ({"split": "tset"}, "Did you mean 'test'"),
        ({"storage": "disk"}, "Unknown storage 'disk'"),
        ({"channels": 2}, "channels is 1"),
        ({"image_size": 0}, "image_size is 1 or more"),
        ({"n": 0}, "n is 1 or more"),
        ({"workers": -1}, "workers is 0 or more"),
    ],
)
def test_settings_that_cannot_work(setting, message):
    with pytest.raises(SettingError, match=message):
        load(COLOR, **setting)


def test_resident_images_check_their_labels():
    with pytest.raises(DataError, match="4 samples but 3 labels"):
        Resident(torch.zeros(4, 1, 8, 8, dtype=torch.uint8), torch.zeros(3).long())


def test_text_is_no_numpy_file_and_no_advice_to_unpickle(tmp_path):
    (tmp_path / "words.npy").write_text("hello")
    with pytest.raises(DataError, match="was not written by NumPy") as told:
        load(tmp_path / "words.npy")
    assert "pickle" not in str(told.value)

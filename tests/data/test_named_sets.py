import gzip
import pickle
import shutil
import struct
from pathlib import Path

import numpy as np
import pytest
import torch
import torchvision.datasets as tv
from PIL import Image
from scipy.io import savemat

import invariance.data
from invariance.data import DATA_SETS, GENERATED, data_exists, default_shape, load
from invariance.errors import DataError, SettingError

RNG = np.random.default_rng(0)


@pytest.fixture(autouse=True)
def _offline(monkeypatch):
    """Tiny copies have other checksums, and nothing may reach the network."""

    def refuse(*_, **__):
        raise OSError("no network")

    for module in ("cifar", "svhn", "stl10", "flowers102"):
        monkeypatch.setattr(
            f"torchvision.datasets.{module}.check_integrity",
            lambda path, md5=None: tv.utils.check_integrity(path),
        )
    monkeypatch.setattr("torchvision.datasets.utils.urllib.request.urlopen", refuse)


def write_cifar(root, kind):
    folder = root / kind.base_folder
    folder.mkdir(parents=True)
    key = "labels" if kind is tv.CIFAR10 else "fine_labels"
    for name, _ in [*kind.train_list, *kind.test_list]:
        data = RNG.integers(0, 256, (4, 3072), np.uint8)
        (folder / name).write_bytes(pickle.dumps({"data": data, key: [0, 1, 2, 3]}))
    meta = {kind.meta["key"]: [f"class {k}" for k in range(10)]}
    (folder / kind.meta["filename"]).write_bytes(pickle.dumps(meta))


def write_mnist(root, kind):
    folder = root / kind.__name__ / "raw"
    folder.mkdir(parents=True)
    for part, n in (("train", 6), ("t10k", 3)):
        images = RNG.integers(0, 256, (n, 28, 28), np.uint8)
        head = struct.pack(">IIII", 0x803, n, 28, 28)
        (folder / f"{part}-images-idx3-ubyte").write_bytes(head + images.tobytes())
        labels = np.arange(n, dtype=np.uint8)
        head = struct.pack(">II", 0x801, n)
        (folder / f"{part}-labels-idx1-ubyte").write_bytes(head + labels.tobytes())


def write_svhn(root):
    (root / "svhn").mkdir(parents=True)
    for part in ("train", "test"):
        pixels = RNG.integers(0, 256, (32, 32, 3, 5), np.uint8)
        labels = np.array([[1], [2], [3], [10], [9]], np.uint8)
        savemat(root / "svhn" / f"{part}_32x32.mat", {"X": pixels, "y": labels})


def write_stl10(root):
    folder = root / "stl10_binary"
    folder.mkdir(parents=True)
    for part, n in (("train", 2), ("test", 3), ("unlabeled", 4)):
        RNG.integers(0, 256, (n, 3, 96, 96), np.uint8).tofile(folder / f"{part}_X.bin")
        if part != "unlabeled":
            np.arange(1, n + 1, dtype=np.uint8).tofile(folder / f"{part}_y.bin")
    (folder / "class_names.txt").write_text("airplane\nbird\ncar\n")
    (folder / "fold_indices.txt").write_text("0 1\n")


def write_imagenette(root):
    for part in ("train", "val"):
        for name in ("n01440764", "n02102040"):
            folder = root / "imagenette2-320" / part / name
            folder.mkdir(parents=True)
            for k in range(2):
                pixels = RNG.integers(0, 256, (40, 50, 3), np.uint8)
                Image.fromarray(pixels).save(folder / f"{k}.JPEG".lower())


def write_imagenet(root):
    names = {"n01440764": ("tench", "Tinca tinca"), "n02102040": ("springer",)}
    for part in ("train", "val"):
        for name in names:
            folder = root / "imagenet" / part / name
            folder.mkdir(parents=True)
            Image.new("RGB", (40, 50)).save(folder / "0.JPEG")
    torch.save((names, ["n01440764"]), root / "imagenet" / "meta.bin")


def write_imagenet100(root):
    """Three images of each listed class, and a class that is not listed."""
    list_of = Path(invariance.data.__file__).parent / "imagenet100.txt"
    wnids = ["n00000000", *list_of.read_text().split()]
    for part, n in (("train", 2), ("val", 1)):
        for wnid in wnids:
            folder = root / "imagenet" / part / wnid
            folder.mkdir(parents=True)
            for k in range(n):
                Image.new("RGB", (10, 8)).save(folder / f"{k}.JPEG")
    names = {wnid: (f"name of {wnid}",) for wnid in wnids}
    torch.save((names, ["n00000000"]), root / "imagenet" / "meta.bin")


def write_flowers102(root):
    folder = root / "flowers-102"
    (folder / "jpg").mkdir(parents=True)
    for k in range(1, 8):
        Image.new("RGB", (20, 30), (30 * k, 0, 0)).save(
            folder / f"jpg/image_{k:05}.jpg"
        )
    savemat(folder / "imagelabels.mat", {"labels": np.array([[1, 2, 102, 1, 2, 5, 7]])})
    parts = {"trnid": [[1, 3]], "valid": [[2, 4]], "tstid": [[7, 5, 6]]}
    savemat(folder / "setid.mat", {k: np.array(v) for k, v in parts.items()})


def write_sun397(root, n=12):
    folder = root / "SUN397"
    for k in range(n):
        place = folder / ("a/abbey" if k % 3 else "c/church/indoor")
        place.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (16, 12), (20 * k, 0, 0)).save(place / f"sun_{k:02}.jpg")
    (folder / "ClassName.txt").write_text("/a/abbey\n/c/church/indoor\n")


def write_sun397_with_lists(root):
    write_sun397(root)
    for name, numbers in (("Training_01", (1, 3, 5, 7)), ("Testing_01", (2, 4, 6))):
        lines = [
            f"/{'a/abbey' if k % 3 else 'c/church/indoor'}/sun_{k:02}.jpg"
            for k in numbers
        ]
        (root / "SUN397" / f"{name}.txt").write_text("\n".join(lines) + "\n")


VOC = {
    "trainval": {
        "000001": [("person", 0), ("dog", 1), ("person", 1)],
        "000003": [],
        "000004": [("tvmonitor", 1), ("tvmonitor", 0), ("cat", 0)],
    },
    "test": {"000002": [("aeroplane", 0)], "000005": [("dog", 1), ("cat", 0)]},
}


def write_voc2007(root):
    folder = root / "VOCdevkit" / "VOC2007"
    for name in ("JPEGImages", "Annotations", "ImageSets/Main"):
        (folder / name).mkdir(parents=True)
    for part, images in VOC.items():
        (folder / f"ImageSets/Main/{part}.txt").write_text("\n".join(images) + "\n")
        for name, things in images.items():
            Image.new("RGB", (50, 40)).save(folder / f"JPEGImages/{name}.jpg")
            objects = "".join(
                f"<object><name>{thing}</name><difficult>{hard}</difficult>"
                f"<part><name>head</name></part></object>"
                for thing, hard in things
            )
            annotation = f"<annotation><folder>VOC2007</folder>{objects}</annotation>"
            (folder / f"Annotations/{name}.xml").write_text(annotation)


WRITERS = {
    "cifar10": (lambda r: write_cifar(r, tv.CIFAR10), 20, 4, (3, 32, 32)),
    "cifar100": (lambda r: write_cifar(r, tv.CIFAR100), 4, 4, (3, 32, 32)),
    "mnist": (lambda r: write_mnist(r, tv.MNIST), 6, 3, (1, 28, 28)),
    "fashion_mnist": (lambda r: write_mnist(r, tv.FashionMNIST), 6, 3, (1, 28, 28)),
    "svhn": (write_svhn, 5, 5, (3, 32, 32)),
    "stl10": (write_stl10, 2, 3, (3, 96, 96)),
    "stl10_unlabeled": (write_stl10, 4, 3, (3, 96, 96)),
    "imagenette": (write_imagenette, 4, 4, (3, 128, 128)),
    "imagenet": (write_imagenet, 2, 2, (3, 128, 128)),
    "imagenet100": (write_imagenet100, 200, 100, (3, 128, 128)),
    "flowers102": (write_flowers102, 4, 3, (3, 128, 128)),
    "sun397": (write_sun397_with_lists, 4, 3, (3, 128, 128)),
    "voc2007": (write_voc2007, 3, 2, (3, 128, 128)),
}


@pytest.mark.parametrize("name", WRITERS)
def test_a_copy_on_disk_is_read(tmp_path, name):
    write, n_train, n_test, shape = WRITERS[name]
    write(tmp_path)
    train = load(name, data_root=tmp_path)
    test = load(name, data_root=tmp_path, split="test")
    both = load(name, data_root=tmp_path, split="all")
    assert (len(train), len(test)) == (n_train, n_test)
    assert len(both) == (12 if name == "sun397" else n_train + n_test)
    assert train.shape == test.shape == shape and train.name == name
    assert (train.labels is None) == (name in ("stl10_unlabeled", "voc2007"))
    if name == "voc2007":
        assert test.labels is None and test.tags.shape == (n_test, 20)
    else:
        assert test.labels is not None and len(test.labels) == n_test
        assert test.tags is None and test.labels.max() < len(test.class_names)
    (images,) = train.batches([torch.arange(n_train)])
    streamed = load(name, data_root=tmp_path, storage="streamed", workers=0)
    assert torch.equal(images, next(streamed.batches([torch.arange(n_train)])))


def test_voc_says_what_each_image_shows(tmp_path):
    """Difficult objects alone count neither way; parts of objects are no objects."""
    write_voc2007(tmp_path)
    both = load("voc2007", data_root=tmp_path, split="all", image_size=32)
    shown = [
        {both.class_names[k]: int(row[k]) for k in range(20) if row[k]}
        for row in both.tags
    ]
    assert shown == [
        {"person": 1, "dog": -1},
        {},
        {"tvmonitor": 1, "cat": 1},
        {"aeroplane": 1},
        {"dog": -1, "cat": 1},
    ]
    assert both.class_names == tuple(sorted(both.class_names))
    (tmp_path / "VOCdevkit/VOC2007/Annotations/000002.xml").write_text("<annotation>")
    with pytest.raises(DataError, match=r"000002.xml' of voc2007 cannot be read"):
        load("voc2007", data_root=tmp_path, split="test")


def test_flowers_train_on_two_parts_of_three(tmp_path):
    write_flowers102(tmp_path)
    train = load("flowers102", data_root=tmp_path, storage="streamed")
    assert [Path(path).name for path in train.paths] == [
        f"image_0000{k}.jpg" for k in (1, 3, 2, 4)
    ]
    assert train.labels.tolist() == [0, 101, 1, 0]
    assert train.class_names[101] == "blackberry lily"


def test_sun397_by_its_lists_or_by_a_tenth(tmp_path):
    write_sun397(tmp_path, n=40)
    parts = [load("sun397", data_root=tmp_path, split=s) for s in ("train", "test")]
    assert sum(map(len, parts)) == 40 and not {*parts[0].paths} & {*parts[1].paths}
    assert "place Training_01.txt and Testing_01.txt" in str(parts[0].notes[0])
    assert parts[0].class_names == ("abbey", "church/indoor")
    for path, label in zip(parts[0].paths, parts[0].labels.tolist(), strict=True):
        assert ("church" in path) == (label == 1)
    write_sun397_with_lists(tmp_path)
    train, test = (
        load("sun397", data_root=tmp_path, split=s) for s in ("train", "test")
    )
    assert [int(Path(p).stem[-2:]) for p in train.paths] == [1, 3, 5, 7]
    assert test.labels.tolist() == [0, 0, 1] and "tenth" not in str(test.notes)
    (tmp_path / "SUN397/a/abbey/sun_02.jpg").unlink()
    with pytest.raises(DataError, match=r"1 of the 3 images that Testing_01.txt lists"):
        load("sun397", data_root=tmp_path, split="test")


def test_imagenet100_is_the_listed_classes(tmp_path):
    write_imagenet100(tmp_path)
    train = load("imagenet100", data_root=tmp_path, image_size=8)
    assert len(set(train.class_names)) == 100 == len(train.labels.unique())
    assert "name of n00000000" not in train.class_names
    for path, label in zip(train.paths, train.labels.tolist(), strict=True):
        assert train.class_names[label] == f"name of {path.split('/')[1]}"
    assert train.class_names[0] == "name of n02869837"  # in the order of the list
    shutil.rmtree(tmp_path / "imagenet" / "val" / "n02869837")
    with pytest.raises(DataError, match=r"1 of the 100 classes.*n02869837: unpack"):
        load("imagenet100", data_root=tmp_path, split="test")


def test_the_name_in_older_runs_still_works(tmp_path):
    write_stl10(tmp_path)
    old, new = (
        load(name, data_root=tmp_path)
        for name in ("stl10_unlabelled", "stl10_unlabeled")
    )
    assert old.name == new.name == "stl10_unlabeled"
    assert len(old) == len(new) == 4
    assert data_exists("stl10_unlabelled") and not data_exists("stl10_unlabeld")


def test_pixels_are_torchvisions(tmp_path):
    write_cifar(tmp_path, tv.CIFAR10)
    theirs = np.array(tv.CIFAR10(tmp_path, train=False)[2][0])
    (ours,) = load("cifar10", data_root=tmp_path, split="test").batches(
        [torch.tensor([2])]
    )
    assert torch.equal(ours[0].permute(1, 2, 0), torch.tensor(theirs))


def test_the_root_comes_from_the_environment(tmp_path, monkeypatch):
    write_mnist(tmp_path, tv.MNIST)
    monkeypatch.setenv("INVARIANCE_DATA", str(tmp_path))
    assert len(load("mnist")) == 6
    assert load("mnist", image_size=32, channels=3).shape == (3, 32, 32)


@pytest.mark.parametrize(
    "name",
    [
        *("cifar10", "mnist", "svhn", "stl10", "imagenette"),
        *("flowers102", "sun397", "voc2007"),
    ],
)
def test_without_a_network_the_message_says_what_to_do(tmp_path, name):
    message = f"{name} is not in .* could not be downloaded .*: connect to the network"
    with pytest.raises(DataError, match=message):
        load(name, data_root=tmp_path / "none")


@pytest.mark.parametrize("name", ["imagenet", "imagenet100"])
def test_imagenet_is_placed_by_hand(tmp_path, name):
    with pytest.raises(DataError, match=f"{name} .* place ILSVRC2012_devkit_t12"):
        load(name, data_root=tmp_path)


def test_the_catalogue_lists_every_set():
    assert set(DATA_SETS) == {*GENERATED, *WRITERS}


def test_a_name_nobody_knows():
    with pytest.raises(DataError, match=r"Did you mean 'cifar10'.*no folder 'cifr10'"):
        load("cifr10")


def test_a_path_that_is_not_there(tmp_path):
    with pytest.raises(DataError, match=r"There is no folder or file '.*nowhere'"):
        load(str(tmp_path / "nowhere"))
    with pytest.raises(DataError, match="no folder or file"):
        load(tmp_path / "nowhere")


def test_a_file_that_is_no_array(tmp_path):
    with gzip.open(tmp_path / "a.gz", "wb") as file:
        file.write(b"words")
    with pytest.raises(DataError, match="is a file: expected a folder"):
        load(tmp_path / "a.gz")


def test_storage_is_chosen_by_memory_and_told(monkeypatch):
    small = load("shapes", n=10)
    assert "resident on cpu (" in str(small.notes[-1])
    free = "invariance.data._resident.free_bytes"
    monkeypatch.setattr(free, lambda _: 4 * 10 * 3072)
    assert type(load("shapes", n=10)).__name__ == "Resident"
    large = load("shapes", n=11)
    assert type(large).__name__ == "Streamed"
    assert large.notes[-1].kind == "storage" and "streamed: " in str(large.notes[-1])
    forced = load("shapes", n=11, storage="resident")
    assert type(forced).__name__ == "Resident"
    with pytest.raises(SettingError, match=r"kept on cpu, where 0\.1 MiB are free"):
        load("shapes", n=41, storage="resident")


def test_the_shape_that_load_chooses_is_known_before(tmp_path):
    write_imagenette(tmp_path)
    for data in ("shapes", "imagenette", tmp_path / "imagenette2-320"):
        shape = load(data, n=2, data_root=tmp_path, storage="streamed").shape
        assert default_shape(data, data_root=tmp_path) == shape


def test_every_public_name_has_a_docstring():
    import invariance.data as data

    for name in data.__all__:
        if not isinstance(getattr(data, name), (dict, tuple)):
            assert getattr(data, name).__doc__, name

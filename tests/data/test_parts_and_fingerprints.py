"""What is held out and why, and how data are known again."""

import shutil
import unicodedata

import numpy as np
import pytest
import torch
from PIL import Image
from torch.utils.data import TensorDataset

from invariance.data import find_place, fingerprint, load, same_images
from invariance.errors import DataError

IMAGES = np.random.default_rng(0).integers(0, 256, (60, 8, 8, 3), np.uint8)


def test_without_labels_nothing_is_held_out(fill):
    for data in (fill(n=30), IMAGES):
        source = load(data)
        assert len(source) == (30 if data is not IMAGES else 60)
        assert source.origin.n_held_out == 0 and not source.origin.own_test
        with pytest.raises(DataError, match="has no labels to score by, so all of it"):
            load(data, split="test")


def test_labels_can_be_left_aside(fill):
    root = fill("2022", "2023", n=30)
    with_labels, without = load(root), load(root, labels=False)
    assert with_labels.labels is not None and len(with_labels) < 60
    assert without.labels is None and without.class_names == ()
    assert len(without) == 60 and without.paths is not None
    assert load((IMAGES, np.arange(60) % 3), labels=False).labels is None
    with pytest.raises(DataError, match="goes without labels, so all of it"):
        load(root, labels=False, split="test")


def test_what_is_held_out_can_be_said(fill):
    root = fill(n=30)
    train, test = (load(root, split=s, hold_out="tenth") for s in ("train", "test"))
    assert len(train) + len(test) == 30
    assert train.origin.n_held_out == test.origin.n_held_out == len(test) > 0
    labeled = IMAGES, np.arange(60) % 3
    assert len(load(labeled, hold_out="nothing")) == 60
    with pytest.raises(DataError, match="holds nothing out, as asked"):
        load(labeled, hold_out="nothing", split="test")


def test_a_test_part_of_its_own_is_counted(fill, tmp_path):
    origin = load(fill("train/a", "train/b", "test/a", n=3)).origin
    assert origin.own_test and origin.n_held_out == 3
    np.savez(tmp_path / "a.npz", x_train=IMAGES, x_test=IMAGES[:7])
    origin = load(tmp_path / "a.npz").origin
    assert origin.own_test and origin.n_held_out == 7


def test_moved_data_are_the_same_data(fill, tmp_path, monkeypatch):
    root = fill("here/train/a", "here/train/b") / "here/train"
    before = fingerprint(root)
    shutil.copytree(root, tmp_path / "there/deep/train/inside")
    moved = tmp_path / "there/deep/train"  # with one more folder around it
    assert fingerprint(moved) == before == load(root, split="test").origin.fingerprint
    assert load(moved).origin.parent == "deep"
    monkeypatch.chdir(tmp_path)
    assert find_place("there/deep/train") == str(moved.resolve())


def test_other_data_of_the_same_name_are_other_data(fill, tmp_path, picture):
    root = fill("one/train/a", "one/train/b")
    shutil.copytree(root / "one", root / "two")
    extra = root / "two/train/a/more.png"
    picture(7).save(extra)
    assert fingerprint(root / "one/train") != fingerprint(root / "two/train")
    extra.unlink()
    assert fingerprint(root / "one/train") == fingerprint(root / "two/train")
    picture(8, side=40).save(root / "two/train/a/000.png")  # the same name, larger
    assert fingerprint(root / "one/train") != fingerprint(root / "two/train")


def test_labels_tell_questions_apart_but_not_images():
    alone, labeled = fingerprint(IMAGES), fingerprint((IMAGES, np.arange(60) % 3))
    others = fingerprint((IMAGES, np.arange(60) % 2))
    assert len({alone, labeled, others}) == 3
    assert same_images(alone, labeled) and same_images(labeled, others)
    assert not same_images(alone, fingerprint(IMAGES[::-1]))


def test_an_array_and_its_file_are_the_same_data(tmp_path):
    np.save(tmp_path / "a.npy", IMAGES)
    assert fingerprint(tmp_path / "a.npy") == fingerprint(IMAGES)


def test_a_data_set_is_known_by_its_items_unless_they_change():
    class Items:
        def __init__(self, noisy):
            self.noisy = noisy

        def __len__(self):
            return 20

        def __getitem__(self, i):
            image = torch.full((3, 8, 8), i, dtype=torch.uint8)
            return torch.randint(0, 255, (3, 8, 8)).byte() if self.noisy else image

    for noisy in (False, True):
        assert fingerprint(Items(noisy)) == fingerprint(Items(noisy))
    assert fingerprint(Items(False)) != fingerprint(Items(True))
    pictures = torch.from_numpy(IMAGES).permute(0, 3, 1, 2)
    one, other = TensorDataset(pictures), TensorDataset(pictures.flip(0))
    assert fingerprint(one) != fingerprint(other)


def test_accents_may_be_composed_or_not(tmp_path):
    """Decomposed, the accent sorts between e and f; composed, behind z."""
    sources = []
    for form in ("NFC", "NFD"):
        (tmp_path / form).mkdir()
        for k, name in enumerate(("e", "\u00e9", "f", "z")):
            path = tmp_path / form / (unicodedata.normalize(form, name) + ".png")
            Image.fromarray(IMAGES[k]).save(path)
        sources.append(load(tmp_path / form))
    assert sources[0].origin.fingerprint == sources[1].origin.fingerprint
    assert sources[0].samples.equal(sources[1].samples)


def test_a_named_set_is_known_by_its_name_without_its_files(tmp_path):
    assert fingerprint("cifar10", data_root=tmp_path) == "cifar10"
    assert fingerprint("stl10_unlabelled", data_root=tmp_path) == "stl10_unlabeled"

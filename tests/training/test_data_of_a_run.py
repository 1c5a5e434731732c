"""Which images a run trains on: how many, in which batches, and where they are."""

import dataclasses
import gc
import multiprocessing
import os
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from torch import nn

import invariance as inv
from invariance.devices import usable_cores
from invariance.errors import DataError, SettingError, TrainingError
from invariance.folder import read_environment, read_images, read_settings
from invariance.training import Machine, Train, make_plan
from invariance.words import count


@pytest.fixture
def photos(tmp_path):
    """Make a folder of small photos, in classes or not."""

    def make(n, *classes, place="album/train"):
        dice = np.random.default_rng(0)
        for k in range(n):
            folder = tmp_path / place / (classes[k % len(classes)] if classes else "")
            folder.mkdir(parents=True, exist_ok=True)
            pixels = dice.integers(0, 255, (16, 16, 3), dtype=np.uint8)
            Image.fromarray(pixels).save(folder / f"{k}.png")
        return str(tmp_path / place)

    return make


def first_lines(settings, **objects):
    facts = list(make_plan(settings, **objects).facts())
    return facts[0], next(fact for fact in facts if fact.startswith("steps"))


@pytest.mark.parametrize(
    "data, what",
    [
        (np.full((50, 3), 7.0), "All 50 rows"),
        (np.zeros((50, 16, 16), np.uint8), "All 50 images"),
        (["the same"] * 50, "All 50 sentences"),  # refused when they are read
    ],
)
def test_samples_that_are_all_equal_are_refused(data, what):
    with pytest.raises(DataError, match=what + ".* are the same, but contrast needs"):
        make_plan(Train(), data=data)


def test_one_sample_that_differs_is_enough():
    rows = np.full((3000, 3), 7.0)
    rows[-1] = 8
    assert len(make_plan(Train(), data=rows).source) == 3000


def test_few_steps_are_named_with_the_epochs_that_make_enough(photos):
    settings = Train(data=photos(60), image_size=16, batch_size=16)  # 3 per epoch
    *_, hint = make_plan(settings).facts()
    assert hint.endswith("--epochs 167 gives 501")
    enough = dataclasses.replace(settings, epochs=67)
    assert not any("few steps" in fact for fact in make_plan(enough).facts())


def test_captions_that_are_not_learned_from_are_named(photos):
    folder = Path(photos(60))
    lines = ["file,caption", *(f"{k}.png,a picture of {k % 3}" for k in range(60))]
    (folder / "captions.csv").write_text("\n".join(lines))
    sentence = "captions.csv is not used: clip and siglip learn from images with"
    settings = Train(data=str(folder), image_size=16, batch_size=16)
    assert any(fact.startswith(sentence) for fact in make_plan(settings).facts())
    settings = dataclasses.replace(settings, method="clip")
    assert not any(sentence in fact for fact in make_plan(settings).facts())


def test_the_first_line_counts_and_says_why(photos):
    labeled, plain = photos(60, "cat", "dog", place="pets"), photos(60, place="flat")
    data, steps = first_lines(Train(data=labeled, image_size=16))
    assert data == (
        "data: pets, images of 3x16x16: 50 to train on, 10 held out, "
        "2 classes by folder (cat, dog)"
    )
    assert "of 16 samples (not the usual 128: there are 50 images), 3 per" in steps
    data, steps = first_lines(Train(data=plain, image_size=16))
    assert data.endswith("60 to train on, none held out, no labels to score by")
    data, _ = first_lines(Train(data=labeled, image_size=16, labels=False))
    assert data.endswith("60 to train on, none held out, labels ignored")


@pytest.mark.parametrize(
    ("n", "processes", "batch"),
    [
        *[(2, 1, 2), (5, 1, 2), (120, 1, 32), (255, 1, 64), (256, 1, 128)],
        *[(900, 1, 128), (900, 3, 96), (120, 2, 32)],
    ],
)
def test_the_default_batch_fits_the_data(n, processes, batch):
    gray = np.arange(n, dtype=np.uint8)[:, None, None, None]  # some that differ
    images = np.broadcast_to(gray, (n, 8, 8, 3))
    plan = make_plan(Train(encoder="tiny"), data=images, processes=processes)
    assert plan.batch_size == batch and plan.settings.batch_size is None
    assert plan.steps_per_epoch >= 1 and (plan.steps_per_epoch > 1 or n < 4)


def test_a_batch_asked_for_is_kept_or_refused(pictures):
    assert make_plan(Train(batch_size=64), data=pictures).batch_size == 64
    with pytest.raises(DataError, match="fewer than one step of 500: use --batch-size"):
        make_plan(Train(batch_size=500), data=pictures)


def test_a_chosen_batch_is_resumed_and_not_written_as_if_asked_for(
    small, pictures, stopped_after, readings
):
    settings = small(batch_size=None)
    folder = stopped_after(1, settings, data=pictures)
    assert "batch_size: null" in (folder / "config.yaml").read_text()
    assert read_settings(folder, Train).batch_size == 32
    inv.train(inv.Train(resume=str(folder), quiet=True), data=pictures)
    assert readings(folder)[-1]["step"] == 4


def test_a_run_killed_before_it_said_what_it_is_says_so_when_resumed(
    small, pictures, stopped_after
):
    folder = stopped_after(1, small(), data=pictures)
    about = read_environment(folder)
    (folder / "env.json").unlink()
    inv.train(inv.Train(resume=str(folder), quiet=True), data=pictures)
    again = read_environment(folder)
    assert {**again, "started": ""} == {**about, "started": ""}


def test_a_run_finds_its_data_from_anywhere(
    photos, small, stopped_after, monkeypatch, tmp_path
):
    photos(40)
    monkeypatch.chdir(tmp_path / "album")
    settings = small(data="train", image_size=16)
    folder = stopped_after(1, settings)
    assert read_images(folder)["path"] == str((tmp_path / "album/train").resolve())
    (tmp_path / "album/elsewhere/train").mkdir(parents=True)  # not these
    monkeypatch.chdir(tmp_path / "album/elsewhere")
    assert inv.train(Train(resume=str(folder), dry_run=True, quiet=True)).done == 1
    shutil.move(tmp_path / "album/train", tmp_path / "moved")
    shutil.rmtree(tmp_path / "album/elsewhere/train")
    with pytest.raises(TrainingError, match="where it is now: invariance train PLACE"):
        inv.train(Train(resume=str(folder), quiet=True))
    other = photos(41, place="other")
    with pytest.raises(TrainingError, match="on 40 images, and now there are 41"):
        inv.train(Train(resume=str(folder), data=other, quiet=True))
    moved = str(tmp_path / "moved")
    run = inv.train(Train(resume=str(folder), data=moved, quiet=True))
    assert (run.folder / "encoder.safetensors").exists()
    assert read_images(folder)["path"] == os.path.realpath(moved)


def test_a_broken_item_is_told_even_when_quiet(small, capsys):
    class Items:
        def __len__(self):
            return 60

        def __getitem__(self, i):
            if i == 37:
                raise ValueError("boom at 37")
            return np.full((8, 8, 3), i, np.uint8), i % 2

    inv.train(small(epochs=1), data=Items())
    assert "left out: image 37 (boom at 37)" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("machine", "message"),
    [
        (Machine(devices=500, device="cpu"), r"one process per core, .*: got 500"),
        (Machine(devices=0), "machine.devices must be at least 1: got 0"),
        (Machine(strategy="ddp_spawn"), "'ddp_spawn'. Known: auto, ddp, fsdp"),
    ],
)
def test_processes_that_the_machine_cannot_bear(machine, message, small, pictures):
    with pytest.raises(SettingError, match=message):
        inv.train(small(machine=machine), data=pictures)


def test_a_dry_run_tells_what_the_machine_lacks(small, pictures, capsys):
    machine = Machine(devices=8, device="cpu")
    assert inv.train(small(machine=machine, dry_run=True), data=pictures).processes == 8
    here = count(usable_cores(), "core")
    if usable_cores() < 8:
        assert f"this machine has {here} and the run takes 8" in capsys.readouterr().out


def test_a_notebook_has_one_process(small, pictures, monkeypatch):
    monkeypatch.setattr(sys, "ps1", ">>> ", raising=False)
    monkeypatch.setattr("invariance.training._fabric.usable_cores", lambda: 4)
    with pytest.raises(SettingError, match="A notebook or an interactive Python"):
        inv.train(small(machine=Machine(devices=2)), data=pictures)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"workers": 5000}, r"workers is at most \d+ on this machine, 8 for each core"),
        ({"image_size": 40_000, "storage": "resident"}, "cannot be kept on cpu, where"),
        ({"image_size": 40_000}, "use a smaller --image-size, --batch-size or"),
        (
            {"method": "moco", "options": {"size": 10**12}},
            r"A queue of 1,000,000,000,000 rows of \d+ numbers takes",
        ),
        (
            {"method": "ir", "width": 10**12},
            r"A memory bank of [\d,]+ rows of 1,000,000,000,000 numbers takes",
        ),
    ],
)
def test_sizes_that_the_machine_cannot_bear(changes, message, small, pictures):
    with pytest.raises(SettingError, match=message):
        inv.train(small(**changes), data=pictures)


@pytest.mark.parametrize(
    ("objects", "message"),
    [
        ({"encoder": lambda x: x}, r"encoder is a torch\.nn\.Module"),
        ({"encoder": "resnet18"}, r"Train\(encoder='resnet18'\)"),
        ({"method": "dcl"}, r"Train\(method='dcl'\)"),
        ({"views": nn.Identity()}, "views is a ViewSet"),
        ({"views": lambda x: x}, "views is a ViewSet"),
    ],
)
def test_objects_that_are_something_else(objects, message, small, pictures, our_errors):
    with pytest.raises(SettingError, match=message):
        inv.train(small(), data=pictures, **objects)


@pytest.mark.parametrize("dry_run", [False, True])
def test_processes_that_read_end_with_the_training(small, pictures, dry_run):
    settings = small(storage="streamed", workers=2, dry_run=dry_run)
    gc.disable()  # which would end them too, sooner or later
    try:
        inv.train(settings, data=pictures)
        assert not multiprocessing.active_children()
    finally:
        gc.enable()

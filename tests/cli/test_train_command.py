"""``invariance train`` as a person meets it."""

import json
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from invariance.errors import InvarianceError

FEW = ("--epochs", "1", "--batch-size", "16", "--hidden", "16", "--width", "8")


def test_a_messy_folder_trains(command, photos):
    code, said, complained = command("train", str(photos), *FEW, "--json")
    assert code == 0, complained
    records = [json.loads(line) for line in said.splitlines()]
    notes = " ".join(r.get("note", "") for r in records)
    assert "13 unreadable images were left out" in notes
    assert "empty 0.jpg (an empty file)" in notes and "broken 0.png" in notes
    assert "images of 3x32x32" in notes
    assert any("loss" in r for r in records)
    made = photos.parent / "runs" / "my photos-simclr"
    assert (made / "encoder.safetensors").exists()


def save_image(path):
    path.parent.mkdir(exist_ok=True)
    Image.fromarray(np.zeros((40, 40, 3), np.uint8)).save(path)


@pytest.mark.parametrize(
    "words, message",
    [
        ([""], "No data given: the path is empty. '.' is this folder."),
        (["empty"], "The folder 'empty' holds no images"),
        (["not/there"], "There is no folder or file 'not/there': check the path."),
        (["shpaes"], "Unknown data set 'shpaes'. Did you mean 'shapes'?"),
        (["alone"], "has 1 readable image, and contrasting images needs at least 2"),
        (["--method", "simlcr"], "Unknown method 'simlcr'. Did you mean 'simclr'?"),
        (
            ["--limit", "40", "--batch-size", "64"],
            "shapes has 40 images to train on, fewer than one step of 64: use "
            "--batch-size 32 or less, or more images.",
        ),
        (["--limit", "40", "--ess.target", "2"], "ess.target lies between 0 and 1"),
        (["--resume", "runs/none"], "There is no run to resume at 'runs/none': "),
        (["./alon"], "There is no folder or file './alon': check the path. Did you"),
        (["--trackers", "wandb"], "wandb is not installed"),
        (["--config", "none.yaml"], "There is no settings file 'none.yaml'."),
        (["--config"], "--config needs a file of settings."),
        (["--name", "a/b", "--limit", "40"], "A run cannot be called 'a/b'"),
    ],
)
def test_a_mistake_ends_in_one_sentence(words, message, command, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "wandb", None)  # as if it were not installed
    (tmp_path / "empty").mkdir()
    save_image(tmp_path / "alone" / "one.png")
    base = [] if "--batch-size" in words else ["--batch-size", "16"]
    code, said, complained = command("train", *base, *words)
    assert code == 2
    assert complained.startswith("invariance: ") and message in complained
    assert complained.count("\n") == 1 and "Traceback" not in complained + said
    assert not (tmp_path / "runs").exists() or not list((tmp_path / "runs").iterdir())


def test_an_unknown_flag_is_answered_with_the_nearest(command):
    code, _, complained = command("train", "--epoch", "3")
    assert code == 2
    assert "--epochs" in complained and "Passes over the data" in complained


def test_a_value_of_the_wrong_kind(command):
    code, _, complained = command("train", "--epochs", "many")
    assert code == 2 and "many" in complained and "Traceback" not in complained


def test_flags_go_on_top_of_a_file(command, tmp_path):
    (tmp_path / "mine.yaml").write_text(
        "epochs: 7\nlimit: 64\nbatch_size: 16\nmethod: dcl\noptim: {lr: 1e-3}\n"
    )
    given = ("--config", "mine.yaml", "--epochs", "9", "--dry-run")
    for words in (["train", *given], ["train", "--config=mine.yaml", *given[2:]]):
        code, said, _ = command(*words)
        assert code == 0
        assert "epochs = 9" in said and "batch_size = 16" in said
        assert "optim.lr = 0.001" in said and "method = 'dcl'" in said
    assert not (tmp_path / "runs").exists()


def test_the_settings_of_a_run_can_be_used_again(command, tmp_path):
    words = ("--limit", "32", "--no-evaluate", "--knn-every", "0", "--quiet")
    code, _, _ = command("train", *FEW, *words, "--options", "prior", "0.2",
                             "--method", "debiased", "--optim.name", "sgd")  # fmt: skip
    assert code == 0
    config = tmp_path / "runs" / "shapes-debiased" / "config.yaml"
    code, second, _ = command("train", "--config", str(config))
    assert code == 0 and "shapes-debiased-2" in second
    again = config.parent.with_name("shapes-debiased-2") / "config.yaml"
    assert again.read_text() == config.read_text()
    readings = [
        [json.loads(line)["loss"] for line in (path.parent / "metrics.jsonl").open()]
        for path in (config, again)
    ]
    assert readings[0] == readings[1]


def test_words_and_truth_values_are_options(command, tmp_path):
    few = (*FEW, "--limit", "32", "--dry-run")
    words = ("--method", "kcl", "--options", "kernel", "log", "normalize", "false")
    code, said, complained = command("train", *few, *words)
    assert code == 0, complained
    assert "KCL(kernel='log', gamma=4.0, t=2.0, normalize=False)" in said
    assert "options.kernel = 'log'" in said and "options.normalize = False" in said
    assert "options = " not in said
    (tmp_path / "mine.yaml").write_text(
        "method: moco\nlimit: 32\noptions: {symmetric: true, size: 32}\n"
        "views_drop: [gray]\nviews_strength: {color: 0.5}\n"
    )
    code, said, complained = command("train", *few, "--config", "mine.yaml")
    assert code == 0, complained
    assert "momentum twin at 0.99, symmetric, negatives: queue (0 of 32 rows" in said
    assert "views: without gray, color at 0.5 of its strength" in said


def test_an_unknown_option_is_answered_with_all_there_are(command):
    code, _, complained = command(
        "train", "--method", "kcl", "--options", "kernl", "log"
    )
    assert code == 2
    first, *lines = complained.splitlines()
    assert first == (
        "invariance: Unknown option 'kernl'. Did you mean 'kernel'? Accepted options:"
    )
    assert lines[0].split()[:2] == ["kernel", "gaussian"]
    assert [line.split()[0] for line in lines] == [
        "kernel", "gamma", "t", "s", "normalize",
    ]  # fmt: skip
    words = ("--views.drop", "blur", "--limit", "64", "--batch-size", "16")
    code, _, complained = command("train", *words)
    assert code == 2 and "These views are made of color, crop, flip, gray" in complained


def test_an_interrupt_before_training_is_no_traceback(command, monkeypatch):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("invariance.training._train.make_plan", interrupted)
    code, _, complained = command("train")
    assert code == 130 and complained == "invariance: interrupted.\n"


@pytest.mark.parametrize(
    "k, rows", [("1", "k = 1 of 63"), ("1.0", "k = 63 of 63"), ("0.5", "k = 32 of 63")]
)
def test_one_row_and_the_whole_bank_are_told_apart(command, k, rows):
    few = ("--limit", "64", "--dry-run")
    for method in ("ball", "la"):
        words = ("--method", method, "--options", "k", k)
        code, said, complained = command("train", *FEW, *few, *words)
        assert code == 0, complained
        assert rows in said


@pytest.fixture
def first_said(command, monkeypatch):
    """What a command begins with: reading this folder so, or training."""

    def read_ahead(data, **how):
        raise InvarianceError(f"{Path(data).name} {how}")

    def train(settings):
        raise InvarianceError("training")

    monkeypatch.setattr("invariance.cli._train_command.read_ahead", read_ahead)
    monkeypatch.setattr("invariance.training._train.train", train)
    return lambda *words: command("train", *words)[2].removeprefix("invariance: ")


def test_a_folder_is_read_ahead_where_all_of_it_is_wanted(photos, first_said):
    usual = "{'image_size': None, 'labels': True, 'hold_out': 'auto'}"
    assert usual in first_said(str(photos))
    said = first_said(str(photos), "--image-size", "8", "--no-labels")
    assert "my photos {'image_size': 8, 'labels': False, 'hold_out': 'auto'}" in said
    for words in (
        ("--limit", "9"),
        ("--storage", "streamed"),
        ("--machine.devices", "2"),
    ):
        assert first_said(str(photos), *words) == "training\n"


def test_so_is_the_folder_of_a_run_that_goes_on(photos, first_said, tmp_path):
    run = tmp_path / "run"
    run.mkdir()
    for settings in ({"image_size": 8}, {"image_size": 8, "limit": 9}):
        text = json.dumps({"data": str(photos), **settings})
        (run / "config.yaml").write_text(text)  # YAML too
        said = first_said("--resume", "run")
        assert said == "training\n" if "limit" in settings else "photos" in said

"""A dry run says what would happen and writes nothing."""

import json
import math
from dataclasses import replace

import pytest
import torch

from invariance.errors import DataError, SettingError, TrainingError
from invariance.folder import read_yaml
from invariance.training import Ess, Machine, Optim, Train, train


def test_it_prints_shapes_and_chance_and_writes_nothing(
    small, pictures, tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    train(small(dry_run=True, quiet=False, out="runs"), data=pictures)
    said = capsys.readouterr().out
    assert list(tmp_path.iterdir()) == []
    assert "batch_size = 16  (default 128)" in said and "dry_run" not in said
    assert "images (16, 3, 16, 16) uint8 -> views [(16, 3, 16, 16)" in said
    assert "features (16, 256) per view -> projections (16, 8)" in said
    assert f"chance is {math.log(31):.3f}" in said
    assert "parameters" in said and "memory:" in said and "time: about" in said
    assert said.rstrip().endswith("Nothing was written. Drop --dry-run to start.")


def test_it_counts_what_a_step_keeps_for_its_backward_pass(small, pictures):
    sizes = [
        train(small(dry_run=True, **how), data=pictures).activation_bytes
        for how in ({}, {"batch_size": 8}, {"micro_batch": 4})
    ]
    assert sizes[0] == pytest.approx(2 * sizes[1], rel=0.05)
    assert sizes[2] < 0.6 * sizes[0]


def test_for_a_program_it_is_one_object(small, pictures, capsys):
    found = train(small(dry_run=True, json=True, quiet=False), data=pictures)
    (line,) = capsys.readouterr().out.splitlines()
    record = json.loads(line)
    assert record["dry_run"] and record["batch_size"] == 16
    assert record["activation_bytes"] == found.activation_bytes > 0
    assert record["seconds"] == pytest.approx(found.seconds)
    assert record["facts"][0].startswith("data: ")


@pytest.mark.parametrize(
    "method, chance",
    [
        ("supcon", math.log(31)),
        ("multi_view", math.log(15 * 4 + 1)),
        ("byol", None),
        ("dcl", None),
    ],
)
def test_chance_where_there_is_one(method, chance, small, pictures, capsys):
    train(small(dry_run=True, quiet=False, method=method), data=pictures)
    said = capsys.readouterr().out
    assert ("chance is" in said) == (chance is not None)
    if chance is not None:
        assert f"chance is {chance:.3f}" in said


@pytest.mark.parametrize(
    "changes, error, message",
    [
        ({"batch_size": 500}, DataError, "fewer than one step of 500: use --batch-"),
        (
            {"optim": Optim(accumulate=8)},
            DataError,
            "of 128: use --batch-size 8 or less",
        ),
        ({"optim": Optim(accumulate=99)}, DataError, "99 batches per step .* too many"),
        ({"batch_size": 1}, SettingError, "batch_size must be at least 2: got 1"),
        ({"epochs": 0}, SettingError, "epochs must be at least 1: got 0"),
        ({"n_views": 1}, SettingError, "Contrast needs two views or more"),
        ({"method": "simlcr"}, SettingError, "Did you mean 'simclr'"),
        ({"views": "week"}, SettingError, "Did you mean 'weak'"),
        ({"encoder": "resnet81"}, SettingError, "Unknown encoder 'resnet81'"),
        (
            {"options": {"prior": 0.1}},
            SettingError,
            r"Unknown option 'prior'.*\n  temperature +0.5 +above 0, or learned  Div",
        ),
        (
            {"n_views": 3, "views": "multi_crop"},
            SettingError,
            "multi_crop makes 6 view",
        ),
        ({"n_views": 4, "views": "byol"}, SettingError, "byol makes 2 views, and n_vi"),
        ({"method": "kcl", "temperature": 0.1}, SettingError, "option 'temperature'"),
        ({"method": "kcl", "options": {"s": 1.0}}, SettingError, "s has no effect in"),
        (
            {"temperature": 0.1, "options": {"temperature": 0.2}},
            SettingError,
            "The temperature is given twice",
        ),
        ({"optim": Optim(momentum=0.5)}, SettingError, "optim.momentum is for sgd"),
        ({"ess": Ess(end=0.5)}, SettingError, "add --ess.target 0.3, or leave them"),
        (
            {"ess": Ess(target=0.5, schedule=(0.5, 0.2))},
            SettingError,
            "ess.schedule sets the targets of the whole training",
        ),
        ({"ess": Ess(rate=0.5)}, SettingError, "add --ess.target 0.3, or leave them"),
        ({"method": "kcl", "ess": Ess(target=0.3)}, SettingError, "KCL has none"),
        ({"head": "linear", "width": None}, SettingError, "hidden is the width of lay"),
        (
            {"head": "none", "hidden": None},
            SettingError,
            "width is the width of the proje",
        ),
        ({"pretrained": True, "start_from": "x"}, SettingError, "both say where the w"),
        (
            {"storage": "resident", "workers": 1},
            SettingError,
            "workers decode streamed images",
        ),
        ({"data_root": "sets"}, SettingError, "data_root is where named sets"),
        ({"json": True}, SettingError, "--json prints every reading and --quiet none"),
        ({"views_drop": ("blur",)}, SettingError, "Unknown operation 'blur'"),
        ({"views_strength": {"crop": 2.0}}, SettingError, "The strength of crop lies"),
        (
            {"views_drop": ("crop",), "views_strength": {"crop": 0.5}},
            SettingError,
            "crop is both dropped and given a strength of 0.5",
        ),
        ({"temperature": -1.0}, SettingError, "temperature must be a positive"),
        ({"optim": Optim(lr=-1.0)}, SettingError, "optim.lr must be a positive"),
        ({"optim": Optim(lr=math.inf)}, SettingError, "optim.lr must be finite"),
        (
            {"optim": Optim(weight_decay=math.inf)},
            SettingError,
            "optim.weight_decay must be finite",
        ),
        ({"optim": Optim(clip_norm=0.0)}, SettingError, "optim.clip_norm must be"),
        ({"optim": Optim(momentum=1.0)}, SettingError, "optim.momentum lies between"),
        ({"optim": Optim(weight_decay=-1.0)}, SettingError, "weight_decay must be at"),
        ({"checkpoint_seconds": math.nan}, SettingError, "checkpoint_seconds must be"),
        ({"knn_every": -1}, SettingError, "knn_every must be at least 0: got -1"),
        ({"limit": 0}, SettingError, "limit must be at least 1: got 0"),
        ({"workers": -1}, SettingError, "workers is 0 or more: got -1"),
        ({"seed": 10**20}, SettingError, "seed lies between"),
        ({"image_size": 10**6}, SettingError, "use a smaller --image-size, "),
        ({"optim": Optim(warmup=1.0)}, SettingError, "optim.warmup is a share"),
        ({"optim": Optim(accumulate=0)}, SettingError, "optim.accumulate must be"),
        ({"machine": Machine(device="cuda")}, SettingError, "there is no CUDA GPU"),
        ({"start_from": "nowhere"}, DataError, "There is no run or encoder file"),
    ],
)
def test_what_cannot_work_is_said(
    changes, error, message, small, pictures, monkeypatch
):
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    with pytest.raises(error, match=message):
        train(small(dry_run=True, **changes), data=pictures)


def test_of_a_run_to_resume(small, pictures, stopped_after, tmp_path, capsys):
    folder = stopped_after(3, small(), data=pictures)
    before = sorted((p.name, p.stat().st_mtime_ns) for p in folder.rglob("*"))
    for asked in (Train(), read_yaml(Train, folder / "config.yaml")):
        asked = replace(asked, resume=str(folder), dry_run=True)  # quiet in the file
        found = train(asked, data=pictures)
        said = capsys.readouterr().out
        assert f"would resume {folder} after step 3 of 8: 5 are left" in said
        assert "batch_size = 16  (default 128)" in said
        assert (found.done, found.n_steps) == (3, 8)
        assert found.seconds == pytest.approx(5 / 4 * found.seconds_per_epoch)
    assert before == sorted((p.name, p.stat().st_mtime_ns) for p in folder.rglob("*"))
    with pytest.raises(TrainingError, match="Another value of epochs was"):
        train(Train(resume=str(folder), dry_run=True, epochs=7), data=pictures)


def test_it_plays_one_of_many_processes(small, pictures, capsys):
    """More than this machine has: what one holds, computes and would receive."""
    machine = Machine(device="cpu", devices=4, nodes=2)
    changes = {"dry_run": True, "method": "moco", "options": {"size": 32}}
    alone = train(small(**changes), data=pictures)
    one = train(small(**changes, machine=machine), data=pictures)
    said = capsys.readouterr().out
    assert "a process has 2 of 16 samples; one of the 8 was tried" in said
    assert "images (2, 3, 16, 16) uint8" in said
    assert one.local_batch == 2 and alone.local_batch == 16
    assert one.held == alone.held  # the same weights and the same memory on each
    assert one.held["remembered rows"] >= 32 * 8 * 4
    assert one.loss is None and alone.loss is not None
    trained = one.held["gradients"]
    assert one.traffic.n_bytes["all-reduce"] >= trained * 2 * 7 // 8
    assert one.traffic.n_bytes["all-gather"] >= 7 * 2 * 8 * 4  # the others' keys
    assert one.exchange_seconds == one.link.seconds(one.traffic) > 0
    assert not alone.traffic.n_calls and alone.exchange_seconds == 0
    assert not torch.distributed.is_initialized()


def test_optimizer_and_images_are_what_they_are(small, pictures):
    held = {
        name: train(small(dry_run=True, optim=Optim(name=name)), data=pictures).held
        for name in ("sgd", "adamw")
    }
    weights = held["sgd"]["weights"]
    assert held["sgd"]["optimizer"] == weights  # one momentum per weight
    assert held["adamw"]["optimizer"] == pytest.approx(2 * weights, rel=0.01)
    assert held["sgd"]["images"] == 66 * 3 * 16 * 16


def test_a_running_process_group_is_refused(small, pictures):
    store = torch.distributed.HashStore()
    torch.distributed.init_process_group("gloo", store=store, rank=0, world_size=1)
    try:
        with pytest.raises(SettingError, match="a process group is running already"):
            settings = small(dry_run=True, machine=Machine(devices=2, device="cpu"))
            train(settings, data=pictures)
    finally:
        torch.distributed.destroy_process_group()


def test_it_goes_without_torchrun(small, pictures, monkeypatch):
    torchrun = {"TORCHELASTIC_RUN_ID": "a", "WORLD_SIZE": "6", "GROUP_WORLD_SIZE": "2"}
    for name, value in torchrun.items():
        monkeypatch.setenv(name, value)
    words = "without torchrun, with --machine.devices 3 --machine.nodes 2"
    with pytest.raises(SettingError, match=words):
        train(small(dry_run=True), data=pictures)


def test_shared_weights_and_pieces_are_played_too(small, pictures):
    """What a process holds of fsdp is a share; pieces have other collectives."""
    whole = train(small(dry_run=True), data=pictures)
    machine = Machine(device="cpu", devices=2, strategy="fsdp")
    share = train(small(dry_run=True, machine=machine), data=pictures)
    for part in ("weights", "gradients", "optimizer"):
        assert share.held[part] == pytest.approx(whole.held[part] / 2, rel=0.1)
    assert share.traffic.n_bytes["reduce-scatter"] >= share.held["gradients"] * 0.9
    machine = Machine(device="cpu", devices=2)
    pieces = train(small(dry_run=True, machine=machine, micro_batch=4), data=pictures)
    assert pieces.local_batch == 8
    exchanged = pieces.traffic.n_bytes["all-reduce"]  # once, not for every piece
    assert exchanged < 1.5 * whole.held["gradients"]

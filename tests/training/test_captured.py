"""Steps that stay on the device: no number is read on the host, and replays repeat."""

import dataclasses
import math
import statistics
from typing import ClassVar

import numpy as np
import pytest
import torch
from tests.image_methods import IMAGE_METHODS
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

import invariance as inv
from invariance.encoders import Standardize
from invariance.errors import TrainingError
from invariance.training import Attack, Ess, Machine, Optim, Train, make_plan, train
from invariance.views import DeviceViews, Draws, RandomHorizontalFlip, ViewSet

ON_GPU = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
HOST = {"annulus", "la", "ir_control_variate"}
OPTIONS = {  # memories that are full after three batches of 16
    "swav": {"n_prototypes": 6},
    "moco": {"size": 32},
    "moco_v1": {"size": 32},
    "pcl": {"size": 32, "n_clusters": 4, "warmup": 0.0},
    "nnclr": {"size": 32},
    "ir_sampled": {"n_draws": 10},
    "ir_nce": {"n_draws": 10},
    "vince": {"n_proposals": 16},
    "vince_plus": {"n_proposals": 16},
    "la": {"k": 20, "n_clusters": 4},
}


class HostForbidden(TorchDispatchMode):
    """Raises where Python's numbers enter: ``torch.tensor`` would copy them."""

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        assert function is not torch.ops.aten.lift_fresh.default, "copied from the host"
        return function(*args, **(kwargs or {}))


@pytest.fixture
def without_values(monkeypatch):
    """The meta device stands for an accelerator: asking it for a number raises.

    Autocast does not know it.
    """
    autocast = torch.autocast
    monkeypatch.setattr(torch, "autocast", lambda _, **how: autocast("cpu", **how))
    monkeypatch.setattr(torch, "is_autocast_enabled", lambda *_: False)


def settings_of(name, **changes):
    return Train(
        method=name,
        encoder="tiny",
        batch_size=16,
        width=8,
        options=OPTIONS.get(name, {}),
        **changes,
    )


def fill_memories(plan):
    """Three steps on the CPU."""
    for rows in plan.order.steps(0, 0)[:3, 0]:
        plan.learner.before_epoch(0.5)
        (images,) = plan.source.batches([rows])
        views = plan.views(images, samples=rows, seed=0, epoch=0)
        plan.learner(views, plan.labels(rows, torch.device("cpu")), rows)
        plan.learner.after_step(0.5)


# what pieces of a batch change is how memories and twins are read
IN_PIECES = {method.negatives: name for name, method in IMAGE_METHODS.items()}
IN_PIECES |= {method.n_views: name for name, method in IMAGE_METHODS.items()}


@pytest.mark.parametrize(
    ("name", "micro_batch"),
    [(name, None) for name in sorted(IMAGE_METHODS.keys() - HOST)]
    + [(name, 5) for name in sorted({*IN_PIECES.values(), "byol"} - HOST)],
)
def test_a_step_asks_the_host_for_nothing(
    name, micro_batch, pictures, without_values, monkeypatch
):
    # while a graph is captured, the two passes of a piece are not compared
    for user in ("encoders._grad_cache", "randomness"):
        monkeypatch.setattr(f"invariance.{user}.is_capturing", lambda: True)
    moves = IMAGE_METHODS[name].objective in ("nt_xent", "info_nce", "dcl")
    ess = Ess(target=0.3, end=0.2) if moves else Ess()
    attacked = {"views_adversarial": "first", "attack": Attack(steps=1)}
    attacked = attacked if IMAGE_METHODS[name].n_views > 1 else {}
    settings = settings_of(name, ess=ess, micro_batch=micro_batch, **attacked)
    plan = make_plan(settings, data=pictures)
    learner, controller = plan.learner, plan.controller
    assert learner.why_not_captured == ""
    fill_memories(plan)
    learner.to("meta")
    views = DeviceViews(plan.views, plan.source.samples.to("meta"))
    rows, labels = torch.empty(2, 16, dtype=torch.long, device="meta")
    keys, progress = views.keys(0, 1), torch.empty((), device="meta")
    if controller is not None:
        controller.move_to(torch.device("meta"))
    before = learner.host_state
    with HostForbidden():
        first, *others = views(rows, keys)
        if plan.attack is not None:
            start = plan.attack.start(first, Draws.from_key(keys[0], rows, 0))
            (first,) = plan.attack(
                lambda changed: learner([*changed, *others], labels, rows).loss,
                [first],
                [start],
                within=learner.leave_no_trace,
            )
        step = learner([first, *others], labels, rows)
        step.loss.backward()
        step = step.with_ess().with_information()
        learner.after_step(progress)
        if controller is not None:
            controller.update(step.readings["ess"], progress)
    assert step.loss.device.type == "meta"
    assert learner.host_state == before


@pytest.mark.parametrize("name", sorted(HOST))
def test_a_step_that_needs_the_host_says_why(name, pictures):
    assert make_plan(settings_of(name), data=pictures).learner.why_not_captured


class Rehearsed:
    """A graph that calls what it captured."""

    made: ClassVar[list] = []

    def __init__(self, function, beside, rewinder):
        self.function, self.n_replays = function, 0
        Rehearsed.made.append(self)

    def replay(self):
        self.n_replays += 1
        return self.function()


@pytest.fixture
def on_the_cpu(monkeypatch):
    """Steps as on a GPU, from tables and graphs, but on the CPU."""
    training = "invariance.training"
    monkeypatch.setattr(f"{training}._pace.find_obstacle", lambda *_: "")
    monkeypatch.setattr(f"{training}._captured.CudaGraph", Rehearsed)
    monkeypatch.setattr(Rehearsed, "made", [])


RUNS = {
    "simclr": {},
    "sgd": {"optim": Optim(name="sgd", clip_norm=1.0)},
    "lars": {"optim": Optim(name="lars", accumulate=2), "batch_size": 8},
    "byol": {"method": "byol"},
    "moco": {"method": "moco", "options": {"size": 40}},
    "pcl": {"method": "pcl", "options": {"size": 32, "n_clusters": 4, "warmup": 0.5}},
    "supcon": {"method": "supcon"},
    "pieces": {"method": "moco", "options": {"size": 40}, "micro_batch": 5},
    "ess": {"ess": Ess(target=0.3, end=0.2, rate=0.05)},
    "learned": {"method": "info_nce", "temperature": "learned"},
    "attacked": {"views_adversarial": "added", "attack": Attack(steps=2)},
    "crops": {
        "method": "swav",
        "views": "multi_crop",
        "options": {"n_local": 1, "n_prototypes": 6},
    },
}


@pytest.mark.parametrize("changes", RUNS.values(), ids=RUNS)
def test_tables_and_graphs_change_nothing(
    changes, small, pictures, stopped_after, readings, on_the_cpu, monkeypatch
):
    settings = small(epochs=3, log_every=3, **changes)
    replayed = train(settings, data=pictures).folder
    assert any(graph.n_replays for graph in Rehearsed.made)
    folder = stopped_after(5, settings, data=pictures)
    resumed = train(Train(resume=str(folder), quiet=True), data=pictures).folder
    assert readings(resumed) == readings(replayed)
    monkeypatch.undo()
    called = train(settings, data=pictures).folder
    for ours, theirs in zip(readings(replayed), readings(called), strict=True):
        for key in ("loss", "lr", "temperature"):  # views are rounded at other places
            assert ours[key] == pytest.approx(theirs[key], rel=2e-2, abs=1e-3)


def test_views_are_standardized_before_they_are_rounded(
    small, pictures, on_the_cpu, monkeypatch
):
    enters, standardize = set(), Standardize.forward

    def watch(layer, images):
        if layer.training:
            enters.add(images.dtype)
        return standardize(layer, images)

    monkeypatch.setattr(Standardize, "forward", watch)
    machine = Machine(device="cpu", precision="bf16")
    train(small(epochs=1, machine=machine), data=pictures)
    assert enters == {torch.float32}


@pytest.mark.parametrize(
    "error",
    [
        RuntimeError("operation not permitted when stream is capturing\nmore"),
        torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB."),
    ],
    ids=["refused", "out of memory"],
)
def test_a_step_that_cannot_be_captured_is_called(
    error, small, pictures, readings, on_the_cpu, monkeypatch, capsys
):
    settings = small(method="moco", options={"size": 32}, quiet=False)
    called = train(settings, data=pictures).folder

    def refuse(self, function, beside, rewinder):
        raise error

    monkeypatch.setattr(Rehearsed, "__init__", refuse)
    broken = train(settings, data=pictures).folder
    why = str(error).splitlines()[0]
    assert f"since capturing failed: {why}" in capsys.readouterr().out
    assert len(readings(broken)) == len(readings(called))


def test_without_a_gpu_it_says_that_nothing_would_be_captured(small, pictures, capsys):
    for capture in (False, True):
        machine = Machine(device="cpu", capture=capture)
        train(small(machine=machine, dry_run=True, quiet=False), data=pictures)
        words = "no CUDA device: --machine.no-capture changes nothing"
        assert (words in capsys.readouterr().out) == (not capture)


def test_a_compiled_encoder_is_told_without_a_gpu_too(small, pictures):
    for compiled in (False, True):
        machine = Machine(device="cpu", compile=compiled)
        settings = small(machine=machine, dry_run=True)
        encoder = nn.Sequential(nn.Conv2d(3, 4, 3), nn.Flatten())  # soon compiled
        found = train(settings, data=pictures, encoder=encoder)
        lines = [fact for fact in found.facts if fact.startswith("pace")]
        assert len(lines) == compiled
        assert all("encoder compiled" in line for line in lines)


def test_the_old_switch_of_the_compiler_is_read(tmp_path):
    for written, value in (("true", True), ("false", False), ("auto", "auto")):
        path = tmp_path / "config.yaml"
        path.write_text(f"machine:\n  compile: {written}\n")
        assert inv.folder.read_settings(tmp_path, Train).machine.compile == value


# ---------------------------------------------------------------- on a GPU


@pytest.fixture(scope="module")
def images():
    generator = np.random.default_rng(0)
    labels = np.arange(160) % 4
    return generator.integers(0, 256, (160, 32, 32, 3), dtype=np.uint8), labels


def on_gpu(small, name, **changes):
    machine = {"device": "cuda", "compile": False} | changes.pop("machine", {})
    options = {"method": name, "options": OPTIONS.get(name, {}), "hidden": None}
    changes = options | {"epochs": 2, "log_every": 4, "encoder": "resnet18"} | changes
    return dataclasses.replace(small(), machine=Machine(**machine), **changes)


def weights_of(run):
    return run.encoder().state_dict()


def assert_same(first, second, readings):
    assert readings(first.folder) == readings(second.folder)
    ours, theirs = weights_of(first), weights_of(second)
    assert all(torch.equal(ours[key], theirs[key]) for key in ours)


@ON_GPU
@pytest.mark.parametrize("name", IMAGE_METHODS)
def test_captured_is_called_to_the_bit(name, small, images, readings, capsys):
    runs = [
        train(
            on_gpu(small, name, machine={"capture": capture}, quiet=False), data=images
        )
        for capture in (True, False)
    ]
    said = capsys.readouterr().out
    assert ("replayed from a CUDA graph" in said) == (name not in HOST)
    assert "capturing failed" not in said
    assert_same(*runs, readings)


OBSTACLES = {
    "images are streamed": {"storage": "streamed", "workers": 0},
    "fp16 scales its gradients": {"machine": {"precision": "fp16"}},
    "its ring closes in": {"method": "annulus"},
    "as asked": {"machine": {"capture": False}},
}


@ON_GPU
@pytest.mark.parametrize("why", OBSTACLES)
def test_it_says_why_steps_are_not_captured(why, small, images, capsys):
    changes = {"quiet": False, "dry_run": True, **OBSTACLES[why]}
    train(on_gpu(small, changes.pop("method", "simclr"), **changes), data=images)
    said = capsys.readouterr().out
    assert f"pace: steps are launched one by one ({why}" in said


@ON_GPU
def test_what_users_wrote_is_not_captured(small, images, capsys):
    settings = on_gpu(small, "simclr", quiet=False, dry_run=True)
    network = nn.Sequential(nn.Conv2d(3, 8, 3, 2), nn.ReLU())
    train(settings, data=images, encoder=network)
    assert "(the encoder is your own object)" in capsys.readouterr().out
    views = ViewSet([[lambda x: x], [RandomHorizontalFlip()]])
    train(settings, data=images, views=views)
    assert "(a view has your own function)" in capsys.readouterr().out


GPU_RUNS = {
    "sgd": {"name": "simclr", "optim": Optim(name="sgd", clip_norm=1.0)},
    "lars": {"name": "byol", "optim": Optim(name="lars", accumulate=2)},
    "ess": {"name": "dcl", "ess": Ess(target=0.3, end=0.2, rate=0.05)},
    "learned": {"name": "info_nce", "temperature": "learned"},
    "float32": {"name": "moco", "machine": {"precision": "32"}},
    "pieces": {"name": "simclr", "micro_batch": 5},
    "attacked": {"name": "moco", "views_adversarial": "first"},
    "attacked in pieces": {
        "name": "simclr",
        "micro_batch": 5,
        "views_adversarial": "all",
    },
    # which leaves out layers at random
    "drops": {
        "name": "simclr",
        "encoder": "torchvision/efficientnet_b0",
        "micro_batch": 5,
    },
}


@ON_GPU
@pytest.mark.parametrize("name", ["pieces", "attacked", "drops"])
def test_captured_runs_are_called_ones_to_the_bit(name, small, images, readings):
    runs = [
        train(on_gpu(small, **GPU_RUNS[name], machine={"capture": how}), data=images)
        for how in (True, False)
    ]
    assert_same(*runs, readings)


@ON_GPU
@pytest.mark.parametrize("changes", GPU_RUNS.values(), ids=GPU_RUNS)
def test_captured_runs_repeat_and_resume_to_the_bit(
    changes, small, images, readings, stopped_after
):
    settings = on_gpu(small, **changes)
    first, second = (train(settings, data=images) for _ in range(2))
    folder = stopped_after(7, settings, data=images)
    resumed = train(Train(resume=str(folder), quiet=True), data=images)
    assert_same(first, second, readings)
    assert_same(first, resumed, readings)


@ON_GPU
def test_a_captured_run_that_diverges_is_stopped_with_the_same_words(small, images):
    settings = on_gpu(small, "simclr", optim=Optim(name="sgd", lr=1e30, warmup=0.0))
    with pytest.raises(TrainingError, match=r"Training diverged at step \d+: "):
        train(settings, data=images)


@ON_GPU
def test_a_captured_step_uses_every_sample_of_an_epoch_once(small, images, readings):
    settings = on_gpu(small, "simclr", epochs=4, log_every=1)
    rates = [reading["lr"] for reading in readings(train(settings, data=images).folder)]
    assert len(rates) == 4 * (144 // 16)  # a tenth is held out
    assert rates == sorted(rates[:2]) + sorted(rates[2:], reverse=True)
    assert math.isclose(rates[-1], 0, abs_tol=rates[1] / 50)


@ON_GPU
def test_the_speed_of_the_last_steps_is_theirs(small, images, readings):
    """The host is ahead: by its clock a run that ends does its last steps at once."""
    settings = on_gpu(small, "simclr", epochs=8, log_every=9)
    run = train(settings, data=images)
    rates = [r["time/images_per_second"] for r in run.metrics if r["step"] > 9]
    assert len(rates) == 7
    assert rates[-1] < 3 * statistics.median(rates)

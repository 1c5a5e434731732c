"""A run that is stopped and resumed is the run that was not, bit for bit."""

import pytest
import torch
from safetensors.torch import load_file
from torch import nn

from invariance.errors import TrainingError
from invariance.training import Attack, Ess, Federated, Optim, Train, train

RUNS = {
    "simclr": {},
    "byol": {"method": "byol"},
    "swav": {"method": "swav", "options": {"epsilon": 0.05}},
    "multi_view": {"method": "multi_view"},
    "info_nce": {"method": "info_nce", "temperature": "learned"},
    "critic": {"method": "info_nce", "critic": "mlp", "options": {"critic_width": 8}},
    "learned scale and bias": {"method": "sig_lip"},
    "symmetric queue": {"method": "moco", "options": {"symmetric": True, "size": 50}},
    "weaker views": {"views_drop": ("gray",), "views_strength": {"crop": 0.5}},
    "attacked": {"views_adversarial": "first", "attack": Attack(steps=2)},
    "an attacked view more": {
        "method": "moco",
        "options": {"size": 50},
        "views_adversarial": "added",
        "attack": Attack(steps=1, norm="l2"),
        "optim": Optim(accumulate=2),
        "batch_size": 8,
    },
    "small crops": {
        "method": "swav",
        "views": "multi_crop",
        "options": {"n_local": 1, "n_prototypes": 6},
    },
    "supcon": {"method": "supcon"},
    "ess": {"ess": Ess(target=0.3, end=0.2, rate=0.05)},
    "ess of flat": {"method": "flatclr", "ess": Ess(target=0.3)},
    "half-filled queue": {"method": "moco", "options": {"size": 120.0}},
    "queue that wraps around": {
        "method": "moco",
        "options": {"size": 20.0},
        "optim": Optim(accumulate=2),
        "batch_size": 8,
    },
    "draws of a bank": {"method": "ir_sampled", "options": {"n_draws": 20.0}},
    "frozen constant": {"method": "ir_nce", "options": {"n_draws": 20.0}},
    "annealed ring": {"method": "annulus", "options": {"outer": 0.2}},
    "neighbours": {
        "method": "la",
        "options": {"k": 0.5, "n_clusters": 4.0, "warmup": 0.5},
    },
    "learned": {"method": "vince_plus", "options": {"n_proposals": 24.0}},
    "prototypes": {
        "method": "pcl",
        "options": {"size": 40.0, "n_clusters": 4.0, "warmup": 0.5},
    },
    "nearest neighbours": {"method": "nnclr", "options": {"size": 40.0}},
    "accumulate": {"optim": Optim(accumulate=2), "batch_size": 8},
    "pieces": {"micro_batch": 5},
    "clipped": {"optim": Optim(name="sgd", clip_norm=0.1)},
    "lars": {"optim": Optim(name="lars")},
    "streamed": {"storage": "streamed", "workers": 0},
    "knn": {"knn_every": 1},
    "every other step": {"log_every": 2},
    "clients": {
        "federated": Federated(clients=3, skew=1.0, local_steps=2, optimizer="kept"),
    },
    "clients with queues": {
        "method": "moco",
        "options": {"size": 40.0},
        "epochs": 3,
        "federated": Federated(clients=4, participation=0.5, local_epochs=2),
    },
    "clients with noise": {
        "federated": Federated(clients=2, local_steps=3, clip=0.1, noise=0.5),
    },
}


def same(a, b):
    """Equal down to the bit, whatever the nesting."""
    if isinstance(a, torch.Tensor):
        return a.dtype == b.dtype and torch.equal(a, b)
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(same(a[k], b[k]) for k in a)
    if isinstance(a, list | tuple):
        return len(a) == len(b) and all(map(same, a, b))
    return a == b


@pytest.mark.parametrize("changes", RUNS.values(), ids=RUNS)
def test_stopping_twice_changes_nothing(
    changes, small, pictures, stopped_after, readings, newest
):
    settings = small(**changes)
    whole = train(settings, data=pictures).folder
    folder = stopped_after(1, settings, data=pictures)
    assert len(list((folder / "checkpoints").iterdir())) == 1
    again = Train(resume=str(folder), quiet=True)
    stopped_after(4, again, data=pictures)
    resumed = train(again, data=pictures).folder
    assert resumed == folder != whole
    assert readings(resumed) == readings(whole)
    ours, theirs = (load_file(f / "encoder.safetensors") for f in (resumed, whole))
    assert same(ours, theirs)
    ours, theirs = newest(resumed), newest(whole)
    for state in (ours, theirs):
        del state["metrics"]  # bytes, and the clock's readings differ
        del state["random"]["python"]  # the shape checks of the tests draw from it
    assert same(ours, theirs)


def test_memories_are_in_the_checkpoint(small, pictures, stopped_after, newest):
    """What the runs above go on from: half a queue, half a ring, some clusters."""

    def state(name, n_steps):
        settings = small(**RUNS[name])
        return newest(stopped_after(n_steps, settings, data=pictures))["learner"]

    held = state("half-filled queue", 3)
    empty = held["negatives.ids"] == -1
    assert 48 <= (~empty).sum() < 120 and empty.any()
    assert not held["negatives.z"][empty].any()
    ring = state("annealed ring", 3)
    assert ring["negatives._extra_state"] == 3 / 8
    constant = state("frozen constant", 1)
    assert constant["objective.log_z"].isfinite()
    for name, labels in (
        ("neighbours", "negatives.labels"),
        ("prototypes", "prototypes.0.labels"),
    ):
        assert state(name, 6)[labels].unique().tolist() == [0, 1, 2, 3]
        assert not state(name, 3)[labels].any()  # still warming up


class Dropping(nn.Sequential):
    """A network that needs random numbers of the global generator."""

    def __init__(self):
        super().__init__(nn.Conv2d(3, 8, 3, 2), nn.ReLU(), nn.Dropout2d(0.5))


@pytest.mark.parametrize("storage", ["resident", "streamed"])
def test_dropout_goes_on_where_it_was(
    storage, small, pictures, stopped_after, readings, newest
):
    settings = small(storage=storage, workers=0 if storage == "streamed" else None)
    torch.manual_seed(1)
    weights = Dropping().state_dict()

    def fresh():
        network = Dropping()
        network.load_state_dict(weights)
        return {"data": pictures, "encoder": network}

    whole = train(settings, **fresh()).folder
    folder = stopped_after(2, settings, **fresh())
    train(Train(resume=str(folder), quiet=True), **fresh())
    assert readings(folder) == readings(whole)
    assert same(newest(folder)["learner"], newest(whole)["learner"])
    ours, theirs = newest(folder)["random"], newest(whole)["random"]
    assert same(ours["torch"], theirs["torch"])


def test_readings_after_the_last_checkpoint_are_taken_again(
    small, pictures, stopped_after, readings
):
    settings = small()
    whole = train(settings, data=pictures).folder
    folder = stopped_after(3, settings, data=pictures)
    with (folder / "metrics.jsonl").open("a") as file:
        file.write('{"step": 4, "loss": 1.0}\n{"step": 5, "lo')  # killed while writing
    train(Train(resume=str(folder), quiet=True), data=pictures)
    assert readings(folder) == readings(whole)


def test_killed_before_the_first_checkpoint_starts_over(
    small, pictures, stopped_after, readings
):
    settings = small()
    whole = train(settings, data=pictures).folder
    folder = stopped_after(3, settings, data=pictures)
    for path in (folder / "checkpoints").iterdir():
        path.unlink()
    lines = (folder / "metrics.jsonl").read_text()
    (folder / "metrics.jsonl").write_text(lines.partition("\n")[0] + "\n")
    train(Train(resume=str(folder), quiet=True), data=pictures)
    assert readings(folder) == readings(whole)


def test_lost_checkpoints_are_said_and_cost_no_readings(
    small, pictures, stopped_after, readings
):
    folder = stopped_after(3, small(), data=pictures)
    for path in (folder / "checkpoints").iterdir():
        path.unlink()
    with pytest.raises(TrainingError, match="are gone, and it had reached step 3"):
        train(Train(resume=str(folder), quiet=True), data=pictures)
    assert len(readings(folder)) == 3


def test_a_damaged_checkpoint_is_said_to_be_passed_over(
    small, pictures, stopped_after, capsys
):
    folder = stopped_after(3, small(), data=pictures)
    (folder / "checkpoints" / "step-00000003.pt").write_bytes(b"damaged")
    train(Train(resume=str(folder), quiet=True), data=pictures)
    said = capsys.readouterr().out
    assert "step-00000003.pt is damaged: continuing from step-00000001.pt." in said


def test_killed_while_evaluating_evaluates_again(small, pictures, monkeypatch):
    def killed(*_):
        raise KeyboardInterrupt

    settings = small(evaluate=True, name="late")
    last_work = "invariance.training._finish.evaluate_trained"
    monkeypatch.setattr(last_work, killed)
    with pytest.raises(KeyboardInterrupt):
        train(settings, data=pictures)
    asked = []
    monkeypatch.setattr(last_work, lambda *_: asked.append(1))
    run = train(Train(resume=f"{settings.out}/late", quiet=True), data=pictures)
    assert asked == [1] and (run.folder / "encoder.safetensors").exists()

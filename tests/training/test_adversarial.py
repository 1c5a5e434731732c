"""Adversarial views: they raise the loss, leave no other trace, and say so."""

import numpy as np
import pytest
import torch
from tests.image_methods import IMAGE_METHODS
from tests.snippets import run_page
from torch import nn

import invariance as inv
from invariance.cli import main
from invariance.data import load
from invariance.errors import SettingError
from invariance.evaluation import attack_probe, encode_images
from invariance.report import write_report
from invariance.training import Attack, Machine, Optim, make_plan, train
from invariance.views import Normalize, ViewSet

NO_DISTANCE = Attack(epsilon=1e-30, steps=2)
OPTIONS = {
    "moco": {"size": 32},
    "pcl": {"size": 32, "n_clusters": 4, "warmup": 0.0},
    "nnclr": {"size": 32},
    "ir_nce": {"n_draws": 10},
    "swav": {"n_prototypes": 6},
}


# batch statistics, a twin and a queue, a bank with draws and a constant
@pytest.mark.parametrize("name", ["simclr", "moco", "ir_nce"])
def test_an_attack_of_no_distance_is_the_plain_run_to_the_bit(
    name, small, pictures, readings
):
    """Statistics, twins, memories, draws and generators are as without its passes."""
    settings = {"method": name, "options": OPTIONS.get(name, {}), "n_views": 2}
    settings |= {"optim": Optim(accumulate=2), "batch_size": 8, "epochs": 1}
    plain = train(small(**settings), data=pictures)
    attacked = {"views_adversarial": "first", "attack": NO_DISTANCE}
    same = train(small(**settings, **attacked), data=pictures)
    assert readings(plain.folder) == readings(same.folder)
    ours, theirs = (run.encoder().state_dict() for run in (plain, same))
    assert all(torch.equal(ours[key], theirs[key]) for key in ours)


@pytest.mark.parametrize(
    "name", sorted(k for k, m in IMAGE_METHODS.items() if m.positives != "places")
)
def test_the_attack_raises_the_loss_of_every_method(name, pictures):
    """The loss of the first batch, by the same weights."""
    options = {**OPTIONS, "ir_sampled": {"n_draws": 10}, "la": {"k": 20}}
    options |= {"vince": {"n_proposals": 16}, "vince_plus": {"n_proposals": 16}}
    settings = inv.Train(
        method=name,
        options=options.get(name, {}),
        encoder="tiny",
        n_views=2,
        batch_size=16,
        width=8,
        views_adversarial="first",
    )
    plan = make_plan(settings, data=pictures)
    learner, attack = plan.learner, plan.attack
    rows = plan.order.steps(0, 0)[0, 0]
    learner.before_epoch(0.5)
    u, v = plan.see(next(plan.batches([rows], "cpu")), rows, 0)
    labels = plan.labels(rows, torch.device("cpu"))

    def step(view):
        return learner([view, v], labels, rows)

    buffers = {k: b.clone() for k, b in learner.named_buffers()}
    (changed,) = attack(
        lambda views: step(views[0]).loss, [u], within=learner.leave_no_trace
    )
    after = dict(learner.named_buffers())
    assert all(torch.equal(b, after[k]) or b.isnan() for k, b in buffers.items())
    assert learner.used == [] and all(p.grad is None for p in learner.parameters())
    with learner.leave_no_trace():
        before = step(u)
    with learner.leave_no_trace():
        worse = step(changed)
    losses = [before.loss, worse.loss]
    if learner.objective.value_is_constant:  # its gradient is InfoNCE's
        losses = [inv.info_nce(step.u, step.v) for step in (before, worse)]
    assert losses[1] > losses[0]


@pytest.mark.parametrize("which, n_views", [("first", 2), ("all", 2), ("added", 3)])
def test_which_views_are_attacked(which, n_views, small, pictures, capsys):
    settings = small(views_adversarial=which, dry_run=True, quiet=False, epochs=1)
    dry = train(settings, data=pictures)
    assert len(dry.view_shapes) == n_views
    said = capsys.readouterr().out
    words = {"first": "the first one", "all": "all of them", "added": "added"}
    assert words[which] in said and f"({n_views} views" in said
    assert "5 steps of PGD within 0.0314 (linf) against the loss" in said
    assert "readings of a step are of the attacked views" in said


@pytest.mark.parametrize("name", ["simclr", "supcon", "byol", "moco", "nnclr"])
def test_readings_are_not_of_a_view_and_its_own_copy(name, small, pictures):
    """Of no distance the copy is the view: the two would be aligned from the start."""
    options = {"method": name, "options": OPTIONS.get(name, {}), "epochs": 1}
    added = {"views_adversarial": "added", "attack": NO_DISTANCE}
    plain, copied = (
        train(small(**options, **changes), data=pictures).metrics[0]["alignment"]
        for changes in ({}, added)
    )
    assert copied > plain / 2 > 0


def test_a_dry_run_counts_the_passes_of_the_attack(small, pictures):
    plain, attacked = (
        train(small(dry_run=True, **changes), data=pictures).computing_seconds
        for changes in ({}, {"views_adversarial": "first", "attack": Attack(steps=9)})
    )
    assert attacked > 2 * plain  # by count 5.5 times; a busy machine wavers


class Plain(nn.Sequential):
    """Without batch norm, so that pieces are encoded as the whole is."""

    def __init__(self):
        super().__init__(nn.Flatten(), nn.Linear(768, 32), nn.GELU(), nn.Linear(32, 16))


@pytest.mark.parametrize("which", ["first", "all"])
def test_pieces_of_a_batch_are_attacked_as_the_whole_is(
    which, small, pictures, readings
):
    def losses(**changes):
        torch.manual_seed(0)
        settings = small(
            epochs=1,
            head="linear",
            hidden=None,
            views_adversarial=which,
            attack=Attack(norm="l2", steps=2),
            **changes,
        )
        run = train(settings, data=pictures, encoder=Plain())
        return [reading["loss"] for reading in run.metrics]

    assert losses(micro_batch=6) == pytest.approx(losses(), rel=1e-4)


def test_half_precision_attacks_too(small, pictures):
    machine = Machine(device="cpu", precision="bf16")
    changes = {"machine": machine, "epochs": 1, "log_every": 1}
    plain = train(small(**changes), data=pictures).metrics[0]["loss"]
    attacked = train(small(**changes, views_adversarial="first"), data=pictures)
    assert attacked.metrics[0]["loss"] > plain


def test_what_makes_no_sense_is_refused(small, pictures):
    def refuse(sentence, data=pictures, **changes):
        objects = {k: changes.pop(k) for k in ("views",) if k in changes}
        with pytest.raises(SettingError, match=sentence):
            train(small(**changes), data=data, **objects)

    attacked = {"views_adversarial": "first"}
    vectors = torch.rand(64, 5).numpy()
    refuse("these are rows", data=vectors, encoder="auto", **attacked)
    refuse("ir shows each sample in only one", method="ir", n_views=1, **attacked)
    refuse("attack says how", attack=Attack(steps=3))
    refuse("attack.steps must be at least 1", attack=Attack(steps=0), **attacked)
    refuse("attack.epsilon", attack=Attack(epsilon=-1.0), **attacked)
    refuse("use --machine.strategy ddp", machine=Machine(strategy="fsdp"), **attacked)
    normal = ViewSet([[Normalize((0.5,) * 3, (0.2,) * 3)]] * 2)
    refuse("these views are normalized", views=normal, **attacked)


def test_killed_and_resumed_it_is_the_run_that_was_not(survive_a_kill):
    survive_a_kill(
        *("shapes", "--limit", "64", "--image-size", "8", "--batch-size", "16"),
        *("--epochs", "2", "--method", "moco", "--options", "size", "32"),
        *("--views.adversarial", "added", "--attack.steps", "2", "--no-evaluate"),
        *("--machine.device", "cpu"),
        step=5,
    )


def test_the_page_runs_and_the_run_goes_through_every_door(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = run_page("docs/robust.md")
    change = (names["attacked"] - names["images"]).abs()
    assert 0 < change.max() <= 8 / 255 + 1e-6
    folder, scores = names["run"].folder, names["scores"]
    for features in ("raw pixels", "untrained encoder", "trained encoder"):
        (attacked,) = scores.values("attacked", features)
        (clean,) = scores.values("attacked", features, metric="clean")
        assert attacked <= clean
    write_report(folder)
    page = (folder / "report.html").read_text("utf-8")
    assert "Linear probe attacked" in page and "before the attack" in page
    assert "views_adversarial" in page
    images = np.zeros((3, 16, 16, 3), dtype=np.uint8)
    assert len(inv.embed(folder, images).features) == 3
    inv.export(folder, "safetensors", tmp_path / "mine.safetensors")
    assert (tmp_path / "mine.safetensors").exists()
    notes = inv.diagnose(folder, pool=60, keep=False).notes
    assert any("views that an attack had changed" in note for note in notes)


def test_it_keeps_a_probe_right_under_attack(tmp_path):
    """Of 300 images the attack leaves more right, and it leaves more than untrained."""
    usual = {"data": "shapes", "image_size": 16, "limit": 512, "batch_size": 64}
    usual |= {"epochs": 6, "evaluate": False, "knn_every": 0, "quiet": True}
    parts = [load("shapes", split=s, image_size=16, n=512) for s in ("train", "test")]

    def attack(encoder):
        features = [
            x for part in parts for x in (encode_images(encoder, part), part.labels)
        ]
        how = {"epsilon": 2 / 255, "steps": 10, "images": 300}
        return attack_probe(encoder.eval(), *features, parts[1], **how).value

    plain = inv.Train(**usual, out=str(tmp_path))
    attacked = inv.Train(
        **usual,
        out=str(tmp_path),
        views_adversarial="first",
        attack=Attack(epsilon=8 / 255, steps=2),
    )
    untrained = attack(make_plan(plain).untrained)
    ours, theirs = (attack(train(x).encoder()) for x in (attacked, plain))
    assert ours > theirs + 0.03 and ours > untrained + 0.05, (ours, theirs, untrained)


def test_settings_and_flags_have_the_same_names(tmp_path, capsys):
    flags = ["--views.adversarial", "added", "--attack.steps", "1", "--limit", "32"]
    flags += ["--attack.norm", "l2", "--batch-size", "16", "--image-size", "16"]
    main(["train", "shapes", *flags, "--dry-run"])
    said = capsys.readouterr().out
    assert "(3 views" in said and "1 step of PGD within 0.502 (l2)" in said

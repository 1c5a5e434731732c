"""Runs of Deep InfoMax: they learn, survive a kill, and pass every door."""

import json

import pytest
import torch
from safetensors.torch import load_file
from torch.nn.functional import avg_pool2d

import invariance as inv
from invariance.data import load
from invariance.encoders import build_encoder
from invariance.errors import SettingError
from invariance.methods import build
from invariance.training import Train, make_plan, train


@pytest.mark.parametrize("which", ["local", "global"])
def test_it_learns_to_know_images_it_was_not_trained_on(which):
    """Places and maps of held-out images find their summaries; before, they did not."""
    torch.manual_seed(0)
    (images,) = load("shapes").batches([torch.arange(512)])
    images = avg_pool2d(images / 255, 2)
    learner = build("dim", build_encoder("tiny", image_size=16), which=which)
    optimizer = torch.optim.AdamW(learner.parameters(), 2e-3)
    order = torch.Generator().manual_seed(0)

    def look():
        learner.eval()
        step = learner([images[448:]]).with_information()
        learner.train()
        return step.readings["mi_nats"].item(), step.readings["accuracy"].item()

    nats, _ = look()
    for _ in range(80):
        chosen = torch.randint(448, (64,), generator=order)
        optimizer.zero_grad()
        learner([images[chosen]]).loss.backward()
        optimizer.step()
    later, accuracy = look()
    assert later > nats + 1 and later > 1.5, (nats, later)
    assert accuracy > 0.25  # of 64 candidates


def test_it_learns_classes_that_nobody_named(tmp_path):
    how = {"limit": 1000, "epochs": 5, "batch_size": 64, "options": {"which": "both"}}
    usual = {"data": "shapes", "evaluate": False, "knn_every": 0, "quiet": True}
    run = train(Train(method="dim", out=str(tmp_path), **usual, **how))
    scores = inv.evaluate(run.folder, protocols=["linear"], quiet=True)
    raw, untrained, trained = (
        scores.values("linear", features)[0]
        for features in ("raw pixels", "untrained encoder", "trained encoder")
    )
    assert trained > max(raw, untrained) + 0.08, (raw, untrained, trained)


@pytest.mark.parametrize(
    "changes",
    [
        {"method": "dim", "options": {"which": "both"}},
        {"method": "dim_jsd", "micro_batch": 6},
        {"method": "dim_dv", "n_views": 1, "views": "weak"},
    ],
    ids=str,
)
def test_stopping_changes_nothing(changes, small, pictures, stopped_after, readings):
    whole = train(small(**changes), data=pictures).folder
    folder = stopped_after(3, small(**changes), data=pictures)
    resumed = train(Train(resume=str(folder), quiet=True), data=pictures).folder
    assert readings(resumed) == readings(whole)
    ours, theirs = (load_file(f / "encoder.safetensors") for f in (resumed, whole))
    assert all(torch.equal(ours[name], theirs[name]) for name in theirs)


def test_killed_and_resumed(survive_a_kill):
    survive_a_kill(
        *("shapes", "--method", "dim", "--limit", "64", "--image-size", "16"),
        *("--batch-size", "16", "--epochs", "2", "--hidden", "16", "--width", "8"),
        *("--no-evaluate", "--knn-every", "0"),
        step=5,
    )


def test_from_dry_run_to_report(small, pictures, tmp_path, newest):
    settings = small(
        method="dim", options={"which": "both"}, evaluate=True, image_size=16
    )
    facts = " ".join(make_plan(settings, data=pictures).facts())
    assert "2 views, both: a map of 2x2 places, prior 0.1, InfoNCE(" in facts
    assert "symmetric" not in facts
    run = train(settings, data=pictures)
    rows = [json.loads(x) for x in (run.folder / "metrics.jsonl").open()]
    last = next(row for row in reversed(rows) if "loss" in row)
    parts = ("local", "global", "prior", "discriminator")
    assert all(last[f"loss/{part}"] > 0 for part in parts), last
    assert last["mi_nats"] <= last["mi_ceiling"]
    state = newest(run.folder)
    assert any("prior.n_drawn" in name for name in state["learner"]), state.keys()
    page = (run.folder / "report.html").read_text()
    assert "dim" in page and "which" in page  # its settings are told
    images, _ = pictures
    embedded = inv.embed(run.folder, images).features
    assert embedded.shape == (72, 256)
    encoder, views = inv.load(run.folder), torch.rand(2, 3, 16, 16)
    assert encoder.feature_map(views).shape == (2, 128, 2, 2)
    file = tmp_path / "encoder.safetensors"
    inv.export(run.folder, "safetensors", file)
    assert torch.equal(inv.load(file).eval()(views), encoder.eval()(views))


@pytest.mark.parametrize(
    "changes, message",
    [
        ({"options": {"which": "all"}}, "which"),
        ({"options": {"stage": -9}}, "stage -1, the last, to -4: got -9"),
        ({"encoder": "mlp"}, "mlp has no feature map"),
        ({"head": "none", "hidden": None, "width": None}, 'head cannot be "none"'),
    ],
)
def test_what_is_refused(changes, message, small, pictures):
    with pytest.raises(SettingError, match=message):
        make_plan(small(method="dim", **changes), data=pictures)


def test_it_is_for_images(small):
    with pytest.raises(inv.InvarianceError, match="dim learns from samples of the kin"):
        make_plan(small(method="dim", data="paraphrases", encoder="auto"))

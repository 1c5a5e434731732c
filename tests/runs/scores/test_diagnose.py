"""A run's embeddings read: every reading, its file, its table, and what goes wrong."""

import json
import math

import numpy as np
import pytest
import torch
from scipy.special import hyp0f1

import invariance as inv
from invariance.diagnostics import (
    diagnosis,
    information_by_pool,
    reachable_information,
)
from invariance.evaluation import encode_views
from invariance.folder import read_yaml
from invariance.runs import diagnose
from invariance.runs import render_diagnosis as lines
from invariance.training import make_plan

BOTH = {
    "alignment",
    "uniformity",
    "wasserstein",
    "mmd",
    "energy distance",
    "effective rank",
    "directions used",
    "spread",
    "tolerance",
    "augmentations kept, mean",
}


@pytest.fixture(scope="module")
def found(first_run, tmp_path_factory):
    """A diagnosis of the tiny run."""
    import shutil

    folder = shutil.copytree(first_run, tmp_path_factory.mktemp("read") / "run")
    return folder, diagnose(folder)


def test_everything_is_read_of_h_and_z(found):
    folder, result = found
    by_kind = {
        of: {r.label for r in result.readings if r.of == of} for of in ("h", "z")
    }
    assert by_kind["h"] >= BOTH and by_kind["z"] >= BOTH
    assert by_kind["z"] >= {
        "contrastive accuracy",
        "effective sample size",
        "InfoNCE, alignment part",
        "InfoNCE, uniformity part",
        "mutual information",
        "information, batches of 16",
        "information, pool of 240",
        "information, sharpest temperature",
        "gradient signal to noise, dcl, batches of 16",
        "gradient signal to noise, nt_xent, batches of 16",
    }
    assert all(
        r.meaning.endswith(".") and math.isfinite(r.value) for r in result.readings
    )
    read = {r.objective for r in result.readings if r.objective}
    assert read == set(inv.OBJECTIVES) - {"swav"}
    assert any("gradient of swav is not read" in note for note in result.notes)
    shown = result["information, batches of 16", "z"]
    assert shown.ceiling == math.log(16)
    assert shown.most == shown.reachable == reachable_information(16, 0.5)
    ideal = math.log(hyp0f1(8 / 2, 2**2)) - 4  # of a sphere in 8 dimensions
    assert result["uniformity", "z"].ideal == pytest.approx(ideal)
    assert any("240 images of the 1,600 asked for" in note for note in result.notes)
    written = json.loads((folder / "diagnostics.json").read_text())
    assert written["readings"] == [vars(r) for r in result.readings]
    assert [len(written["spectrum"][of]) for of in ("h", "z")] == [240, 8]
    assert written["spectrum"]["h"][0] == written["spectrum"]["z"][0] == 1
    bins = written["similarities"]
    assert len(bins["edges"]) == len(bins["positive"]) + 1
    width = bins["edges"][1] - bins["edges"][0]
    assert sum(bins["negative"]) * width == pytest.approx(1)


def test_the_readings_are_those_of_the_rebuilt_head(found):
    """By hand: plan, checkpoint, views, and the same pure functions."""
    folder, result = found
    settings = read_yaml(inv.Train, folder / "config.yaml")
    plan = make_plan(settings)
    newest = sorted((folder / "checkpoints").iterdir())[-1]
    plan.learner.load_state_dict(torch.load(newest, weights_only=True)["learner"])
    learner, key = plan.learner.eval(), {"seed": 0, "epoch": settings.epochs}
    parts = [plan.held_out, plan.source]
    pairs = [
        encode_views(
            learner.encoder,
            learner.head,
            part,
            torch.arange(len(part)),
            plan.views,
            **key,
        )
        for part in parts
    ]
    h, pool = (torch.cat(kind, 1) for kind in zip(*pairs, strict=True))
    labels = torch.cat([part.labels for part in parts])
    # training images are among these, so nothing is certified
    how = {"temperature": 0.5, "negatives": "all", "held_out": False}
    mine = diagnosis(h, pool, labels=labels, **how)
    assert "certify nothing" in mine["mutual information", "z"].meaning
    theirs = result.readings[: len(mine.readings)]
    assert [(r.name, r.of) for r in mine.readings] == [(r.name, r.of) for r in theirs]
    values = [reading.value for reading in mine.readings]
    assert [reading.value for reading in theirs] == pytest.approx(values, rel=1e-4)
    read = information_by_pool(*pool, temperature=0.5, batch_size=16)
    reading = result["information, pool of 240", "z"]
    assert reading.value == pytest.approx(read.pool_nats, abs=1e-5)
    assert reading.ceiling == pytest.approx(math.log(240))


def test_the_table(run, command):
    code, said, complained = command("diagnose", run, "--pool", "64")
    assert code == 0, complained
    head, *body = said.splitlines()
    assert head.split() == ["reading", "h", "z", "ideal", "at", "most"]
    assert body[0].startswith("alignment ") and body[1].startswith("  h: The features")
    assert "information, pool of 64 (nats)" in said
    assert any(line.startswith("crop area ") for line in body)
    assert any(line.startswith("dcl ") for line in body)
    assert "class kept" in said
    assert said.splitlines()[-2:] == [
        f"readings: {run}/diagnostics.json",
        f"see them: invariance report {run}",
    ]
    code, said, _ = command("diagnose", run, "--json", "--pool", "32")
    assert code == 0
    assert json.loads(said) == json.loads((run / "diagnostics.json").read_text())
    diagnosis = inv.Diagnosis.from_dict(json.loads(said))
    for width in (80, 120):
        assert max(map(len, lines(diagnosis, width))) <= width


def test_unlabelled_images_of_another_size(run, command, tmp_path):
    np.save(tmp_path / "x.npy", np.random.default_rng(0).random((70, 24, 24)))
    code, said, complained = command("diagnose", run, "--data", "x.npy")
    assert code == 0, complained
    assert "tolerance" not in said and "class kept" not in said
    assert "1x24x24, the encoder takes 3x16x16" in said


def test_samples_that_come_class_by_class_are_mixed(tmp_path):
    labels = torch.arange(4).repeat_interleave(40)
    shades = torch.linspace(0, 1, 4)[labels][:, None, None, None]
    noise = torch.rand(160, 3, 16, 16, generator=torch.Generator().manual_seed(0))
    pictures = (0.9 * shades + 0.1 * noise, labels)  # a class is a shade of gray
    settings = {"hold_out": "nothing", "epochs": 1, "batch_size": 16, "quiet": True}
    settings |= {"evaluate": False, "out": str(tmp_path)}
    run = inv.train(inv.Train(**settings), data=pictures)
    read = diagnose(run, data=pictures, keep=False)
    assert read["class kept", "h"].value > 0.5  # 0 where two classes foretell the rest


def test_without_a_checkpoint_only_h_is_read(run):
    for path in (run / "checkpoints").iterdir():
        path.unlink()
    result = diagnose(run, pool=40)
    assert {r.of for r in result.readings} == {"h"}
    assert "the run has no checkpoint" in result.notes[-1]
    assert lines(result)[0].startswith("reading")


@pytest.mark.parametrize(
    "words, sentence",
    [
        (["nowhere"], "There is no run at 'nowhere'"),
        (["run", "--batch-size", "1"], "batch_size is 2 or more: got 1"),
        (["run", "--data", "shapse"], "Did you mean 'shapes'?"),
        (["run", "--device", "cuda"], "there is no CUDA GPU"),
    ],
)
def test_mistakes_are_one_sentence(run, command, words, sentence):
    if "cuda" in words and torch.cuda.is_available():
        pytest.skip("there is a GPU")
    before = (run / "diagnostics.json").read_bytes()
    code, said, complained = command("diagnose", *words)
    assert (code, said) == (2, "") and sentence in complained
    assert (run / "diagnostics.json").read_bytes() == before


def test_too_few_images(run, command, tmp_path):
    np.save(tmp_path / "x.npy", np.zeros((6, 16, 16, 3), np.uint8))
    code, _, complained = command("diagnose", run, "--data", "x.npy")
    assert code == 2 and "too few to read anything from" in complained

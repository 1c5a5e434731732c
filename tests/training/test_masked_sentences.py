"""Runs of masked_token: resumed, killed, tried first, read, embedded."""

import json

import pytest
import torch
from safetensors.torch import load_file

import invariance as inv
from invariance.errors import DataError, SettingError
from invariance.training import Train, make_plan, train

WORDS = ["red fox", "old dog", "wet cat", "big cow", "shy owl", "fat pig"]
SENTENCES = [f"the {a} met the {b}" for a in WORDS for b in WORDS]


@pytest.fixture
def little(small):
    """Settings of a run on sentences."""

    def make(**changes):
        usual = {"method": "masked_token", "encoder": "auto"}
        return small(**usual | {"hidden": None, "width": None} | changes)

    return make


def metrics(folder):
    lines = (folder / "metrics.jsonl").read_text().splitlines()
    return [json.loads(line) for line in lines]


def test_its_views_are_sentences_and_the_tokens_hidden_from_them(little):
    plan = make_plan(little(options={"masked_share": 0.5}), data=SENTENCES)
    kind, ids = plan.source.kind, torch.arange(8)
    [sides] = plan.batches([ids], "cpu")
    shown, hidden = plan.see(sides, ids, 0)
    (whole,) = sides
    chosen = hidden != kind.pad
    assert chosen.any(1).all() and torch.equal(hidden[chosen], whole[chosen])
    assert (shown[chosen] == kind.mask).double().mean() > 0.5
    assert plan.learner.chance(8) == pytest.approx(
        torch.tensor(float(kind.vocabulary)).log().item(), abs=1e-5
    )
    pairs = [(s, f"{s} again") for s in SENTENCES]
    assert make_plan(little(), data=pairs).other_views is None


@pytest.mark.parametrize(
    "changes",
    [{"options": {"n_draws": 40}}, {"micro_batch": 5, "options": {"k": 10}}],
    ids=str,
)
def test_stopping_changes_nothing(changes, little, stopped_after, readings):
    whole = train(little(**changes), data=SENTENCES).folder
    folder = stopped_after(3, little(**changes), data=SENTENCES)
    resumed = train(Train(resume=str(folder), quiet=True), data=SENTENCES).folder
    assert readings(resumed) == readings(whole)
    ours, theirs = (load_file(f / "encoder.safetensors") for f in (resumed, whole))
    assert all(torch.equal(ours[name], theirs[name]) for name in theirs)


def test_killed_it_goes_on_from_its_file(tmp_path, survive_a_kill):
    (tmp_path / "notes.txt").write_text("\n".join(SENTENCES))
    survive_a_kill(
        *("notes.txt", "--method", "masked_token", "--epochs", "3"),
        *("--batch-size", "16", "--no-evaluate", "--knn-every", "0"),
        step=2,
    )


def test_it_is_read_tried_first_and_embedded(little, capsys):
    settings = little(epochs=4, optim=inv.Optim(lr=0.01), batch_size=12)
    run = train(settings, data=SENTENCES)
    first, *_, last = metrics(run.folder)
    assert first["loss"] == pytest.approx(first["mi_ceiling"], rel=0.05)  # chance
    assert last["loss"] == pytest.approx(last["info_nce"], rel=1e-4)
    assert last["loss"] < first["loss"]
    assert 0 < first["accuracy_chance"] < 0.01 and {"ess", "accuracy"} <= last.keys()
    rows = inv.embed(run, SENTENCES[:5])
    assert rows.features.shape == (5, 128)
    train(little(dry_run=True, quiet=False), data=SENTENCES)
    tried = capsys.readouterr().out
    assert "negatives: vocabulary (" in tried and "chance is 5." in tried


def test_it_learns_to_name_hidden_words(little):
    """Twice as often right as by always naming the word that is most frequent."""
    settings = little(epochs=40, optim=inv.Optim(lr=0.01), batch_size=12, log_every=1)
    run = train(settings, data=SENTENCES)
    words = " ".join(SENTENCES).split()
    baseline = words.count("the") / len(words)
    first, *_ = lines = metrics(run.folder)
    last = [line["accuracy"] for line in lines if "accuracy" in line][-9:]
    assert first["accuracy"] < baseline
    assert sum(last) / len(last) > 2 * baseline


def test_what_it_cannot_learn_from_is_said(little, pictures):
    with pytest.raises((DataError, SettingError), match=r"text|sentence"):
        make_plan(little(), data=pictures)
    with pytest.raises(SettingError, match="masked_share is the share of a sentence"):
        make_plan(little(options={"masked_share": 1.5}), data=SENTENCES)
    with pytest.raises(SettingError, match="must match the rows of"):
        make_plan(little(head="linear", width=16), data=SENTENCES)
    with pytest.raises(SettingError, match="for samples of the kind text"):
        make_plan(little(method="simclr", views="masked"), data=pictures)

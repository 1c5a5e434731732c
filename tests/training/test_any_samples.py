"""Runs on samples that are no images: vectors, pairs, a kind of one's own."""

import json
import os

import numpy as np
import pytest
import torch
from torch import nn

import invariance as inv
from invariance.data import Kind, Samples, Vector, load
from invariance.errors import DataError, SettingError
from invariance.training import Train, make_plan, train
from invariance.views import ViewSet


@pytest.fixture(scope="module")
def rows():
    """72 rows of four classes, each number on a scale of its own."""
    dice = np.random.default_rng(0)
    labels = np.arange(72) % 4
    centers = dice.normal(size=(4, 6))
    values = (centers[labels] + 0.3 * dice.normal(size=(72, 6))) * 10.0 ** np.arange(6)
    return values.astype(np.float32), labels


class Letters(Kind):
    """A word as the numbers of its letters."""

    name, word, baseline = "letters", "word", "letter counts"
    dtype = torch.int64

    def read(self, raw):
        """Zeros after the end."""
        numbers = [ord(letter) - 96 for letter in raw[: self.shape[0]]]
        return torch.tensor(numbers + [0] * (self.shape[0] - len(numbers)))

    def plain(self, batch):
        """How often each letter occurs."""
        return nn.functional.one_hot(batch, 27).sum(1).float()

    def show(self, sample):
        """The word again."""
        return "".join(chr(96 + k) for k in sample.tolist() if k)


def hide_letters(words, draws):
    """Each letter is hidden with a chance of one in five."""
    return words * (draws.uniform(words.shape[1]) > 0.2).to(words.device)


@pytest.fixture
def words():
    """Words of two classes: of early and of late letters."""
    dice = np.random.default_rng(0)
    made = [
        "".join(dice.choice(list("abcdef" if k % 2 else "uvwxyz"), 5))
        for k in range(72)
    ]
    return Samples(made, Letters((6,)), labels=["ab"[k % 2] for k in range(72)])


def bag():
    """An encoder of letters."""
    return nn.EmbeddingBag(27, 16)


OWN_VIEWS = ViewSet([[hide_letters]] * 2)


class SignedLetters(Letters):
    """Words that leave a note of which process read them."""

    def __init__(self, shape, notes):
        super().__init__(shape)
        self.notes = notes

    def read(self, raw):
        """One file per process."""
        (self.notes / str(os.getpid())).touch()
        return super().read(raw)


def test_vectors_train_and_are_scored_beside_their_raw_values(rows, small):
    settings = small(encoder="auto", evaluate=True, knn_every=1)
    run = train(settings, data=rows)
    scores = run.evaluation
    assert {row["features"] for row in scores.rows} >= {"raw values", "trained encoder"}
    encoder = inv.load(run.folder)
    assert encoder.name == "mlp" and isinstance(encoder.kind, Vector)
    values = torch.tensor(rows[0])
    assert encoder(values).shape == (72, 256)
    np.testing.assert_allclose(encoder.kind.spread, load(rows).kind.spread)
    about = json.loads((run.folder / "gallery" / "gallery.json").read_text())
    assert about["names"][0].startswith("row ")
    assert (run.folder / "report.html").exists()


@pytest.mark.parametrize("changes", [{}, {"storage": "streamed", "workers": 0}])
def test_stopping_changes_nothing_of_vectors(
    rows, small, stopped_after, readings, newest, changes
):
    settings = small(encoder="mlp", **changes)
    whole = train(settings, data=rows).folder
    folder = stopped_after(3, settings, data=rows)
    resumed = train(Train(resume=str(folder), quiet=True), data=rows).folder
    assert readings(resumed) == readings(whole)
    one, two = (newest(f)["learner"] for f in (resumed, whole))
    assert all(one[key].equal(two[key]) for key in two)


def test_a_kind_of_ones_own_goes_through_training(
    words, small, stopped_after, readings
):
    settings = small(encoder="auto", evaluate=True)
    how = {"data": words, "views": OWN_VIEWS}
    torch.manual_seed(0)
    network = bag()
    start = {k: v.clone() for k, v in network.state_dict().items()}
    run = train(settings, encoder=network, **how)
    assert "letter counts" in {row["features"] for row in run.evaluation.rows}
    about = json.loads((run.folder / "gallery" / "gallery.json").read_text())
    assert set(about["texts"]) <= set(words.items)
    encoder = run.encoder(bag())
    assert encoder.kind.name == "letters" and encoder.kind.dtype == torch.int64
    batch = next(load(words, split="all").batches([torch.arange(3)]))
    assert encoder(encoder.kind.prepare(batch)).shape == (3, 16)
    network = bag()
    network.load_state_dict(start)
    folder = stopped_after(3, settings, encoder=network, **how)
    network = bag()
    network.load_state_dict(start)
    train(Train(resume=str(folder), quiet=True), encoder=network, **how)
    assert readings(folder) == readings(run.folder)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the kind would be sent")
def test_the_processes_that_read_stay_from_one_epoch_to_the_next(
    words, small, tmp_path
):
    def count_readers(epochs):
        notes = tmp_path / f"readers of {epochs}"
        notes.mkdir()
        signed = Samples(words.items, SignedLetters((6,), notes), labels=words.labels)
        settings = small(storage="streamed", workers=1, epochs=epochs, encoder="auto")
        train(settings, encoder=bag(), data=signed, views=OWN_VIEWS)
        return len(list(notes.iterdir()))

    assert count_readers(4) == count_readers(1) > 1


def test_pairs_of_one_kind_are_each_others_views(rows, small, stopped_after, readings):
    values, labels = rows
    kind = load(values).kind
    other = Samples(values + 1, kind)
    pairs = Samples(values, kind, labels=labels, other=other, name="pairs")
    settings = small(encoder="mlp")
    plan = make_plan(settings, data=pairs)
    assert (len(plan.views), len(plan.other_views), plan.n_views) == (1, 1, 2)
    index = torch.arange(5)
    (sides,) = plan.batches([index], "cpu")
    first, second = plan.see(sides, index, epoch=0)
    near = (second - first - 1).abs() / torch.tensor(kind.spread)
    assert 0 < near.mean() < 1, "each side is seen under noise of its own"
    whole = train(small(encoder="mlp", evaluate=True), data=pairs).folder
    folder = stopped_after(3, small(encoder="mlp", evaluate=True), data=pairs)
    train(Train(resume=str(folder), quiet=True), data=pairs)
    assert readings(folder) == readings(whole)


def test_a_dry_run_says_what_the_samples_are(rows, small, capsys):
    result = train(small(encoder="auto", dry_run=True, quiet=False), data=rows)
    assert result.word == "row" and result.sample_shapes == ((16, 6),)
    assert "rows (16, 6) float32 -> views" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"encoder": "resnet18"}, "'resnet18' is not a network for rows"),
        ({"encoder": "mlp", "pretrained": True}, "no pretrained weights"),
        ({"views": "simclr"}, "for samples of the kind image, but these are rows"),
        ({"image_size": 32}, "image_size is for samples of the kind image"),
        ({"other_encoder": "mlp"}, "network of a pair's second side"),
        ({"batch_size": 512}, "has 66 rows to train on, fewer than"),
    ],
)
def test_what_does_not_suit_vectors_is_answered(rows, small, changes, message):
    with pytest.raises((SettingError, DataError), match=message):
        train(small(**{"encoder": "auto"} | changes), data=rows)


def test_vectors_views_are_not_for_images(pictures, small):
    with pytest.raises(SettingError, match="for samples of the kind row"):
        train(small(views="scarf"), data=pictures)


@pytest.mark.parametrize(("views", "option"), [("noise", 3), ("uniform_noise", 3)])
def test_noise_on_images_stays_between_black_and_white(pictures, small, views, option):
    name = {"noise": "sigma", "uniform_noise": "noise_width"}[views]
    plan = make_plan(small(views=views, options={name: option}), data=pictures)
    batch = next(iter(plan.source.batches([torch.arange(8)])))
    u, v = plan.views(batch, samples=torch.arange(8), seed=0, epoch=0)
    assert u.shape == (8, 3, 16, 16) and not torch.equal(u, v)
    assert float(u.min()) >= 0 and float(u.max()) == 1


def test_a_method_of_pairs_needs_pairs(rows, small):
    two = inv.Method(objective="info_nce", encoder="two", samples="pair", n_views=1)
    with pytest.raises(DataError, match="learns from pairs"):
        train(small(encoder="mlp"), data=rows, method=two)
    with pytest.raises(DataError, match="has one encoder"):
        inv.load(train(small(encoder="mlp"), data=rows).folder, side="other")


TWO = inv.Method(objective="info_nce", encoder="two", samples="pair", n_views=1)


def test_two_encoders_train_resume_and_are_both_kept(
    rows, small, stopped_after, readings
):
    values, labels = rows
    kinds = load(values).kind, load(values[:, :3]).kind
    other = Samples(values[:, :3], kinds[1])
    data = Samples(values, kinds[0], labels=labels, other=other, name="sensors")
    settings = small(encoder="auto", evaluate=True)
    run = train(settings, data=data, method=TWO)
    folder = stopped_after(3, settings, data=data, method=TWO)
    halfway = inv.load(folder, side="other")
    train(Train(resume=str(folder), quiet=True), data=data, method=TWO)
    assert readings(folder) == readings(run.folder)
    for side, kind in zip(("first", "other"), kinds, strict=True):
        one, two = (inv.load(place, side=side) for place in (folder, run.folder))
        assert one.kind == two.kind == kind and one.input_shape == kind.shape
        weights = one.state_dict()
        assert all(weights[k].equal(v) for k, v in two.state_dict().items())
    assert any(weights[k].ne(v).any() for k, v in halfway.state_dict().items())
    said = [str(line) for line in make_plan(settings, data=data, method=TWO).facts()]
    assert "data: sensors, rows of 6 numbers with rows of 3 numbers" in said[0]
    assert any("encoder: mlp, 256 features and mlp, 256 features" in s for s in said)
    result = train(small(encoder="auto", dry_run=True), data=data, method=TWO)
    assert result.sample_shapes == ((16, 6), (16, 3))
    again = small(encoder="auto", start_from=str(run.folder))
    plan = make_plan(again, data=data, method=TWO)
    start = plan.untrained_towers.other.state_dict()
    assert all(start[k].equal(v) for k, v in weights.items())
    with pytest.raises(SettingError, match=r"Did you mean 'other'"):
        inv.load(run.folder, side="othr")


def test_two_networks_may_be_ones_own(rows, words, small):
    """The second side of whole numbers, a network and views for each."""
    values, labels = rows
    kind = load(values).kind
    data = Samples(values, kind, labels=labels, other=words)
    first, second = nn.Linear(6, 8), bag()
    before = second.weight.detach().clone()
    run = train(
        small(encoder="auto"),
        data=data,
        method=TWO,
        encoder=first,
        other_encoder=second,
        other_views=ViewSet([[hide_letters]]),
    )
    assert not second.weight.equal(before)
    kept = inv.load(run.folder, network=bag(), side="other")
    assert kept.kind.name == "letters" and kept.network.weight.equal(second.weight)


def test_settings_of_other_kinds_have_no_effect_on_images(pictures, small):
    with pytest.raises(SettingError, match="text_column is for samples of the kind"):
        train(small(text_column="caption"), data=pictures)

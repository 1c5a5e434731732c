import pytest
import torch
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler
from torch import Tensor

from invariance.errors import SettingError
from invariance.evaluation import linear_probe


@pytest.fixture(autouse=True)
def one_thread():
    """Small problems: threads would only wait for each other."""
    n_threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(n_threads)


def embeddings(n=1200, m=800, d=24, n_classes=6, seed=0):
    """Correlated, rectified features of unequal scale: what encoders give."""
    g = torch.Generator().manual_seed(seed)
    labels = torch.randint(n_classes, (n + m,), generator=g)
    centres = torch.randn(n_classes, d, generator=g)
    mix = torch.randn(d, d, generator=g) * torch.logspace(0, -2, d)
    h = (0.7 * centres[labels] + torch.randn(n + m, d, generator=g)) @ mix
    h = h.relu() * torch.logspace(-2, 2, d)
    return h[:n], labels[:n], h[n:], labels[n:]


@pytest.mark.parametrize("l2", [1.0, 1e-2, 1e-4])
def test_agrees_with_scikit_learn(l2):
    train_h, train_y, test_h, test_y = embeddings()
    scaler = StandardScaler().fit(train_h.double().numpy())
    peer = LogisticRegression(C=1 / (l2 * len(train_h)), max_iter=5000, tol=1e-6)
    peer.fit(scaler.transform(train_h.double().numpy()), train_y.numpy())
    theirs = peer.score(scaler.transform(test_h.double().numpy()), test_y.numpy())
    score = linear_probe(train_h, train_y, test_h, test_y, l2=l2)
    assert score.accuracy == pytest.approx(theirs, abs=0.003)
    assert score.notes == ()
    assert score.settings["l2"] == l2


def test_the_chosen_strength_agrees_with_scikit_learn_too():
    """Chosen here, fitted there: the same accuracy within 0.3 points."""
    train_h, train_y, test_h, test_y = embeddings(n=600, m=2000)
    score = linear_probe(train_h, train_y, test_h, test_y)
    scaler = StandardScaler().fit(train_h.double().numpy())
    strength = 1 / (score.settings["l2"] * len(train_h))
    peer = LogisticRegression(C=strength, max_iter=5000, tol=1e-6)
    peer.fit(scaler.transform(train_h.double().numpy()), train_y.numpy())
    theirs = peer.score(scaler.transform(test_h.double().numpy()), test_y.numpy())
    assert score.value == pytest.approx(theirs, abs=0.003)


@pytest.mark.parametrize("l2", [1.0, 1e-3])
def test_fewer_rows_than_features_agree_with_scikit_learn(l2):
    train_h, train_y, test_h, test_y = embeddings(n=40, m=800, d=120)
    scaler = StandardScaler().fit(train_h.double().numpy())
    peer = LogisticRegression(C=1 / (l2 * len(train_h)), max_iter=5000, tol=1e-8)
    peer.fit(scaler.transform(train_h.double().numpy()), train_y.numpy())
    theirs = peer.score(scaler.transform(test_h.double().numpy()), test_y.numpy())
    score = linear_probe(train_h, train_y, test_h, test_y, l2=l2)
    assert score.value == pytest.approx(theirs, abs=0.003)


def test_chooses_well_and_repeats_itself():
    data = embeddings(n=200, m=1000)
    chosen = linear_probe(*data)
    assert chosen == linear_probe(*data)
    fixed = [linear_probe(*data, l2=l2).accuracy for l2 in (1, 1e-1, 1e-2, 1e-3, 1e-4)]
    assert chosen.accuracy > max(fixed) - 0.03
    assert chosen.settings["n_train"] == 200
    assert 0 < chosen.settings["validation_accuracy"] <= 1
    assert linear_probe(*data, seed=1).settings["seed"] == 1


def test_the_test_rows_choose_nothing():
    train_h, train_y, test_h, test_y = embeddings(n=200, m=400)
    honest = linear_probe(train_h, train_y, test_h, test_y)
    shuffled = linear_probe(train_h, train_y, test_h, test_y.roll(1))
    assert honest.settings == shuffled.settings
    assert shuffled.accuracy < 0.3 < honest.accuracy


def test_labels_and_scales_do_not_matter():
    train_h, train_y, test_h, test_y = embeddings(n=300, m=300)
    plain = linear_probe(train_h, train_y, test_h, test_y)
    renamed = linear_probe(
        train_h * 1e3 + 5, 11 * train_y - 40, test_h * 1e3 + 5, 11 * test_y - 40
    )
    assert renamed.accuracy == pytest.approx(plain.accuracy, abs=0.004)


@pytest.mark.parametrize("scale", [1e200, 1e-200])
def test_extreme_scales_do_not_matter(scale):
    train_h, train_y, test_h, test_y = embeddings(n=300, m=300)
    train_h, test_h = train_h.double(), test_h.double()
    plain = linear_probe(train_h, train_y, test_h, test_y, l2=0.01)
    scaled = linear_probe(scale * train_h, train_y, scale * test_h, test_y, l2=0.01)
    assert scaled.accuracy == plain.accuracy


def test_float32_without_a_penalty(monkeypatch):
    """As on devices without float64: features that repeat have no curvature left."""
    monkeypatch.setattr(Tensor, "double", Tensor.float)
    train_h, train_y, test_h, test_y = embeddings(n=300, m=300)
    twice = [torch.cat([h, h, h[:, :3] + h[:, 3:6]], 1) for h in (train_h, test_h)]
    plain = linear_probe(train_h, train_y, test_h, test_y, l2=1e-4)
    score = linear_probe(twice[0], train_y, twice[1], test_y, l2=0.0)
    assert score.accuracy == pytest.approx(plain.accuracy, abs=0.1)


def test_constant_features_are_harmless():
    train_h, train_y, test_h, test_y = embeddings(n=300, m=300)
    plain = linear_probe(train_h, train_y, test_h, test_y, l2=0.01)
    wide = [torch.cat([h, torch.full((300, 2), 3.1)], 1) for h in (train_h, test_h)]
    more = linear_probe(wide[0], train_y, wide[1], test_y, l2=0.01)
    assert more.accuracy == plain.accuracy


def test_half_precision_and_no_grad():
    train_h, train_y, test_h, test_y = embeddings(n=200, m=200)
    with torch.no_grad(), torch.autocast("cpu", dtype=torch.bfloat16):
        score = linear_probe(train_h.bfloat16(), train_y, test_h.bfloat16(), test_y)
    assert score.accuracy > 0.5


def test_a_class_never_seen_is_wrong_and_said():
    train_h, train_y, test_h, test_y = embeddings(n=200, m=200)
    seen = train_y != 3
    score = linear_probe(train_h[seen], train_y[seen], test_h, test_y, l2=0.1)
    assert score.accuracy <= (test_y != 3).double().mean()
    assert "class 3 is not among the training labels" in score.notes[0]


def test_one_row_a_class_and_one_class():
    h, y = torch.eye(3), torch.tensor([4, 5, 6])
    score = linear_probe(h, y, h, y)
    assert score.accuracy == 1
    assert score.notes[0].startswith("No class has two of 3 labeled samples")
    same = torch.tensor([1, 1, 1])
    assert linear_probe(h, same, h, same).accuracy == 1


def test_too_few_steps_are_said():
    score = linear_probe(*embeddings(n=200, m=100), l2=1e-4, max_steps=2)
    assert "stopped short of its minimum" in score.notes[0]


def test_a_share_of_every_class_chooses_the_penalty():
    """10 of 50, 2 of 10, 1 of 2 and none of 1: thirteen rows, by seed."""
    y = torch.tensor([0] * 50 + [1] * 10 + [2] * 2 + [3])
    h = torch.randn(63, 4, generator=torch.Generator().manual_seed(0)) + y[:, None]
    shares = [
        linear_probe(h, y, h, y, seed=seed).settings["validation_accuracy"]
        for seed in range(4)
    ]
    assert all(13 * s == pytest.approx(round(13 * s), abs=1e-6) for s in shares)
    assert len(set(shares)) > 1


def test_mistakes_are_said_in_words():
    h, y = torch.eye(3), torch.tensor([0, 1, 2])
    with pytest.raises(SettingError, match="l2 must be 0 or more and finite: got -1"):
        linear_probe(h, y, h, y, l2=-1.0)
    with pytest.raises(SettingError, match="grid needs at least one"):
        linear_probe(h, y, h, y, grid=())
    with pytest.raises(SettingError, match="validation_share must lie between 0 and 1"):
        linear_probe(h, y, h, y, validation_share=1.0)
    with pytest.raises(SettingError, match="max_steps must be at least 1"):
        linear_probe(h, y, h, y, max_steps=0)

"""Accuracy under attack: exact for linear networks, never masked, in its own row."""

import pytest
import torch
from sklearn.linear_model import LogisticRegression
from torch import nn

import invariance as inv
from invariance.data import Resident
from invariance.errors import DataError, SettingError
from invariance.evaluation import (
    attack_probe,
    evaluate_encoders,
    linear_probe,
    make_task,
    plan_protocols,
)
from invariance.folder import tabulate

DUAL = {"linf": 1, "l2": 2}


def blots(n, n_classes, seed=0):
    """Gray noise with a slightly brighter stripe per class; no pixel near 0 or 1."""
    generator = torch.Generator().manual_seed(seed)
    labels = torch.arange(n) % n_classes
    images = 0.4 + 0.2 * torch.rand(n, 1, 6, 6, generator=generator)
    images[torch.arange(n), 0, labels] += 0.06
    return images, labels


def score(encoder, n_classes=2, l2=0.1, **how):
    (train, y), (test, t) = blots(200, n_classes), blots(150, n_classes, seed=1)
    network = nn.Flatten() if encoder is None else encoder.eval()
    with torch.no_grad():
        features = network(train), y, network(test), t
    return attack_probe(encoder, *features, test, l2=l2, **how)


def worst_case(n_classes, epsilon, norm, l2=0.1):
    """The accuracy that no attack can lower further, by scikit-learn's weights."""
    (train, y), (test, t) = blots(200, n_classes), blots(150, n_classes, seed=1)
    x, z = train.flatten(1).double(), test.flatten(1).double()
    mean, deviation = x.mean(0), x.std(0, correction=0)
    # of two classes it penalizes one row of weights, and we penalize both
    strength = (2 if n_classes == 2 else 1) / (200 * l2)
    fit = LogisticRegression(C=strength, tol=1e-10, max_iter=10_000)
    fit.fit((x - mean) / deviation, y)
    weights, bias = torch.tensor(fit.coef_), torch.tensor(fit.intercept_)
    if n_classes == 2:  # one row, for the second class
        weights, bias = torch.cat([-weights, weights]), torch.cat([-bias, bias])
    logits = ((z - mean) / deviation) @ weights.T + bias
    weights = weights / deviation
    right = torch.ones(len(t), dtype=torch.bool)
    for i, label in enumerate(t.tolist()):
        for other in range(n_classes):
            if other != label:
                ahead = logits[i, label] - logits[i, other]
                way = weights[label] - weights[other]
                right[i] &= ahead > epsilon * way.norm(p=DUAL[norm])
    return right.double().mean().item()


@pytest.mark.parametrize("norm, epsilon", [("linf", 0.01), ("l2", 0.05)])
@pytest.mark.parametrize("n_classes", [2, 4])
def test_of_pixels_it_is_the_worst_case_in_closed_form(n_classes, norm, epsilon):
    found = score(None, n_classes, epsilon=epsilon, norm=norm, steps=40)
    exact = worst_case(n_classes, epsilon, norm)
    clean, _ = found.also["clean"]
    assert clean - exact > 0.1  # there is something to find
    # of several classes the attack may go for another than the nearest
    assert exact - 1e-9 <= found.value <= exact + (0.0 if n_classes == 2 else 0.014)


class Loud(nn.Module):
    """Features so large that a softmax of them knows one class and nothing else."""

    def __init__(self, factor):
        super().__init__()
        self.factor = factor

    def forward(self, images):
        return self.factor * images.flatten(1)


def test_a_sure_probe_hides_nothing():
    quiet = score(None, epsilon=0.01)
    assert score(Loud(1e5), epsilon=0.01).value == quiet.value
    sure = score(None, epsilon=0.01, l2=1e-4)  # nearly all of its guesses are certain
    assert sure.value == pytest.approx(worst_case(2, 0.01, "linf", l2=1e-4))


def test_more_distance_steps_and_starts_never_help(capsys):
    torch.manual_seed(0)
    network = nn.Sequential(nn.Flatten(), nn.Linear(36, 16), nn.Tanh())
    far = [score(network, epsilon=e).value for e in (1e-6, 0.01, 0.03)]
    assert far == sorted(far, reverse=True) and far[0] > far[2]
    assert far[0] == score(network, epsilon=1e-6).also["clean"][0]
    one, three = (score(network, epsilon=0.01, restarts=k).value for k in (1, 3))
    assert three <= one
    assert score(network, epsilon=0.01).value == one


def test_clean_accuracy_is_the_linear_probe_s():
    (train, y), (test, t) = blots(200, 3), blots(150, 3, seed=1)
    features = train.flatten(1), y, test.flatten(1), t
    attacked = attack_probe(None, *features, test, epsilon=0.01, steps=2)
    plain = linear_probe(*features)
    assert attacked.also["clean"] == (plain.value, plain.interval)
    some = attack_probe(None, *features, test, epsilon=0.01, steps=2, images=20)
    assert some.n_test == 20 and some.settings["images"] == 20


def test_a_network_is_not_changed():
    network = nn.Sequential(nn.Flatten(), nn.Linear(36, 8), nn.BatchNorm1d(8))
    before = {k: v.clone() for k, v in network.state_dict().items()}
    score(network, steps=2)
    assert all(torch.equal(v, before[k]) for k, v in network.state_dict().items())
    assert all(p.grad is None for p in network.parameters())


@pytest.fixture
def task():
    (train, y), (test, t) = blots(80, 2), blots(40, 2, seed=1)
    bytes_of = [(255 * x).round().to(torch.uint8) for x in (train, test)]
    sides = zip(bytes_of, (y, t), strict=True)
    return make_task(
        *(Resident(x, c, name="blots") for x, c in sides), limit=None, device="cpu"
    )


def test_its_row_says_how_and_stands_beside_the_baselines(task):
    torch.manual_seed(0)
    network = nn.Sequential(nn.Flatten(), nn.Linear(36, 8))
    encoders = {"raw pixels": None, "untrained encoder": network}
    rows = []
    for steps in (2, 3):
        plan = plan_protocols("attacked", settings={"attack": {"steps": steps}})
        rows += evaluate_encoders(task, encoders, plan=plan)
    assert {row["features"] for row in rows} == {*encoders}
    assert len(rows) == 8
    assert rows[0]["settings"]["epsilon"] == 8 / 255
    lines = tabulate(rows).lines  # of other steps, other lines
    assert len(lines) == 4
    assert [(line.name, line.metric) for line in lines[:2]] == [
        ("linear probe attacked", "accuracy"),
        ("linear probe attacked", "clean"),
    ]
    assert lines[0].detail == "2 steps within 0.0314 (linf)"
    assert lines[1].detail == "before the attack, 2 steps within 0.0314 (linf)"


def test_what_cannot_be_attacked_is_refused(task):
    vectors = torch.rand(40, 5).numpy(), torch.arange(40).numpy() % 2
    sources = [inv.data.load(vectors, split=split) for split in ("train", "test")]
    numbers = make_task(*sources, limit=None, device="cpu")
    plan = plan_protocols("attacked")
    with pytest.raises(DataError, match="attacked is for image data"):
        evaluate_encoders(numbers, {"raw values": None}, plan=plan)
    with pytest.raises(SettingError, match=r"attack\.epsilon must be a positive"):
        plan_protocols("attacked", settings={"attack": {"epsilon": 0.0}})
    with pytest.raises(SettingError, match="Did you mean 'linf'"):
        plan = plan_protocols("attacked", settings={"attack": {"norm": "linfty"}})
        evaluate_encoders(task, {"raw pixels": None}, plan=plan)
    with pytest.raises(DataError, match="one class per sample"):
        several = torch.eye(2, dtype=torch.long)[torch.arange(200) % 2]
        train, test = blots(200, 2)[0], blots(200, 2)[0]
        h = train.flatten(1)
        attack_probe(None, h, several, h, several, test)

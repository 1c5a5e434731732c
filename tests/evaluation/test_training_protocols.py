"""Fine-tuning and SGD: they learn, repeat themselves, and leave the encoder alone."""

import copy

import pytest
import torch
from torch import nn

from invariance.errors import SettingError
from invariance.evaluation import (
    encode_images,
    fine_tune,
    fit_classifier,
    linear_probe,
    linear_sgd,
)


def images(n, seed):
    """Three classes that differ in which third is bright."""
    g = torch.Generator().manual_seed(seed)
    labels = torch.randint(3, (n,), generator=g)
    x = torch.randint(0, 120, (n, 1, 6, 6), generator=g, dtype=torch.uint8)
    for row, label in zip(x, labels, strict=True):
        row[:, 2 * int(label) : 2 * int(label) + 2] += 80
    return x, labels


@pytest.fixture
def encoder():
    torch.manual_seed(0)
    return nn.Sequential(nn.Flatten(), nn.Linear(36, 16), nn.BatchNorm1d(16), nn.ReLU())


DATA = (*images(160, 0), *images(100, 1))
PROTOCOLS = {"fine_tune": fine_tune, "linear_sgd": linear_sgd}


@pytest.mark.parametrize("protocol", PROTOCOLS.values(), ids=PROTOCOLS)
def test_it_learns_and_repeats_itself(protocol, encoder):
    before = copy.deepcopy(encoder.state_dict())
    score = protocol(encoder, *DATA, epochs=10)
    assert score.value > 0.9 and score.n_test == 100
    assert score == protocol(encoder, *DATA, epochs=10)
    after = encoder.state_dict()
    assert all(torch.equal(before[k], after[k]) for k in before)
    assert all(p.grad is None for p in encoder.parameters())
    shuffled = protocol(encoder, *DATA[:3], DATA[3].roll(1), epochs=10)
    assert shuffled.value < 0.6
    assert shuffled.settings == score.settings  # the test part decided nothing


@pytest.mark.parametrize("protocol", PROTOCOLS.values(), ids=PROTOCOLS)
def test_rows_and_augmentations(protocol, encoder):
    """Only the rows allowed are shown, each epoch anew, by their numbers."""
    rows, seen = torch.arange(0, 160, 4), []

    def augment(batch, samples, epoch):
        assert torch.equal(batch, DATA[0][samples])
        seen.append((epoch, samples.tolist()))
        return batch.float() / 255

    options = {"rows": rows, "epochs": 2, "batch_size": 20}
    options |= {"min_steps": 0} if protocol is fine_tune else {}
    score = protocol(encoder, *DATA, augment=augment, **options)
    for epoch in range(2):
        shown = [i for e, part in seen if e == epoch for i in part]
        assert sorted(shown) == rows.tolist()
    assert score.settings["n_train"] == 40 and score.settings["augmented"] is True
    # labels of other rows do not matter
    wrong = DATA[1].clone()
    others = torch.ones(160, dtype=torch.bool)
    others[rows] = False
    wrong[others] = 2 - wrong[others]
    again = protocol(encoder, DATA[0], wrong, *DATA[2:], **options)
    assert again.value == score.value


def test_a_handful_of_labels_is_learned_too(encoder):
    rows = torch.tensor([int((DATA[1] == c).nonzero()[0]) for c in range(3)])
    fitted = fit_classifier(encoder, DATA[0], DATA[1], rows=rows)
    predicted = fitted.predict(DATA[0][rows])
    assert predicted.tolist() == DATA[1][rows].tolist()


def test_sgd_without_augmentation_nears_the_probe(encoder):
    h = [encode_images(encoder, x) for x in DATA[::2]]
    probe = linear_probe(h[0], DATA[1], h[1], DATA[3])
    sgd = linear_sgd(encoder, *DATA, epochs=40)
    assert sgd.value == pytest.approx(probe.value, abs=0.06)


def test_other_labels_and_unseen_classes(encoder):
    renamed = fine_tune(encoder, DATA[0], 7 * DATA[1] + 2, DATA[2], 7 * DATA[3] + 2)
    assert renamed.value == fine_tune(encoder, *DATA).value
    seen = DATA[1] != 1
    for protocol in PROTOCOLS.values():
        score = protocol(encoder, DATA[0][seen], DATA[1][seen], *DATA[2:], epochs=2)
        assert "class 1 is not among" in score.notes[0]
        assert score.value <= (DATA[3] != 1).double().mean()


def test_the_global_generator_is_left_alone(encoder):
    torch.manual_seed(3)
    before = torch.get_rng_state()
    fine_tune(nn.Sequential(encoder, nn.Dropout(0.5)), *DATA, epochs=1, min_steps=1)
    assert torch.equal(before, torch.get_rng_state())


def test_mistakes_are_said_in_words(encoder):
    with pytest.raises(SettingError, match="lr must be above 0 and finite"):
        fine_tune(encoder, *DATA, lr=0)
    with pytest.raises(SettingError, match="epochs and batch_size need to be 1"):
        fine_tune(encoder, *DATA, epochs=0)
    with pytest.raises(SettingError, match="epochs and batch_size need to be 1"):
        linear_sgd(encoder, *DATA, batch_size=0)

"""A loop of one's own that forgets after_step is told so; one that does not is not."""

import copy
import warnings

import pytest
import torch

import invariance as inv

IMAGES, IDS = torch.rand(4, 3, 16, 16), torch.arange(4)
LEARNS_LATER = {
    "moco": "momentum twin stands still and the queue has taken in nothing",
    "byol": "momentum twin stands still",
    "ir": "memory bank has taken in nothing",
    "nnclr": "queue of neighbors has taken in nothing",
}


def make(name):
    torch.manual_seed(0)
    encoder = inv.encoders.build_encoder("tiny", image_size=16)
    return inv.build(inv.METHODS[name], encoder, n_samples=20)


def train(learner, *, calls, n_steps=4, accumulate=1, optimizer=torch.optim.SGD):
    """Warnings of a loop that makes these calls after each step of the optimizer."""
    weights = [p for p in learner.parameters() if p.requires_grad]
    moves = optimizer(weights, lr=1e-3)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for _ in range(n_steps):
            for _ in range(accumulate):
                step = learner([IMAGES, IMAGES.flip(-1)], ids=IDS)
                (step.loss / accumulate).backward()
            moves.step()
            moves.zero_grad()
            for call in calls:
                call()
    return caught


@pytest.mark.parametrize("name", LEARNS_LATER)
def test_a_forgotten_after_step_is_told_once(name):
    (warning,) = train(make(name), calls=[])
    assert LEARNS_LATER[name] in str(warning.message)
    assert "Call learner.after_step() after each" in str(warning.message)


@pytest.mark.parametrize("optimizer", [torch.optim.AdamW, torch.optim.SGD])
@pytest.mark.parametrize("accumulate", [1, 3])
@pytest.mark.parametrize("name", LEARNS_LATER)
def test_a_loop_that_is_right_hears_nothing(name, accumulate, optimizer):
    learner = make(name)

    def evaluate():
        learner.eval()
        learner([IMAGES, IMAGES], ids=IDS)
        learner.train()
        with torch.no_grad():
            learner([IMAGES, IMAGES], ids=IDS)

    how = {"accumulate": accumulate, "optimizer": optimizer}
    assert not train(learner, calls=[evaluate, learner.after_step], **how)
    assert not train(learner, calls=[learner.after_step, evaluate], **how)


def test_accumulation_does_not_hide_it():
    assert len(train(make("moco"), calls=[], accumulate=3)) == 1


def test_what_cannot_be_seen_in_the_weights_is_seen_in_the_number_of_passes():
    def optimizer(weights, lr):  # writes past autograd, as fused optimizers do
        return torch.optim.SGD([weight.data for weight in weights], lr=lr)

    learner = make("byol").train()
    learner.encoder.network = torch.nn.Sequential(
        torch.nn.Flatten(), torch.nn.Linear(768, 256)
    )
    assert not train(learner, calls=[], n_steps=100, optimizer=optimizer)
    assert len(train(learner, calls=[], n_steps=450, optimizer=optimizer)) == 1


@pytest.mark.parametrize("name", ["simclr", "simsiam"])
def test_methods_that_learn_nothing_later_need_no_call(name):
    assert not train(make(name), calls=[])


def test_a_dropped_step_and_a_copy_start_afresh():
    learner = make("moco")
    assert not train(learner, calls=[learner.drop_step])
    twin = copy.deepcopy(learner)
    assert not train(twin, calls=[twin.after_step])

"""Binary NCE: its noise from queue and bank, and its frozen constant."""

import math

import pytest
import torch
from tests import reference
from torch.autograd import grad

import invariance as inv

from . import scenes
from .scenes import TAU


def by_hand(scene, log_z=None):
    u = scene.u.clone().requires_grad_()
    positives, noise, _ = scene.hand(u, scene.v)
    value = reference.binary_nce_of(positives, noise, log_z=log_z)
    return value.detach(), grad(value, u)[0]


def ours(objective, scene):
    u = scene.u.clone().requires_grad_()
    value = objective.against(u, scene.v, scene.source, scene.ids)
    return value.detach(), grad(value, u)[0]


def queue_of_strangers(seed, **sizes):
    """Nobody's own key is held, so everyone has the same number of noise rows."""
    scene = scenes.queue(seed, **sizes)
    scene.source.ids += 1000
    return scenes.Scene(
        scene.source, scene.u, scene.v, scene.ids, lambda u, v: strangers(scene, u, v)
    )


def strangers(scene, u, v):
    held = list(scene.source.candidates().z)
    everyone = [list(range(len(held)))] * len(u)
    positives, _, _ = scene.by_hand(u, v)
    return positives, reference.logits_of(u, held, everyone, TAU), None


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("n, d", [(2, 1), (5, 3)])
def test_a_queue_as_noise(seed, n, d):
    scene = queue_of_strangers(seed, n=n, d=d)
    objective = inv.BinaryNCE(TAU).double()
    torch.testing.assert_close(ours(objective, scene), by_hand(scene))


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("n, n_samples", [(2, 3), (5, 12)])
def test_a_bank_as_noise(seed, n, n_samples):
    """All the other rows, the same number for everyone."""
    scene = scenes.bank(seed, n=n, n_samples=n_samples)
    objective = inv.BinaryNCE(TAU).double()
    torch.testing.assert_close(ours(objective, scene), by_hand(scene))


@pytest.mark.parametrize("log_z", [-1.0, 0.0, 2.5])
def test_with_its_constant_given(log_z):
    scene = queue_of_strangers(2)
    objective = inv.BinaryNCE(TAU).double()
    objective.log_z.fill_(log_z)
    torch.testing.assert_close(ours(objective, scene), by_hand(scene, log_z))
    assert objective.log_z == log_z


def test_the_constant_is_that_of_the_first_batch():
    first, second = queue_of_strangers(1), queue_of_strangers(2)
    objective = inv.BinaryNCE(TAU).double()
    assert objective.log_z.isnan()
    ours(objective, first)
    frozen = objective.log_z.clone()
    _, noise, _ = first.hand(first.u, first.v)
    exact = torch.tensor([x for part in noise for x in part]).exp().mean().log()
    torch.testing.assert_close(frozen, exact.double(), rtol=1e-6, atol=1e-6)
    torch.testing.assert_close(ours(objective, second), by_hand(second, frozen))
    assert torch.equal(objective.log_z, frozen)


def test_the_constant_is_kept_in_its_state():
    objective, again = inv.BinaryNCE(TAU), inv.BinaryNCE(TAU)
    u, v = torch.randn(2, 6, 3)
    before = objective(u, v)
    again.load_state_dict(objective.state_dict())
    u, v = torch.randn(2, 6, 3)
    assert torch.equal(again(u, v), objective(u, v))
    assert not torch.equal(again(u, v), inv.BinaryNCE(TAU)(u, v))
    assert torch.equal(again.log_z, objective.log_z) and before.isfinite()


def test_the_constant_has_no_gradient():
    u, v = torch.randn(2, 5, 3, dtype=torch.float64)
    objective = inv.BinaryNCE(TAU).double()
    u.requires_grad_()
    first = grad(objective(u, v), u)[0]  # the batch that sets it
    second = grad(objective(u, v), u)[0]  # the same batch, the constant as given
    torch.testing.assert_close(first, second)
    assert not objective.log_z.requires_grad


@pytest.mark.parametrize("k", [1, 2, 10])
def test_rows_all_alike(k):
    z = torch.ones(k + 1, 4)
    expected = math.log(1 + k) + k * math.log(1 + 1 / k)
    assert inv.binary_nce(z, z).item() == pytest.approx(expected, rel=1e-5)

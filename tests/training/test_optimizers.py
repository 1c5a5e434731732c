"""LARS against a slow loop, and which parameters decay."""

import copy

import pytest
import torch
from torch import nn

from invariance.training import LARS, Optim
from invariance.training._optimizers import build_optimizer


def network():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(5, 7), nn.BatchNorm1d(7), nn.Linear(7, 3)).double()


def slow_lars(module, buffers, *, lr, momentum, decay, trust=0.001):
    """One parameter at a time, as the paper has it."""
    with torch.no_grad():
        for name, p in module.named_parameters():
            gradient = p.grad.clone()
            if p.ndim > 1:
                w, g = float(p.norm()), float(gradient.norm())
                gradient += decay * p
                if w > 0 and g + decay * w > 0:
                    gradient *= trust * w / (g + decay * w)
            buffers[name] = momentum * buffers.get(name, 0) + gradient
            p -= lr * buffers[name]


def test_lars_is_its_slow_twin():
    fast = network()
    slow = copy.deepcopy(fast)
    optim = Optim(name="lars", weight_decay=0.1, momentum=0.8)
    optimizer, buffers = build_optimizer(fast, optim, lr=2.0), {}
    assert isinstance(optimizer, LARS)
    for step in range(5):
        x = torch.randn(
            11, 5, generator=torch.Generator().manual_seed(step), dtype=torch.float64
        )
        for module in (fast, slow):
            module.zero_grad()
            module(x).square().mean().backward()
        optimizer.step()
        slow_lars(slow, buffers, lr=2.0, momentum=0.8, decay=0.1)
    for a, b in zip(fast.parameters(), slow.parameters(), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-12, atol=1e-12)


def test_a_zero_weight_moves_by_its_plain_gradient():
    weight = nn.Parameter(torch.zeros(2, 2))
    weight.sum().backward()
    LARS([weight], lr=0.5).step()
    assert torch.equal(weight, torch.full((2, 2), -0.5))


@pytest.mark.parametrize("name", ["sgd", "adamw", "lars"])
def test_biases_and_norms_do_not_decay(name):
    module = network()
    before = {k: p.detach().clone() for k, p in module.named_parameters()}
    optimizer = build_optimizer(module, Optim(name=name, weight_decay=0.5), lr=0.1)
    for p in module.parameters():
        p.grad = torch.zeros_like(p)
    optimizer.step()
    for k, p in module.named_parameters():
        assert torch.equal(p, before[k]) == (p.ndim == 1)


def test_frozen_parameters_are_left_out():
    module = network()
    module[0].requires_grad_(False)
    optimizer = build_optimizer(module, Optim(), lr=0.1)
    held = [p for group in optimizer.param_groups for p in group["params"]]
    assert not {id(p) for p in module[0].parameters()} & {id(p) for p in held}

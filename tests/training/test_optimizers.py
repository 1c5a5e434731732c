"""LARS against a slow loop, and which parameters decay."""

import copy

import pytest
import torch
from timm.optim import Lars
from torch import nn

from invariance.training import LARS, Optim, build_optimizer


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


def test_lars_and_timms_part_only_where_the_header_says():
    """Which is why LARS is ours: should timm's agree some day, take timm's."""
    torch.manual_seed(0)
    ours = nn.Parameter(torch.randn(4, 4))
    theirs = nn.Parameter(ours.detach().clone())
    settings = {"lr": 2.0, "momentum": 0.9, "weight_decay": 0.1}
    a, b = LARS([ours], **settings), Lars([theirs], **settings)

    def step(gradient):
        ours.grad, theirs.grad = gradient.clone(), gradient.clone()
        a.step()
        b.step()
        return (ours.grad == gradient).all()  # older ones of timm change them

    assert all(step(torch.randn(4, 4)) for _ in range(10))
    torch.testing.assert_close(ours, theirs, rtol=1e-6, atol=1e-6)
    step(torch.zeros(4, 4))  # timm's decays by lr * weight_decay, a fifth
    assert theirs.norm() < 0.9 * ours.norm()


def test_the_state_of_a_checkpoint_made_before_fits():
    module = network()
    optimizer = build_optimizer(module, Optim(name="lars"), lr=0.1)
    for p in module.parameters():
        p.grad = torch.ones_like(p)
    optimizer.step()
    state = optimizer.state_dict()
    weights, others = state["param_groups"]
    settings = {"lr": 0.1, "momentum": 0.9, "trust": 0.001}
    assert weights == settings | {
        **{"weight_decay": 1e-4, "adapt": True, "params": [0, 1]}
    }
    assert others == settings | {
        **{"weight_decay": 0.0, "adapt": False, "params": [2, 3, 4, 5]}
    }
    shapes = [tuple(state["state"][k]["momentum_buffer"].shape) for k in range(6)]
    assert shapes == [(7, 5), (3, 7), (7,), (7,), (7,), (3,)]


def test_a_zero_weight_moves_by_its_plain_gradient():
    weight = nn.Parameter(torch.zeros(2, 2))
    weight.sum().backward()
    LARS([weight], lr=0.5).step()
    assert torch.equal(weight, torch.full((2, 2), -0.5))


@pytest.mark.parametrize("name", ["sgd", "adamw", "lars"])
@pytest.mark.parametrize("decay", ["auto", "all", "matrices"])
def test_what_decays_is_a_setting_and_scalars_never_do(name, decay):
    module = network()
    module.temperature = nn.Parameter(torch.tensor(3.0))
    module[2].bias.data.fill_(1.0)
    before = {k: p.detach().clone() for k, p in module.named_parameters()}
    optim = Optim(name=name, weight_decay=0.5, decay=decay)
    optimizer = build_optimizer(module, optim, lr=0.1)
    for p in module.parameters():
        p.grad = torch.zeros_like(p)
    optimizer.step()
    spares = decay == "matrices" or (decay == "auto" and name != "sgd")
    for k, p in module.named_parameters():
        still = p.ndim == 0 or (p.ndim == 1 and spares) or not before[k].any()
        assert torch.equal(p, before[k]) == still


@pytest.mark.parametrize("decay", ["all", "matrices"])
def test_lars_adapts_matrices_only(decay):
    groups = build_optimizer(network(), Optim(name="lars", decay=decay), 0.1)
    for group in groups.param_groups:
        assert group["adapt"] == all(p.ndim > 1 for p in group["params"])


def test_frozen_parameters_are_left_out():
    module = network()
    module[0].requires_grad_(False)
    optimizer = build_optimizer(module, Optim(), lr=0.1)
    held = [p for group in optimizer.param_groups for p in group["params"]]
    assert not {id(p) for p in module[0].parameters()} & {id(p) for p in held}

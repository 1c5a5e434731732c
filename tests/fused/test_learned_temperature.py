"""A temperature that is learned, on the fused path: value and gradients as in float64.

Interpreted on a CPU (TRITON_INTERPRET=1, as ``make test`` does) or on a CUDA device.
"""

import pytest
import torch

import invariance as inv
from invariance.critics import Symmetric, build_critic
from invariance.partition import explain

from .cases import DEVICE

PAIRED = ["info_nce", "nt_xent", "dcl", "dhel", "flat_nce", "debiased"]


def value_and_gradients(objective, u, v):
    u, v = u.clone().requires_grad_(), v.clone().requires_grad_()
    value = objective(u, v)
    value.backward()
    scale = objective.temperature.log_scale.grad
    return [x.detach().double().cpu() for x in (value, scale, u.grad, v.grad)]


@pytest.mark.parametrize("name", PAIRED)
def test_its_gradient_arrives(name):
    u, v = torch.randn(2, 20, 16, generator=torch.Generator().manual_seed(0))
    objective = inv.OBJECTIVES[name](temperature="learned")
    exact = value_and_gradients(objective.double(), u.double(), v.double())
    objective = inv.OBJECTIVES[name](temperature="learned").to(DEVICE)
    ours = value_and_gradients(objective, u.to(DEVICE), v.to(DEVICE))
    for got, want in zip(ours, exact, strict=True):
        torch.testing.assert_close(got, want, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("start", [0.07, 0.0101])
def test_below_the_fused_loss_s_limit_it_streams(start, monkeypatch):
    """CLIP's minimum of 0.01: logits up to 100, through the fused log-partition."""
    # private: the table of crossovers, so that a small matrix is streamed
    monkeypatch.setattr("invariance.partition._plan.FUSED_FROM", {2**31: 0})
    u, v = torch.randn(2, 20, 16, generator=torch.Generator().manual_seed(0))
    v = u + 0.3 * v

    def make():
        temperature = inv.objectives.LearnedTemperature(start, minimum=0.01)
        return inv.InfoNCE(temperature=temperature)

    exact = value_and_gradients(make().double(), u.double(), v.double())
    objective, u, v = make().to(DEVICE), u.to(DEVICE), v.to(DEVICE)
    (plan,) = explain(objective, u, v)
    assert plan.operation == "two_sided_log_partition" and plan.backend == "triton"
    for got, want in zip(value_and_gradients(objective, u, v), exact, strict=True):
        torch.testing.assert_close(got, want, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("name", ["bilinear", "separable"])
def test_rows_of_a_learned_critic_stream(name, monkeypatch):
    # private: the table of crossovers, so that a small matrix is streamed
    monkeypatch.setattr("invariance.partition._plan.FUSED_FROM", {2**31: 0})
    torch.manual_seed(0)
    critic = Symmetric(build_critic(name, 16, 16))
    for p in critic.parameters():
        torch.nn.init.normal_(p, std=0.2)
    rows = torch.randn(2, 20, 16)

    def run(critic, u, v):
        critic.zero_grad()
        u, v = u.clone().requires_grad_(), v.clone().requires_grad_()
        inv.info_nce(*critic.rows(u, v), normalize=False, temperature=1.0).backward()
        grads = [u.grad, v.grad, *(p.grad for p in critic.parameters())]
        return [g.double().cpu() for g in grads]

    ours = run(critic.to(DEVICE), *rows.to(DEVICE))
    exact = run(critic.double(), *rows.double().to(DEVICE))
    for got, want in zip(ours, exact, strict=True):
        torch.testing.assert_close(got, want, rtol=1e-3, atol=1e-3)

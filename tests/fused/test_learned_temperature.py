"""A temperature that is learned, on the fused path: value and gradients as in float64.

Interpreted on a CPU (TRITON_INTERPRET=1, as ``make test`` does) or on a CUDA device.
"""

import pytest
import torch

import invariance as inv

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

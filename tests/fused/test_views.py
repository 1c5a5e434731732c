"""Two views contrasted in one operation: losses against float64, and its edges.

Interpreted on a CPU (TRITON_INTERPRET=1, as ``make test`` does) or on a CUDA device.
"""

from functools import partial

import pytest
import torch

import invariance as inv
from invariance.partition import fused_contrast, log_partition

from .cases import DEVICE, INTERPRETED, relative_error, unit

PAIRS = 37 if INTERPRETED else 777
LOSSES = {
    "nt_xent": inv.nt_xent,
    "info_nce": inv.info_nce,
    "dcl": inv.dcl,
    "dcl, cross": partial(inv.dcl, negatives="cross"),
    "flat_nce": partial(inv.flat_nce, gamma=-1.5),
    "debiased": inv.debiased,
    "squares": partial(inv.debiased, hardness=1.0),
    "cubes": partial(inv.debiased, hardness=0.5),
    "two exponentials": partial(inv.debiased, hardness=0.7),
}


def views(d, dtype=torch.float32, pairs=PAIRS):
    centre = unit(pairs, d)
    return [(3 * centre + 2 * unit(pairs, d, seed=s)).to(dtype) for s in (1, 2)]


def value_and_gradients(loss, u, v):
    leaves = [x.detach().requires_grad_() for x in (u, v)]
    value = len(u) * loss(*leaves)
    return [t.double() for t in (value.detach(), *torch.autograd.grad(value, leaves))]


def assert_as_in_float64(loss, u, v, most):
    want = value_and_gradients(loss, u.double(), v.double())
    for a, b in zip(value_and_gradients(loss, u, v), want, strict=True):
        assert relative_error(a, b) < most


@pytest.mark.parametrize("name", LOSSES)
def test_losses_of_float32_rows(name):
    assert_as_in_float64(LOSSES[name], *views(24), 5e-6)


@pytest.mark.parametrize("name", LOSSES)
def test_losses_of_float16_rows(name):
    assert_as_in_float64(LOSSES[name], *views(24, torch.float16), 6e-4)


@pytest.mark.parametrize("name", ["nt_xent", "info_nce"])
@pytest.mark.parametrize("d", [129, 300])
def test_other_widths(name, d):
    assert_as_in_float64(LOSSES[name], *views(d), 5e-6)


@pytest.mark.parametrize("sides", [(32, 16), (16, 32)])
def test_half_a_matrix_in_several_goes(sides, monkeypatch):
    """Partial sums over budget, and tiles that the diagonal cuts in the middle."""
    from invariance.partition._triton import _configs, _forward

    config = _configs.Config(*sides, 4, 1)
    monkeypatch.setattr(_forward, "config_for", lambda *_: config)
    monkeypatch.setattr(_forward, "TRIANGLE_FROM", {"cpu": 0, "cuda": 0})
    monkeypatch.setattr(_forward, "_rows_at_once", lambda *_: sides[0])
    u, v = views(24)
    for name in ("nt_xent", "info_nce", "squares"):
        assert_as_in_float64(LOSSES[name], u, v, 5e-6)
    z, ids = torch.cat([u, v]), torch.arange(2 * len(u), device=DEVICE) // 3
    got = log_partition(z, z, scale=0.1, row_ids=ids, column_ids=ids, backend="triton")
    want = log_partition(z.double(), z.double(), scale=0.1, row_ids=ids, column_ids=ids)
    assert relative_error(got.double(), want) < 5e-6


def test_it_is_used_where_it_can_be():
    u, v = views(24)
    how = {"powers": (1.0,), "cross": False, "precision": "auto"}
    assert fused_contrast(u, v, scale=10.0, **how) is not None
    assert fused_contrast(u, v, scale=1000.0, **how) is None
    assert fused_contrast(u, v, scale=torch.tensor(10.0), **how) is None
    assert fused_contrast(u.double(), v.double(), scale=10.0, **how) is None


def test_a_nan_comes_out_as_nan():
    u, v = views(24)
    u[3, 4] = torch.nan
    how = {"powers": (1.0,), "cross": False, "precision": "auto"}
    positive, negative = fused_contrast(u, v, scale=2.0, **how)
    assert positive[0].isnan().sum() == 1
    assert negative.isnan().any()


def test_a_zero_row_stays_zero_and_gets_a_finite_gradient():
    u, v = views(24)
    u[5] = 0
    value, du, dv = value_and_gradients(inv.nt_xent, u, v)
    assert value.isfinite()
    assert du.isfinite().all()
    assert dv.isfinite().all()


def test_one_view_alone_can_learn():
    u, v = views(24)
    want = value_and_gradients(inv.info_nce, u, v)[1]
    u = u.requires_grad_()
    (got,) = torch.autograd.grad(len(u) * inv.info_nce(u, v), u)
    torch.testing.assert_close(got.double(), want)


def test_rows_that_are_not_contiguous():
    u, v = views(24)
    strided = [torch.stack([x, x], 2)[..., 0] for x in (u, v)]
    assert not strided[0].is_contiguous()
    torch.testing.assert_close(inv.nt_xent(*strided), inv.nt_xent(u, v))


def test_a_second_derivative_is_refused():
    u, v = views(24)
    u.requires_grad_()
    (du,) = torch.autograd.grad(inv.nt_xent(u, v), u, create_graph=True)
    with pytest.raises(inv.InvarianceError, match="once, not twice"):
        du.sum().backward()

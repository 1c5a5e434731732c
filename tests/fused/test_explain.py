"""``explain`` names the path taken where fused kernels can run.

Interpreted on a CPU (TRITON_INTERPRET=1, as ``make test`` does) or on a CUDA device.
"""

import pytest
import torch
from tests.partition.paths import assert_explained

import invariance as inv
from invariance.partition import explain, fused_loss, log_partition, row_sums

from .cases import DEVICE, INTERPRETED
from .test_views import LOSSES, views

OTHERS = {
    "sig_lip": inv.sig_lip,
    "kcl log": lambda u, v: inv.kcl(u, v, kernel="log"),
    "cold": lambda u, v: inv.nt_xent(u, v, temperature=0.01),
    "weighted": lambda u, v: inv.dcl(u, v, weight_sigma=0.5),
}


@pytest.mark.parametrize("name", [*LOSSES, *OTHERS])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_losses_run_what_is_explained(name, dtype):
    u, v = views(24, dtype, pairs=9)
    plans = assert_explained((LOSSES | OTHERS)[name], u, v)
    if name in LOSSES and name != "dhel, sum":
        assert plans[-1].operation == "pair_loss"
        assert plans[-1].backend == "triton"
        assert plans[-1].precision == ("exact" if dtype == torch.float32 else "half")
    else:
        assert all(plan.operation != "pair_loss" for plan in plans)


def test_sup_con_is_two_operations():
    z, labels = torch.randn(8, 24, device=DEVICE), torch.arange(8, device=DEVICE) // 2
    plans = assert_explained(inv.sup_con, z, labels)
    assert [plan.operation for plan in plans] == ["class_pull", "pair_loss"]


@pytest.mark.parametrize("least", [0, 2**40])
def test_sizes_decide_for_the_primitive(least, monkeypatch):
    # private: the table of crossovers, so that a small matrix is on either side
    from invariance.partition import _plan

    monkeypatch.setattr(_plan, "FUSED_FROM", {2**31: least})
    x, y = views(24, pairs=20)
    for scale in (2.0, torch.tensor(2.0, device=DEVICE)):
        (plan,) = assert_explained(log_partition, x, y, scale=scale)
        assert plan.backend == ("blockwise" if least else "triton")
    for parameter, backend in ((-1.0, "triton"), (1.0, "blockwise")):
        (plan,) = assert_explained(row_sums, x, y, "riesz", parameter, offset=1.0)
        assert plan.backend == ("blockwise" if least else backend)
    asked = {"scale": 2.0, "backend": "triton", "precision": "half"}
    (plan,) = assert_explained(log_partition, x, y, **asked)
    assert (plan.precision, plan.reason) == ("half", "asked for")


def test_a_learned_scale_is_fused_where_its_bound_is_known():
    u, v = views(24, pairs=9)
    scale = torch.tensor(5.0, device=DEVICE)
    how = {"negatives": "all", "log_count": 4.0, "precision": "auto"}

    def fused(**more):
        loss = fused_loss(u, v, "decoupled", scale=scale, **how, **more)
        return torch.zeros(()) if loss is None else loss

    (plan,) = assert_explained(fused, largest_scale=20.0)
    assert plan.backend == "triton"
    assert explain(fused) == explain(fused, largest_scale=100.0) == ()


@pytest.mark.skipif(INTERPRETED, reason="a device alone has unit rows in 16 bits")
def test_unit_rows_of_16_bits():
    u, v = views(24, torch.bfloat16)
    plans = assert_explained(inv.sig_lip, u, v)
    assert [plan.operation for plan in plans] == ["unit_rows", "unit_rows", "row_sums"]

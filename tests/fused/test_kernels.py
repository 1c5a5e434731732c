"""The fused kernels against float64: every mask, shape, function and precision.

Interpreted on a CPU (TRITON_INTERPRET=1, as ``make test`` does) or on a CUDA device.
"""

import pytest
import torch

import invariance as inv
from invariance.partition import log_partition, row_sums

from .cases import (
    DEVICE,
    M,
    N,
    relative_error,
    softmax_cases,
    sum_cases,
    unit,
    value_and_gradients,
)

SOFTMAX, SUMS = softmax_cases(), sum_cases()
# (value, gradient): rounding rows to 11 bits, or computing as float32 does
TOLERANCE = {"half": (5e-4, 3e-3), "exact": (2e-6, 2e-5)}
# rounding moves a few scores across the edge of a band
BANDED = {"half": (2e-3, 1e-2), "exact": (2e-6, 2e-5)}


def assert_near(got, want, precision, tolerance=TOLERANCE):
    value, gradient = tolerance[precision]
    for a, b, most in zip(got, want, [value, *[gradient] * len(want[1:])], strict=True):
        assert relative_error(a, b) < most


@pytest.mark.parametrize("precision", ["half", "exact"])
@pytest.mark.parametrize("name", SOFTMAX)
def test_log_partitions_equal_the_dense_reference(name, precision):
    function, leaves = SOFTMAX[name]
    want = value_and_gradients(function, leaves, torch.float64, backend="dense")
    how = {"backend": "triton", "precision": precision}
    got = value_and_gradients(function, leaves, torch.float32, **how)
    banded = name in ("ids and bands", "rows without a pair", "wide, low, learned")
    assert_near(got, want, precision, BANDED if banded else TOLERANCE)


@pytest.mark.parametrize("precision", ["half", "exact"])
@pytest.mark.parametrize("name", SUMS)
def test_other_sums_equal_the_blockwise_ones(name, precision):
    function, leaves = SUMS[name]
    want = value_and_gradients(function, leaves, torch.float64, backend="blockwise")
    how = {"backend": "triton", "precision": precision}
    got = value_and_gradients(function, leaves, torch.float32, **how)
    assert_near(got, want, precision)


def test_float16_rows_come_out_as_float32_and_get_float16_gradients():
    x = unit(N, 24).half().requires_grad_()
    out = log_partition(x, x, scale=2.0, backend="triton")
    assert out.dtype == torch.float32
    exact = x.detach().double().requires_grad_()
    want = log_partition(exact, exact, scale=2.0, backend="dense")
    torch.testing.assert_close(out.double(), want, rtol=1e-5, atol=1e-5)
    (got,) = torch.autograd.grad(out.sum(), x)
    assert got.dtype == torch.float16
    (want,) = torch.autograd.grad(want.sum(), exact)
    assert relative_error(got.double(), want) < 1e-3


def test_a_whole_number_is_no_part_of_a_kernel():
    """Else the next call, with another number, would repeat this one's."""
    x, y = unit(N, 24).float().requires_grad_(), unit(M, 24, seed=1).float()
    for parameter in (1, 16, 2):
        got = row_sums(x, y, "log", parameter, offset=1, backend="triton")
        want = row_sums(x.double(), y.double(), "log", parameter, offset=1)
        assert relative_error(got.detach().double(), want.detach()) < 2e-6
        (got,) = torch.autograd.grad(got.sum(), x)
        (want,) = torch.autograd.grad(want.sum(), x)
        assert relative_error(got, want) < 2e-5


def test_the_default_dtype_is_none_of_its_business():
    x, y = unit(N, 300).float(), unit(M, 300, seed=1).float()

    def results():
        a, b = (t.clone().requires_grad_() for t in (x, y))
        out = log_partition(a, b, scale=3.0, backend="triton")
        more = row_sums(a, b, "softplus", backend="triton")
        return out, more, *torch.autograd.grad(out.sum() + more.sum(), (a, b))

    want = results()
    torch.set_default_dtype(torch.float64)
    try:
        got = results()
    finally:
        torch.set_default_dtype(torch.float32)
    assert all(torch.equal(a, b) for a, b in zip(got, want, strict=True))


@pytest.mark.parametrize("precision", ["half", "exact"])
def test_wide_gradients_patch_by_patch(precision, monkeypatch):
    """Two patches down and three across, the last of either cut short."""
    # private: budgets and tiles that would need a large batch
    from invariance.partition.triton import _wide

    monkeypatch.setattr(_wide, "PATCH_ROWS", 256)
    monkeypatch.setattr(_wide, "WEIGHT_BYTES", 2 * 256 * 256)
    n, m = 300, 600
    ids = {
        "row_ids": torch.arange(n, device=DEVICE) % 50,
        "column_ids": torch.arange(m, device=DEVICE) // 4 % 50,
    }
    leaves = [unit(n, 300), unit(m, 300, seed=1)]

    def everything(x, y, **how):
        both = inv.partition.two_sided_log_partition(x, y, scale=5.0, **ids, **how)
        return torch.cat(both)

    want = value_and_gradients(everything, leaves, torch.float64, backend="dense")
    how = {"backend": "triton", "precision": precision}
    got = value_and_gradients(everything, leaves, torch.float32, **how)
    assert_near(got, want, precision)


def test_rows_of_any_size_neither_overflow_nor_vanish():
    for size in (1e-12, 1e12):
        x = (unit(N, 24) * size).float()
        out = log_partition(x, x / size**2, scale=1.0, backend="triton")
        want = log_partition(
            x.double(), x.double() / size**2, scale=1.0, backend="dense"
        )
        torch.testing.assert_close(out.double(), want, rtol=1e-4, atol=1e-4)


def test_a_nan_comes_out_as_nan():
    x = unit(N, 24).float()
    x[3, 4] = torch.nan
    assert log_partition(x, x, scale=1.0, backend="triton").isnan().all()


@pytest.mark.parametrize(
    "function",
    [
        lambda x: log_partition(x, x, scale=1.0, backend="triton"),
        lambda x: row_sums(x, x, "softplus", backend="triton"),
    ],
    ids=["log-partition", "other sum"],
)
def test_a_second_derivative_is_refused(function):
    x = unit(N, 24).float().requires_grad_()
    (dx,) = torch.autograd.grad(function(x).sum(), x, create_graph=True)
    with pytest.raises(inv.InvarianceError, match="once, not twice"):
        torch.autograd.grad(dx.sum(), x)


def test_float64_rows_are_refused_with_advice():
    x = unit(N, 24)
    with pytest.raises(inv.InvarianceError, match=r"float64\. Leave backend='auto'"):
        log_partition(x, x, scale=1.0, backend="triton")


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32])
def test_unit_rows_and_their_gradient(dtype):
    # private: the public name takes 16-bit rows on a device alone
    from invariance.partition._operations import unit_rows

    x = (3 * unit(N, 20)).to(dtype)
    x[5] = 0
    x.requires_grad_()
    (z,) = unit_rows(x, 1e-12)
    exact = x.detach().double().requires_grad_()
    length = exact.norm(dim=1, keepdim=True)
    want = exact / length.where(length > 1e-12, 1.0)
    torch.testing.assert_close(z.double(), want, rtol=1e-6, atol=1e-7)
    weights = unit(N, 20, seed=3)
    (got,) = torch.autograd.grad((z * weights.float()).sum(), x)
    (want,) = torch.autograd.grad((want * weights).sum(), exact)
    assert got.dtype == dtype
    rows = [i for i in range(N) if i != 5]  # |x| has no slope at 0
    torch.testing.assert_close(got[rows].double(), want[rows], rtol=2e-3, atol=2e-4)
    assert got[5].isfinite().all()
    assert z.device.type == DEVICE

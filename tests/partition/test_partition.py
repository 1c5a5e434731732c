"""The primitive: blockwise against dense against loops, and what it refuses."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests import reference
from torch.autograd import grad, gradcheck, gradgradcheck
from torch.utils._python_dispatch import TorchDispatchMode

import invariance as inv

# private: _plan's budgets, so that a small matrix has several tiles
from invariance.partition import (
    _plan,
    log_partition,
    log_partitions,
    row_sums,
    two_sided_log_partition,
)


def rows(n, d, seed=0, **kinds):
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(n, d, generator=generator, dtype=torch.float64).to(**kinds)
    return x.requires_grad_()


def value_and_gradients(function, *leaves):
    out = function(*leaves)
    weights = torch.linspace(-1, 2, out.numel(), dtype=out.dtype).reshape(out.shape)
    total = (out.masked_fill(out == -torch.inf, 0.0) * weights).sum()
    return out.detach(), *grad(total, leaves)


def assert_same(a, b, **tolerance):
    for x, y in zip(a, b, strict=True):
        torch.testing.assert_close(x, y, **tolerance)


@settings(max_examples=60, deadline=None)
@given(
    n=st.sampled_from([1, 2, 3, 17, 40]),
    m=st.sampled_from([1, 2, 5, 33]),
    d=st.sampled_from([1, 3, 8]),
    kinds=st.sets(st.sampled_from(["ids", "low", "high", "far"])),
    tile=st.sampled_from([200, 4000, 10**6]),
    kept=st.sampled_from([0, 10**6]),
    scale=st.sampled_from([-2.0, 0.5, 3.0]),
    learned=st.booleans(),
)
def test_blockwise_equals_dense(n, m, d, kinds, tile, kept, scale, learned):
    x, y = rows(n, d), rows(m, d, seed=1)
    if "far" in kinds:  # logits beyond any shared exponent range
        x = (x.detach() * 100).requires_grad_()
    generator = torch.Generator().manual_seed(2)
    more = {}
    if "ids" in kinds:
        more["row_ids"] = torch.randint(0, 4, (n,), generator=generator)
        more["column_ids"] = torch.randint(0, 4, (m,), generator=generator)
    if "low" in kinds:
        more["low"] = torch.randn(n, generator=generator)
    if "high" in kinds:
        more["high"] = 0.7
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_plan, "CPU_TILE_BYTES", tile)
        patch.setattr(_plan, "CPU_KEPT_BYTES", kept)

        def run(backend):
            settings = {"backend": backend, **more}
            if not learned:
                return value_and_gradients(
                    lambda x, y: log_partition(x, y, scale=scale, **settings), x, y
                )
            return value_and_gradients(
                lambda x, y, s: log_partition(x, y, scale=s, **settings),
                x,
                y,
                torch.tensor(scale, dtype=torch.float64, requires_grad=True),
            )

        assert_same(run("blockwise"), run("dense"))


@pytest.mark.parametrize("scale", [2.0, -0.5, 300.0])
@pytest.mark.parametrize("tile", [3000, 10**6])
@pytest.mark.parametrize("kept", [0, 10**6])
def test_the_symmetric_case_equals_dense(scale, tile, kept, monkeypatch):
    monkeypatch.setattr(_plan, "CPU_TILE_BYTES", tile)
    monkeypatch.setattr(_plan, "CPU_KEPT_BYTES", kept)
    x, ids = rows(33, 4), torch.arange(33) // 2
    for factor in (scale, torch.tensor(scale, dtype=torch.float64)):

        def run(backend, factor=factor):
            return value_and_gradients(
                lambda x: log_partition(
                    x, x, scale=factor, row_ids=ids, column_ids=ids, backend=backend
                ),
                x,
            )

        assert_same(run("blockwise"), run("dense"))


@pytest.mark.parametrize("far", [1.0, 100.0])
@pytest.mark.parametrize("kept", [0, 10**6])
def test_rows_and_columns_come_from_one_call(far, kept, monkeypatch):
    monkeypatch.setattr(_plan, "CPU_TILE_BYTES", 2000)
    monkeypatch.setattr(_plan, "CPU_KEPT_BYTES", kept)
    x, y, ids = rows(21, 4), rows(13, 4, seed=1), torch.arange(21)
    scale = torch.tensor(far, dtype=torch.float64, requires_grad=True)

    def both(x, y, s, backend="blockwise"):
        sides = two_sided_log_partition(
            x, y, scale=s, row_ids=ids, column_ids=ids[:13], backend=backend
        )
        return torch.cat(sides)

    def apart(x, y, s):
        row = log_partition(x, y, scale=s, row_ids=ids, column_ids=ids[:13])
        column = log_partition(y, x, scale=s, row_ids=ids[:13], column_ids=ids)
        return torch.cat([row, column])

    def known(x, y):
        return both(x, y, far)

    got = value_and_gradients(both, x, y, scale)
    assert_same(value_and_gradients(known, x, y), got[:3])
    assert_same(got, value_and_gradients(apart, x, y, scale))
    assert_same(
        got, value_and_gradients(lambda *a: both(*a, backend="dense"), x, y, scale)
    )


@pytest.mark.parametrize("scale", [2.0, 300.0])
@pytest.mark.parametrize("kept", [0, 10**6])
@pytest.mark.parametrize("n", [9, 80])
def test_a_known_length_changes_nothing(scale, kept, n, monkeypatch):
    monkeypatch.setattr(_plan, "CPU_KEPT_BYTES", kept)
    x, y, ids = rows(n, 4), rows(n, 4, seed=1), torch.arange(n)
    unit = torch.nn.functional.normalize

    def run(sides, **how):
        how |= {"scale": scale, "row_ids": ids, "column_ids": ids}
        if sides == 2:
            return lambda x, y: torch.cat(
                two_sided_log_partition(unit(x), unit(y), **how)
            )
        return lambda x, y: log_partition(z := unit(x + y), z, **how)

    for sides in (1, 2):
        assert_same(
            value_and_gradients(run(sides, longest=1), x, y),
            value_and_gradients(run(sides, backend="dense"), x, y),
        )


def test_several_scales_cost_one_pass_and_change_nothing():
    x, y = rows(9, 3), rows(7, 3, seed=1)
    together = log_partitions(x, y, scales=[0.5, 1.0, -2.0])
    alone = torch.stack([log_partition(x, y, scale=s) for s in (0.5, 1.0, -2.0)])
    torch.testing.assert_close(together, alone)


def test_it_equals_the_loops():
    x, y = rows(5, 3), rows(6, 3, seed=1)
    more = {
        "row_ids": torch.tensor([0, 1, 2, 3, 4]),
        "column_ids": torch.tensor([0, 0, 1, 5, 6, 7]),
        "low": torch.full((5,), -1.0, dtype=torch.float64),
        "high": torch.full((5,), 2.0, dtype=torch.float64),
    }
    torch.testing.assert_close(
        log_partition(x, y, scale=1.5, **more),
        torch.as_tensor(reference.log_partition(x, y, scale=1.5, **more)),
    )


def test_a_band_includes_both_its_ends():
    x = torch.tensor([[1.0]])
    y = torch.tensor([[1.0], [2.0], [3.0]])
    band = log_partition(x, y, scale=1.0, low=1.0, high=2.0)
    torch.testing.assert_close(band, torch.tensor([1.0, 2.0]).logsumexp(0)[None])


@pytest.mark.parametrize("backend", ["dense", "blockwise"])
@pytest.mark.parametrize("far", [1.0, 1000.0])
def test_a_row_with_nothing_left_is_minus_infinity_with_zero_gradient(backend, far):
    x, y = rows(3, 2), rows(2, 2, seed=1)
    row_ids, column_ids = torch.tensor([7, 1, 7]), torch.tensor([7, 7])
    out = log_partition(
        x * far, y, scale=1.0, row_ids=row_ids, column_ids=column_ids, backend=backend
    )
    assert out[0] == out[2] == -math.inf
    assert out[1].isfinite()
    dx, dy = grad(out, (x, y), torch.ones(3, dtype=torch.float64))
    assert (dx[[0, 2]] == 0).all()
    assert dx.isfinite().all()
    assert dy.isfinite().all()


def test_no_columns_at_all():
    out = log_partition(rows(3, 2), torch.zeros(0, 2, dtype=torch.float64), scale=1.0)
    assert (out == -math.inf).all()


def test_gradcheck_with_a_learned_scale():
    ids = torch.arange(4)
    scale = torch.tensor(1.3, dtype=torch.float64, requires_grad=True)
    assert gradcheck(
        lambda x, y, s: log_partition(x, y, scale=s, row_ids=ids, column_ids=ids),
        (rows(4, 3), rows(4, 3, seed=1), scale),
    )


def test_a_second_derivative_is_refused_and_dense_has_it():
    x, y = rows(3, 2), rows(4, 2, seed=1)
    (dx,) = grad(log_partition(x, y, scale=1.0).sum(), x, create_graph=True)
    with pytest.raises(inv.InvarianceError, match="backend='dense'"):
        dx.sum().backward()
    (dx,) = grad(row_sums(x, y, "softplus").sum(), x, create_graph=True)
    with pytest.raises(inv.InvarianceError, match="once, not twice"):
        dx.sum().backward()
    assert gradgradcheck(
        lambda x, y: log_partition(x, y, scale=1.0, backend="dense"), (x, y)
    )


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_comes_out_as_float32(dtype):
    x = rows(8, 4, dtype=dtype)
    out = log_partition(x, x, scale=2.0)
    assert out.dtype == torch.float32
    exact = log_partition(x.double(), x.double(), scale=2.0)
    torch.testing.assert_close(out.double(), exact, rtol=1e-6, atol=1e-6)
    assert grad(out.sum(), x)[0].dtype == dtype


class Widest(TorchDispatchMode):
    """The size of the largest tensor that any operation returned."""

    numel = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        out = function(*args, **(kwargs or {}))
        if isinstance(out, torch.Tensor):
            self.numel = max(self.numel, out.numel())
        return out


def test_memory_is_the_tiles(monkeypatch):
    """No n x m tensor exists at any time: the widest allocation is a tile."""
    monkeypatch.setattr(torch, "get_num_threads", lambda: 1)  # a mode is a thread's own
    x = rows(3000, 8, dtype=torch.float32)
    with Widest() as widest:
        log_partition(x, x, scale=1.0).sum().backward()
    both = 2  # the memory of a tile and of its spare is one tensor
    assert x.numel() < widest.numel
    assert widest.numel / both * 4 * _plan.LIVE_TILES <= _plan.CPU_TILE_BYTES


@pytest.mark.usefixtures("our_errors")
def test_what_it_refuses():
    x = torch.randn(4, 3)
    with pytest.raises(inv.InvarianceError, match="of one width"):
        log_partition(x, torch.randn(4, 2), scale=1.0)
    with pytest.raises(inv.InvarianceError, match="floating point"):
        log_partition(x.long(), x, scale=1.0)
    with pytest.raises(inv.InvarianceError, match="both row_ids and column_ids"):
        log_partition(x, x, scale=1.0, row_ids=torch.arange(4))
    with pytest.raises(inv.InvarianceError, match="one entry per column"):
        log_partition(
            x, x, scale=1.0, row_ids=torch.arange(4), column_ids=torch.arange(5)
        )
    with pytest.raises(inv.InvarianceError, match="Did you mean 'blockwise'"):
        log_partition(x, x, scale=1.0, backend="blockwize")
    with pytest.raises(inv.InvarianceError, match="Did you mean 'exact'"):
        log_partition(x, x, scale=1.0, precision="exakt")
    with pytest.raises(inv.InvarianceError, match="Unknown function"):
        row_sums(x, x, "tanh")


@pytest.mark.usefixtures("our_errors")
@pytest.mark.parametrize("backend", ["blockwise", "dense"])
@pytest.mark.parametrize(
    "wrong, message",
    [
        ({"scale": torch.ones(4)}, r"scale is one number.*shape \(4,\).*multiply x"),
        ({"scale": "1"}, "scale must be a number or a tensor: got '1'"),
        ({"scale": None}, "scale must be a number or a tensor: got None"),
        ({"low": math.nan}, "low must be a number: got nan.*None means no limit"),
        ({"high": [1.0]}, r"high must be a number or a tensor: got \[1.0\]"),
        ({"y": [[1.0] * 3]}, "y must be a torch tensor, not list: convert with"),
        (
            {"row_ids": [0, 1, 2, 3], "column_ids": torch.arange(4)},
            "row_ids must be a torch tensor, not list: convert with",
        ),
    ],
)
def test_what_is_no_number_or_no_tensor_is_refused_in_words(wrong, message, backend):
    x = torch.randn(4, 3)
    settings = {"y": x, "scale": 1.0, "backend": backend} | wrong
    with pytest.raises(inv.InvarianceError, match=message):
        log_partition(x, **settings)

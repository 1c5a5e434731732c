"""Two views contrasted in one operation: losses against float64, and its edges.

Interpreted on a CPU (TRITON_INTERPRET=1, as ``make test`` does) or on a CUDA device.
"""

from functools import partial

import pytest
import torch

import invariance as inv
from invariance.partition import fused_loss, log_partition

from .cases import DEVICE, INTERPRETED, relative_error, unit

PAIRS = 37 if INTERPRETED else 777


def sup_con(u, v):
    """Classes of several sizes, and some rows alone in theirs."""
    labels = torch.arange(2 * len(u), device=u.device)
    return inv.sup_con(torch.cat([u, v]), labels.where(labels % 3 > 0, labels % 7))


@pytest.fixture(autouse=True)
def fresh_launches():
    """Those of another test, perhaps with other tiles, are not used in this."""
    # private: tests change budgets that launches were planned by
    from invariance.partition.triton._launch import forget_launches

    forget_launches()
    yield
    forget_launches()


LOSSES = {
    "nt_xent": inv.nt_xent,
    "info_nce": inv.info_nce,
    "dcl": inv.dcl,
    "dcl, cross": partial(inv.dcl, negatives="cross"),
    "dhel": inv.dhel,
    "dhel, sum": partial(inv.dhel, views="sum"),
    "flat_nce": partial(inv.flat_nce, gamma=-1.5),
    "flat_nce, positive kept": partial(
        inv.flat_nce, temperature=0.3, gamma=2.0, keep_positive=True
    ),
    "debiased": inv.debiased,
    "debiased, unbiased": partial(inv.debiased, prior=0.0, temperature=0.1),
    "debiased, at its floor": partial(inv.debiased, prior=0.6, temperature=0.3),
    "squares": partial(inv.debiased, hardness=1.0),
    "cubes": partial(inv.debiased, hardness=0.5),
    "two exponentials": partial(inv.debiased, hardness=0.7),
    "kcl": inv.kcl,
    "kcl, steep": partial(inv.kcl, gamma=-1, t=20),
    "kcl, alignment alone": partial(inv.kcl, gamma=0),
    "sup_con": sup_con,
    "multi_view": lambda u, v: inv.multi_view(torch.stack([u, v])),
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


@pytest.mark.parametrize("name", ["nt_xent", "info_nce", "dhel"])
@pytest.mark.parametrize("d", [129, 300, 384])
def test_other_widths(name, d):
    assert_as_in_float64(LOSSES[name], *views(d), 5e-6)
    assert_as_in_float64(LOSSES[name], *views(d, torch.float16), 6e-4)


@pytest.mark.parametrize("name", ["nt_xent", "info_nce", "dhel"])
def test_many_wide_rows(name, monkeypatch):
    # private: budgets and tiles that would need a large batch
    from invariance.partition.triton import _backward

    monkeypatch.setattr(_backward, "CHUNKED_UP_TO", 0)
    assert_as_in_float64(LOSSES[name], *views(300), 5e-6)


def test_many_wide_rows_patch_by_patch(monkeypatch):
    # private: budgets and tiles that would need a large batch
    from invariance.partition.triton import _backward, _wide

    monkeypatch.setattr(_backward, "CHUNKED_UP_TO", 0)
    monkeypatch.setattr(_wide, "PATCH_ROWS", 256)
    monkeypatch.setattr(_wide, "WEIGHT_BYTES", 2 * 2 * 256 * 256)
    assert_as_in_float64(inv.nt_xent, *views(300, pairs=150), 5e-6)


@pytest.mark.parametrize(
    ("sides", "d"), [((32, 16), 24), ((16, 32), 24), ((16, 32), 300)]
)
def test_half_a_matrix_in_several_goes(sides, d, monkeypatch):
    """Partial sums over budget, and tiles that the diagonal cuts in the middle."""
    # private: budgets and tiles that would need a large batch
    from invariance.partition.triton import _forward, _launch

    config = _launch.Config(*sides, 4, 1)
    monkeypatch.setattr(_forward, "choose_config", lambda *_: config)
    monkeypatch.setattr(_forward, "TRIANGLE_FROM", {"cpu": 0, "cuda": 0})
    monkeypatch.setattr(_forward, "_rows_at_once", lambda *_: sides[0])
    u, v = views(d)
    for name in ("nt_xent", "info_nce", "squares"):
        assert_as_in_float64(LOSSES[name], u, v, 5e-6)
    z, ids = torch.cat([u, v]), torch.arange(2 * len(u), device=DEVICE) // 3
    got = log_partition(z, z, scale=0.1, row_ids=ids, column_ids=ids, backend="triton")
    want = log_partition(z.double(), z.double(), scale=0.1, row_ids=ids, column_ids=ids)
    assert relative_error(got.double(), want) < 5e-6


@pytest.mark.parametrize("d", [24, 150])
@pytest.mark.parametrize(
    "labels",
    [
        lambda at: at * 0,
        lambda at: at // 60,
        lambda at: (at * 7 % 60).int(),
        lambda at: (at // 45).where(at % 5 > 0, -at),
        lambda at: at,
    ],
    ids=["one class", "some long ones", "many", "long ones and single rows", "single"],
)
def test_classes_of_any_length(labels, d, monkeypatch):
    """In the middle of a block, over its edge, over many blocks."""
    # private: budgets and tiles that would need a large batch
    from invariance.partition.triton import _classes

    monkeypatch.setattr(_classes, "BLOCK", 16)
    monkeypatch.setattr(_classes, "AT_ONCE", 2)
    u, v = views(d, pairs=90)
    of_each = labels(torch.arange(180, device=DEVICE))
    of_each = of_each[torch.randperm(180, generator=torch.Generator().manual_seed(0))]

    def loss(u, v):
        return inv.sup_con(torch.cat([u, v]), of_each)

    assert_as_in_float64(loss, u, v, 5e-6)


def test_it_is_used_where_it_can_be():
    u, v = views(24)
    how = {"kind": "decoupled", "negatives": "all", "log_count": 4.0}
    fused = partial(fused_loss, precision="auto", **how)
    assert fused(u, v, scale=10.0) is not None
    assert fused(u, v, scale=1000.0) is None
    assert fused(u, v, scale=torch.tensor(10.0)) is None
    assert fused(u.double(), v.double(), scale=10.0) is None
    assert fused(u, v, scale=10.0, powers=(1.0, 2.0, 3.0)) is None


@pytest.mark.parametrize(
    ("kind", "parameters"),
    [
        ("cross_entropy", ()),
        ("decoupled", ()),
        ("flat", (1.0,)),
        ("flat_with_positive", (1.0,)),
        ("debiased", (1.0, 0.1, 2.0)),
        ("kernel", (1.0, 2.0)),
    ],
)
@pytest.mark.parametrize("negatives", ["all", "cross", "within"])
def test_a_nan_comes_out_as_nan(kind, parameters, negatives):
    u, v = views(24)
    u[3, 4] = torch.nan
    u.requires_grad_()
    how = {"scale": 2.0, "log_count": 4.0, "precision": "auto"}
    loss = fused_loss(u, v, kind, negatives=negatives, parameters=parameters, **how)
    (du,) = torch.autograd.grad(loss, u)
    assert loss.isnan()
    assert du.isnan().any()


def test_a_zero_row_stays_zero_and_gets_a_finite_gradient():
    u, v = views(24)
    u[5] = 0
    value, du, dv = value_and_gradients(inv.nt_xent, u, v)
    assert value.isfinite()
    assert du.isfinite().all()
    assert dv.isfinite().all()
    v[7] = 0
    assert_as_in_float64(inv.kcl, u, v, 5e-6)  # distances to a zero row are others


@pytest.mark.parametrize("name", ["info_nce", "kcl", "sup_con", "multi_view"])
def test_rows_too_long_to_square_count_by_their_direction(name):
    """Float32 squares end at lengths of 1.8e19; these rows are 2^100 times as long."""
    results = []
    for factor in (1.0, 2.0**100):
        u, v = ((factor * unit(PAIRS, 24, seed=k)).requires_grad_() for k in range(2))
        loss = LOSSES[name](u, v)
        (gradient,) = torch.autograd.grad(loss, u)
        results.append((loss.detach(), factor * gradient))
    for a, b in zip(*results, strict=True):
        torch.testing.assert_close(a, b)


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


def test_what_is_added_by_the_caller_need_not_be_contiguous():
    u, v = (x.requires_grad_() for x in views(24))
    anchors = torch.linspace(0, 1, 2 * PAIRS, device=DEVICE)
    extra = unit(2 * PAIRS, 24).float()
    how = {"scale": 5.0, "negatives": "others", "log_count": 4.0, "precision": "auto"}

    def gradients(anchors, extra):
        more = {"anchors": anchors, "extra": extra}
        return torch.autograd.grad(fused_loss(u, v, "spread", **how, **more), (u, v))

    want = gradients(anchors, extra)
    strided = torch.stack([anchors, anchors], 1)[:, 0], extra.T.contiguous().T
    for got, expected in zip(gradients(*strided), want, strict=True):
        torch.testing.assert_close(got, expected, rtol=0, atol=0)


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_the_default_dtype_is_none_of_its_business(dtype):
    u, v = views(24)
    want = value_and_gradients(inv.nt_xent, u, v)
    torch.set_default_dtype(dtype)
    try:
        got = value_and_gradients(inv.nt_xent, u, v)
    finally:
        torch.set_default_dtype(torch.float32)
    assert all(torch.equal(a, b) for a, b in zip(got, want, strict=True))


def test_a_second_derivative_is_refused():
    u, v = views(24)
    u.requires_grad_()
    (du,) = torch.autograd.grad(inv.nt_xent(u, v), u, create_graph=True)
    with pytest.raises(inv.InvarianceError, match="once, not twice"):
        du.sum().backward()


def test_a_second_derivative_of_the_operator_is_refused():
    """Of the one that the compiler takes, where a backend leaves autograd to PyTorch.

    Its gradient is kept, which looks like a constant.
    """
    u, v = (x.requires_grad_() for x in views(24))
    compiled = torch.compile(inv.nt_xent, fullgraph=True, backend="eager")
    (du,) = torch.autograd.grad(compiled(u, v), u, create_graph=True)
    with pytest.raises(inv.InvarianceError, match="once, not twice"):
        du.sum().backward()


@pytest.mark.parametrize("name", ["nt_xent", "squares", "sup_con"])
def test_compiled_for_sizes_that_change(name):
    torch._dynamo.reset()
    loss = LOSSES[name]
    compiled = torch.compile(loss, fullgraph=True, dynamic=True, backend="aot_eager")
    for pairs in (9, 6, 4):
        u, v = views(24, pairs=pairs)
        want = value_and_gradients(loss, u, v)
        for a, b in zip(value_and_gradients(compiled, u, v), want, strict=True):
            torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-6)


def test_opposite_rows_at_the_highest_scale():
    """Sums are as small as they can be, and weights over them still numbers."""
    for n in (2, 5):
        signs = torch.ones(n, 1, device=DEVICE)
        signs[0] = -1
        base = signs * unit(1, 24).float()
        u, v = (base + 0.03 * unit(n, 24, seed=s).float() for s in (1, 2))
        for loss in (inv.nt_xent, inv.dcl, inv.dhel):
            assert_as_in_float64(partial(loss, temperature=1 / 41.9), u, v, 1e-4)
        v[0] *= -1  # so that even the positive is opposite, and the loss is steep
        for hardness in (0.5, 0.7, 1.0):
            temperature = (1 + hardness) / 41.9
            loss = partial(inv.debiased, hardness=hardness, temperature=temperature)
            assert_as_in_float64(loss, u, v, 1e-4)


def test_a_solved_batch_keeps_its_tiny_gradient():
    """Where every anchor is almost sure, weights are tiny, and all alike."""
    u = torch.eye(24, device=DEVICE)
    v = torch.nn.functional.normalize(u + 0.01 * unit(24, 24).float())
    loss = partial(inv.nt_xent, temperature=0.05)
    assert_as_in_float64(loss, u, v, 2e-5)
    leaves = [x.clone().requires_grad_() for x in (u, v)]
    gradients = torch.autograd.grad(loss(*leaves), leaves)
    assert all(0 < g.abs().max() < 1e-6 for g in gradients)


@pytest.mark.parametrize("name", ["nt_xent", "info_nce", "dhel"])
@pytest.mark.parametrize("d", [24, 300])
def test_a_gradient_of_either_view_alone_is_its_half_of_both(name, d, monkeypatch):
    # private: budgets and tiles that would need a large batch
    from invariance.partition.triton import _backward

    monkeypatch.setattr(_backward, "CHUNKED_UP_TO", 0)
    u, v = views(d)
    _, *both = value_and_gradients(LOSSES[name], u, v)
    for i in (0, 1):
        leaves = [u.clone(), v.clone()]
        leaves[i].requires_grad_()
        (got,) = torch.autograd.grad(len(u) * LOSSES[name](*leaves), leaves[i])
        torch.testing.assert_close(got.double(), both[i])


def test_a_retained_graph_gives_the_gradient_again_times_what_comes_from_outside():
    u, v = (x.requires_grad_() for x in views(24, torch.float16))
    loss = inv.nt_xent(u, v)
    (loss * 2.0**12).backward(retain_graph=True)
    once = u.grad.clone()
    u.grad = None
    (loss * 2.0**13).backward()
    # scaled before it is rounded to float16, as a gradient scaler needs it
    fine = once > 2.0**-14
    torch.testing.assert_close(u.grad[fine], 2 * once[fine], rtol=0, atol=0)
    assert fine.any()


def test_without_gradients_there_is_none_to_keep():
    u, v = views(24)
    want = inv.nt_xent(u, v)
    with torch.no_grad():
        got = inv.nt_xent(u.clone().requires_grad_(), v)
    assert not got.requires_grad
    torch.testing.assert_close(got, want, rtol=0, atol=0)

"""A scale that is a tensor of the device: losses and all gradients against float64.

Interpreted on a CPU (TRITON_INTERPRET=1, as ``make test`` does) or on a CUDA device.
"""

from functools import partial

import pytest
import torch

import invariance as inv
from invariance.partition import class_pull, fused_loss

from .cases import DEVICE, relative_error, unit
from .test_views import PAIRS, views

LARGEST = 20.0
# the fused formula, its negatives and parameters; and the same loss of the package
KINDS = {
    "nt_xent": (("cross_entropy", "all", ()), inv.nt_xent),
    "info_nce": (("cross_entropy", "cross", ()), inv.info_nce),
    "dcl": (("decoupled", "all", ()), inv.dcl),
    "dhel": (("decoupled", "within", ()), inv.dhel),
    "flat_nce": (("flat", "all", (1.5,)), partial(inv.flat_nce, gamma=1.5)),
}


def fused(u, v, scale, kind, negatives, parameters, **more):
    powers = parameters[:1] or (1.0,)  # FlatNCE's partition is at scale gamma
    return fused_loss(
        u,
        v,
        kind,
        scale=scale,
        negatives=negatives,
        parameters=parameters,
        powers=powers,
        log_count=4.0,
        precision="auto",
        largest_scale=LARGEST,
        **more,
    )


def value_and_gradients(loss, u, v, scale):
    leaves = [x.detach().clone().requires_grad_() for x in (u, v, scale)]
    value = len(u) * loss(*leaves)
    return [x.double() for x in (value.detach(), *torch.autograd.grad(value, leaves))]


def learned(value):
    return torch.tensor(value, device=DEVICE)


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
@pytest.mark.parametrize("scale", [2.0, 11.0])
def test_value_and_gradients(name, dtype, scale):
    formula, loss = KINDS[name]
    u, v = views(24, dtype)
    got = value_and_gradients(
        lambda u, v, s: fused(u, v, s, *formula), u, v, learned(scale)
    )
    want = value_and_gradients(
        lambda u, v, s: loss(u, v, temperature=1 / s),
        *(u.double(), v.double(), learned(scale).double()),
    )
    most = 1e-5 if dtype == torch.float32 else 2e-3
    for a, b in zip(got, want, strict=True):
        assert relative_error(a, b) < most


@pytest.mark.parametrize("name", ["nt_xent", "info_nce", "dhel"])
def test_it_equals_a_scale_that_is_a_number(name):
    formula, _ = KINDS[name]
    u, v = (x.requires_grad_() for x in views(24))
    results = []
    for scale in (5.0, learned(5.0)):
        loss = fused(u, v, scale, *formula)
        results.append((loss, *torch.autograd.grad(loss, (u, v))))
    assert all(torch.equal(a, b) for a, b in zip(*results, strict=True))


def test_the_scale_alone_can_learn():
    formula, _ = KINDS["info_nce"]
    u, v = views(24)
    *_, want = value_and_gradients(
        lambda *leaves: fused(*leaves, *formula), u, v, learned(5.0)
    )
    scale = learned(5.0).requires_grad_()
    (got,) = torch.autograd.grad(PAIRS * fused(u, v, scale, *formula), scale)
    torch.testing.assert_close(got.double(), want)
    with torch.no_grad():
        assert not fused(u, v, scale, *formula).requires_grad


def test_the_callers_own_gradient_is_no_part_of_the_scales():
    """SupCon's way: the spread is fused, the pull of a class is added by the caller."""
    z = torch.cat(views(24)).detach()
    labels = torch.arange(len(z), device=DEVICE) % 7

    def loss(z, scale):
        pull, anchors, value = class_pull(z, labels, -1 / len(z))
        extra = pull * scale.detach()
        u, v = z.chunk(2)
        more = {"anchors": anchors, "extra": extra}
        return fused(u, v, scale, "spread", "others", (), **more) + scale * value

    def reference(z, scale):
        return inv.sup_con(z, labels, temperature=1 / scale)

    results = []
    for function, dtype in ((loss, torch.float32), (reference, torch.float64)):
        leaves = [x.to(dtype).requires_grad_() for x in (z, learned(5.0))]
        value = function(*leaves)
        results.append((value.detach(), *torch.autograd.grad(value, leaves)))
    for a, b in zip(*results, strict=True):
        assert relative_error(a.double(), b) < 1e-5


def test_torch_compile_takes_it_whole():
    torch._dynamo.reset()
    formula, _ = KINDS["dcl"]
    u, v = views(24, pairs=9)

    def loss(u, v, temperature):
        return fused(u, v, 1 / temperature.clamp_min(1 / LARGEST), *formula)

    want = value_and_gradients(loss, u, v, learned(0.2))
    compiled = torch.compile(loss, fullgraph=True, backend="aot_eager")
    got = value_and_gradients(compiled, u, v, learned(0.2))
    for a, b in zip(got, want, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-6)


def test_where_it_is_not_for():
    u, v = views(24)
    how = {"negatives": "all", "log_count": 4.0, "precision": "auto"}
    scale = learned(5.0)
    assert fused_loss(u, v, "decoupled", scale=scale, **how) is None
    for kind, largest in (("decoupled", 100.0), ("debiased", 5.0), ("kernel", 5.0)):
        more = {"parameters": (1.0, 0.1, 2.0), "largest_scale": largest}
        assert fused_loss(u, v, kind, scale=scale, **how, **more) is None


def test_the_general_path_has_the_scales_gradient_too():
    u, v = (unit(PAIRS, 24, seed) for seed in (1, 2))
    want = value_and_gradients(
        lambda u, v, s: inv.nt_xent(u, v, temperature=1 / s),
        *(u, v, learned(60.0).double()),
    )
    got = value_and_gradients(
        lambda u, v, s: inv.nt_xent(u, v, temperature=1 / s),
        *(u.float(), v.float(), learned(60.0)),
    )
    for a, b in zip(got, want, strict=True):
        assert relative_error(a, b) < 1e-5

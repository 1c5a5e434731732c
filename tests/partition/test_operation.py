"""Called in eager mode or as a registered operator, an operation is the same."""

import pytest
import torch
from torch.autograd import grad

import invariance as inv

# private: an operation is called in both its ways, which no public name does
from invariance.partition import _operations, log_partition, row_sums

HOW = ("blockwise", True)
IDS = (torch.arange(6) // 2, torch.arange(5) // 2)


def rows(n, seed):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(n, 3, generator=generator, dtype=torch.float64).requires_grad_()


def partition_inputs(scales=None, symmetric=False, columns=True, longest=torch.inf):
    x, y = rows(6, 0), rows(5, 1)
    masks = (IDS[0], IDS[0]) if symmetric else IDS
    y = None if symmetric else y
    return (x, y, *masks, None, None, scales, 1.5, longest, columns, *HOW)


def learned():
    return torch.tensor([0.5, 2.0], dtype=torch.float64, requires_grad=True)


CALLS = {
    "two sides": ("log_partitions", partition_inputs()),
    "rows alone": ("log_partitions", partition_inputs(columns=False)),
    "symmetric": ("log_partitions", partition_inputs(symmetric=True, columns=False)),
    "known length": ("log_partitions", partition_inputs(longest=5.0)),
    "learned scales": ("log_partitions", partition_inputs(learned())),
    "other sums": (
        "row_sums",
        (rows(6, 0), rows(5, 1), *IDS, "softplus", 0.0, 0.5, *HOW),
    ),
}


def value_and_gradients(function, inputs):
    out = function(*inputs)
    out = [out] if isinstance(out, torch.Tensor) else [x for x in out[:2] if len(x)]
    leaves = [x for x in inputs if isinstance(x, torch.Tensor) and x.requires_grad]
    leaves = list(dict.fromkeys(leaves))
    total = sum((x * torch.linspace(-1, 2, x.shape[-1])).sum() for x in out)
    return *out, *grad(total, leaves)


@pytest.mark.parametrize("name", CALLS)
def test_the_registered_operator_is_the_same(name):
    name, inputs = CALLS[name]
    operator = getattr(torch.ops.invariance, name)
    operation = getattr(_operations, name)

    def asked(*inputs):  # in eager mode a side nobody asked for is None
        out = operation(*inputs)
        return (
            out if isinstance(out, torch.Tensor) else [x for x in out if x is not None]
        )

    want = value_and_gradients(operator, inputs)
    for a, b in zip(value_and_gradients(asked, inputs), want, strict=True):
        assert torch.equal(a, b)


@pytest.mark.parametrize("name", CALLS)
def test_without_a_gradient_the_value_is_the_same_and_has_no_graph(name):
    name, inputs = CALLS[name]
    operation = getattr(_operations, name)
    want = operation(*inputs)
    with torch.no_grad():
        got = operation(*inputs)
    detached = operation(*(x.detach() if torch.is_tensor(x) else x for x in inputs))
    first = lambda out: out if isinstance(out, torch.Tensor) else out[0]  # noqa: E731
    assert first(want).requires_grad
    for out in (got, detached):
        assert not first(out).requires_grad
        assert torch.equal(first(out), first(want))


@pytest.mark.parametrize("scale", [2.0, torch.tensor(2.0, dtype=torch.float64)])
def test_one_side_without_a_gradient(scale):
    x, y = rows(6, 0), rows(5, 1)
    both = grad(log_partition(x, y, scale=scale).sum(), (x, y))
    (dx,) = grad(log_partition(x, y.detach(), scale=scale).sum(), x)
    (dy,) = grad(log_partition(x.detach(), y, scale=scale).sum(), y)
    assert torch.equal(dx, both[0])
    assert torch.equal(dy, both[1])
    both = grad(row_sums(x, y, "softplus").sum(), (x, y))
    (dy,) = grad(row_sums(x.detach(), y, "softplus").sum(), y)
    assert torch.equal(dy, both[1])


def test_a_kept_graph_gives_its_gradient_again():
    x = rows(6, 0)
    out = log_partition(x, x, scale=2.0, row_ids=IDS[0], column_ids=IDS[0]).sum()
    out = out + row_sums(x, x, "softplus").sum()
    out.backward(retain_graph=True)
    once = x.grad.clone()
    out.backward(retain_graph=True)
    torch.testing.assert_close(x.grad, 2 * once)


@pytest.mark.parametrize("name", CALLS)
def test_a_second_derivative_is_refused_however_it_is_reached(name):
    name, inputs = CALLS[name]
    out = getattr(_operations, name)(*inputs)
    out = out if isinstance(out, torch.Tensor) else out[0]
    x = inputs[0]
    weight = torch.ones_like(out, requires_grad=True)
    (dx,) = grad((weight * out).sum(), x, create_graph=True)
    for leaf in (x, weight):
        with pytest.raises(inv.InvarianceError, match="once, not twice"):
            grad(dx.square().sum(), leaf, retain_graph=True)


def test_autocast_changes_neither_value_nor_gradient():
    x = rows(6, 0).detach().float().requires_grad_()

    def run(enabled):
        with torch.autocast("cpu", torch.bfloat16, enabled=enabled):
            out = log_partition(x, x, scale=2.0, row_ids=IDS[0], column_ids=IDS[0])
            return out, *grad(out.sum() + row_sums(x, x, "softplus").sum(), x)

    for a, b in zip(run(True), run(False), strict=True):
        assert a.dtype == torch.float32
        assert torch.equal(a, b)

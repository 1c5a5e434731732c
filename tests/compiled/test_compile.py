"""torch.compile takes every objective whole.

Run without the shape checks of the other tests, which cannot be compiled (see the
Makefile).
"""

import warnings

import pytest
import torch
from tests.contracts.cases import CASES
from tests.processes import on_processes
from torch.autograd import grad

import invariance as inv
from invariance.encoders import Mapped, build_encoder


def value_and_gradients(function, inputs):
    inputs = [x.clone().requires_grad_(x.is_floating_point()) for x in inputs]
    value = function(*inputs)
    rows = [x for x in inputs if x.requires_grad]
    gradients = grad(value, rows, allow_unused=True)
    return [value.detach(), *(g for g in gradients if g is not None)]


def assert_compiles(case, backend):
    torch._dynamo.reset()
    inputs = case.inputs(6, 4, dtype=torch.float32)
    compiled = torch.compile(case.function(), fullgraph=True, backend=backend)
    expected = value_and_gradients(case.function(), inputs)
    for got, want in zip(value_and_gradients(compiled, inputs), expected, strict=True):
        torch.testing.assert_close(got, want, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_one_graph_forward_and_backward(case):
    assert_compiles(case, "aot_eager")


def test_a_temperature_that_changes():
    torch._dynamo.reset()
    u, v = torch.randn(2, 6, 4)
    compiled = torch.compile(inv.nt_xent, fullgraph=True, backend="aot_eager")
    for temperature in (0.5, 0.4, 0.3, 1.0):
        got = compiled(u, v, temperature=temperature)
        torch.testing.assert_close(got, inv.nt_xent(u, v, temperature=temperature))


@pytest.mark.parametrize("name", ["nt_xent", "sup_con", "sig_lip"])
def test_generated_code(name):
    # a cache on disk may hold code for an operator that has changed since
    with torch._inductor.config.patch(force_disable_caches=True):
        assert_compiles(next(c for c in CASES if c.name == name), "inductor")


def test_operators_pass_pytorchs_own_checks():
    x = torch.randn(5, 3, requires_grad=True)
    y = torch.randn(4, 3, requires_grad=True)
    ids = (torch.arange(5), torch.arange(4))
    scales = torch.tensor([1.0, 2.0])
    torch.library.opcheck(
        torch.ops.invariance.log_partitions.default,
        (x, y, *ids, None, None, scales, 1.0, torch.inf, True, "blockwise", True),
    )
    torch.library.opcheck(
        torch.ops.invariance.row_sums.default,
        (x, y, *ids, "softplus", 0.0, 0.0, "blockwise", True),
    )


def test_rows_of_all_processes(tmp_path):
    u, v = torch.randn(2, 6, 4)
    whole = value_and_gradients(inv.nt_xent, (u, v))
    for rank, part in enumerate(
        on_processes(2, lambda rank: compiled_part(u[rank::2], v[rank::2]), tmp_path)
    ):
        torch.testing.assert_close(part[0], whole[0])
        torch.testing.assert_close(part[1] / 2, whole[1][rank::2])


def compiled_part(u, v):
    """The loss of all rows; nothing in it is unknown to the compiler."""
    with warnings.catch_warnings():
        warnings.filterwarnings("error", ".*Dynamo does not know")
        loss = inv.NTXent(gather=True)
        return value_and_gradients(torch.compile(loss, backend="eager"), (u, v))


@pytest.mark.parametrize("name", ["tiny", "resnet18"])
def test_features_and_a_map_in_one_graph(name):
    torch._dynamo.reset()
    mapped = Mapped(build_encoder(name)).eval()
    images = torch.rand(2, 3, 32, 32)
    compiled = torch.compile(mapped, fullgraph=True, backend="aot_eager")
    for got, want in zip(compiled(images), mapped(images), strict=True):
        torch.testing.assert_close(got, want, rtol=1e-4, atol=1e-5)

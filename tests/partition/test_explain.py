"""``explain`` says what runs: here on a CPU, with fused kernels in tests/fused."""

from functools import partial

import pytest
import torch
from tests.contracts.cases import CASES

import invariance as inv
from invariance.partition import explain, log_partition, row_sums

from .paths import assert_explained, recorded_paths

# not made of pairs of rows
NO_PAIRS = ("barlow_twins", "byol", "sim_siam", "swav", "vicreg")
PAIRED = [case for case in CASES if case.name not in NO_PAIRS]


@pytest.mark.parametrize("case", PAIRED, ids=lambda case: case.id)
@pytest.mark.parametrize("n", [6, 1200])
def test_objectives_run_what_is_explained(case, n):
    inputs = case.inputs(n, 4, dtype=torch.float32)
    assert_explained(case.function(), *inputs)


@pytest.mark.parametrize("backend", ["dense", "blockwise", "auto"])
def test_the_primitive_runs_what_is_explained(backend):
    x, y = torch.randn(40, 3), torch.randn(30, 3)
    for scale in (2.0, torch.tensor(2.0)):
        assert_explained(log_partition, x, y, scale=scale, backend=backend)
    if backend != "dense":
        assert_explained(row_sums, x, y, "softplus", backend=backend)


@pytest.mark.usefixtures("our_errors")
@pytest.mark.parametrize("what", [inv.DCL, "dcl", None])
def test_what_cannot_be_called_on_rows_is_refused_in_words(what):
    with pytest.raises(inv.InvarianceError, match=r"or explain\(inv.DCL\(\), u, v\)"):
        inv.explain(what, *torch.randn(2, 4, 3))


def test_diagnostics_are_explained_too():
    z = torch.nn.functional.normalize(torch.randn(50, 4))
    with recorded_paths() as paths:
        inv.uniformity(z)
    plans = explain(inv.uniformity, z)
    assert [(p.operation, p.backend) for p in plans] == [path[:2] for path in paths]


def test_what_it_says():
    u, v = torch.randn(2, 40, 8)
    (plan,) = explain(inv.dcl, u, v)
    assert (plan.shape, plan.backend, plan.keeps_scores) == (
        (80, 80, 8),
        "blockwise",
        True,
    )
    assert str(plan) == (
        "log_partition of 80 x 80 x 8: blockwise (exact, scores kept): fused kernels "
        "need a CUDA device, and rows are on cpu"
    )
    (plan,) = explain(log_partition, u, v, scale=1.0, backend="dense")
    assert plan.reason == "asked for"


@pytest.mark.parametrize("function", ["softplus", "riesz"])
def test_the_reference_sums_what_it_is_asked_to(function):
    x, y = torch.rand(5, 3).requires_grad_(), torch.rand(4, 3)
    call = partial(row_sums, x, y, function, 1.0, offset=2.0, backend="dense")
    (plan,) = assert_explained(call)
    assert plan.backend == "dense"
    (slope,) = torch.autograd.grad(call().sum(), x, create_graph=True)
    assert torch.autograd.grad(slope.sum(), x)[0].any()


def test_nothing_is_computed_and_nothing_stays():
    x = torch.randn(2_000_000, 2)  # a matrix of 4e12 scores
    (plan,) = explain(log_partition, x, x, scale=1.0)
    assert not plan.keeps_scores
    with pytest.raises(inv.InvarianceError):
        explain(inv.dcl, x[:3], x[:3], temperature=-1.0)
    assert log_partition(torch.eye(2), torch.eye(2), scale=1.0)[0] > 1.3

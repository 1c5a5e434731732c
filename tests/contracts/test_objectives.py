"""The contract every objective of the catalogue passes."""

import pytest
import torch
from torch.autograd import grad, gradcheck

import invariance as inv
from invariance.partition import _plan

from .cases import CASES, Case

every_case = pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
softmax_cases = pytest.mark.parametrize(
    "case", [c for c in CASES if c.softmax], ids=lambda case: case.id
)


def leaves(inputs):
    """The inputs as leaves of a graph, and those of them that are embeddings."""
    inputs = [x.clone().requires_grad_(x.is_floating_point()) for x in inputs]
    return inputs, [x for x in inputs if x.requires_grad]


def value_and_gradients(function, inputs, **more):
    inputs, rows = leaves(inputs)
    value = function(*inputs, **more)
    return value.detach(), grad(value, rows, allow_unused=True)


def assert_same(a, b, **tolerance):
    torch.testing.assert_close(a[0].double(), b[0].double(), **tolerance)
    for x, y in zip(a[1], b[1], strict=True):
        assert (x is None) == (y is None)
        if x is not None:
            torch.testing.assert_close(x.double(), y.double(), **tolerance)


def test_every_objective_of_the_catalogue_has_a_case():
    assert {case.name for case in CASES} == set(inv.OBJECTIVES)


@every_case
@pytest.mark.parametrize(("n", "d"), [(2, 3), (3, 1), (6, 4)])
def test_it_equals_its_slow_twin_in_value_and_gradient(case: Case, n, d):
    inputs = case.inputs(n, d)
    assert_same(
        value_and_gradients(case.function(), inputs),
        value_and_gradients(case.function(twin=True), inputs),
        rtol=1e-9,
        atol=1e-9,
    )


@every_case
def test_the_class_equals_the_function(case: Case):
    inputs = case.inputs(6, 4, dtype=torch.float32)
    module = case.module(4)
    if case.prototypes:
        module.load_state_dict({"prototypes": inputs.pop()})
        expected = case.function()(*inputs, module.prototypes)
    else:
        expected = case.function()(*inputs)
    torch.testing.assert_close(module(*inputs), expected)
    assert expected.ndim == 0


@every_case
def test_the_order_of_samples_changes_nothing(case: Case):
    inputs = case.inputs(7, 4)
    order = torch.randperm(7, generator=torch.Generator().manual_seed(1))
    shuffled = case.permuted(inputs, order)
    torch.testing.assert_close(case.function()(*inputs), case.function()(*shuffled))


@pytest.mark.parametrize(
    "case", [c for c in CASES if not c.stops_gradients], ids=lambda case: case.id
)
def test_gradcheck(case: Case):
    inputs, _ = leaves(case.inputs(4, 3))
    assert gradcheck(case.function(), inputs)


@every_case
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_is_rounded_once_and_computed_in_float32(case: Case, dtype):
    inputs = case.inputs(16, 8, dtype=dtype)
    exact = [x.double() if x.is_floating_point() else x for x in inputs]
    value, gradients = value_and_gradients(case.function(), inputs)
    assert value.dtype == torch.float32
    expected, expected_gradients = value_and_gradients(case.function(), exact)
    torch.testing.assert_close(value.double(), expected, rtol=1e-5, atol=1e-5)
    step = torch.finfo(dtype).eps  # gradients are rounded to the inputs' precision
    for got, want in zip(gradients, expected_gradients, strict=True):
        if want is not None:
            error = (got.double() - want).norm() / want.norm().clamp_min(1e-6)
            assert error < step


@softmax_cases
@pytest.mark.parametrize("temperature", [1.0, 0.3, 0.1, 0.03, 0.01])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_low_temperatures_stay_finite(case: Case, temperature, dtype):
    inputs = case.inputs(9, 5, dtype=dtype)
    value, gradients = value_and_gradients(
        case.function(), inputs, temperature=temperature
    )
    assert value.isfinite()
    assert all(g.isfinite().all() for g in gradients if g is not None)


@every_case
@pytest.mark.parametrize("n", [2, 3, 17, 257])
@pytest.mark.parametrize("d", [1, 3, 128])
def test_the_size_of_a_tile_changes_nothing(case: Case, n, d, monkeypatch):
    inputs = case.inputs(n, d)
    whole = value_and_gradients(case.function(), inputs)
    monkeypatch.setattr(_plan, "CPU_TILE_BYTES", 30_000)
    monkeypatch.setattr(_plan, "CPU_KEPT_BYTES", 0)
    tiled = value_and_gradients(case.function(), inputs)
    assert_same(tiled, whole, rtol=1e-9, atol=1e-9)


@every_case
def test_one_side_may_need_no_gradient(case: Case):
    inputs = case.inputs(5, 4)
    if len(inputs) == 1 or case.labelled:
        return
    _, (du, *_) = value_and_gradients(case.function(), inputs)
    u = inputs[0].clone().requires_grad_()
    (alone,) = grad(case.function()(u, *inputs[1:]), u)
    torch.testing.assert_close(alone, du)


@every_case
def test_inputs_need_not_be_contiguous(case: Case):
    inputs = case.inputs(6, 4)
    strided = [x.mT.contiguous().mT if x.ndim > 1 else x for x in inputs]
    torch.testing.assert_close(case.function()(*strided), case.function()(*inputs))


@every_case
def test_zero_rows_give_no_nan(case: Case):
    inputs = case.inputs(6, 4, dtype=torch.float32)
    inputs[0][..., :2, :] = 0
    value, gradients = value_and_gradients(case.function(), inputs)
    assert value.isfinite()
    assert all(g.isfinite().all() for g in gradients if g is not None)


@every_case
def test_autocast_does_not_lower_its_precision(case: Case):
    inputs = case.inputs(8, 16, dtype=torch.float32)
    outside = value_and_gradients(case.function(), inputs)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        inside = value_and_gradients(case.function(), inputs)
    if case.own_products:  # these follow the caller's autocast
        torch.testing.assert_close(inside[0].float(), outside[0], rtol=0.05, atol=0.05)
    else:
        assert_same(inside, outside)


@every_case
def test_readings_are_finite_floats(case: Case):
    inputs = case.inputs(6, 4, dtype=torch.float32)
    if case.prototypes:
        inputs.pop()
    readings = case.module(4).readings(*inputs)
    assert readings
    assert all(isinstance(value, float) for value in readings.values())
    assert all(torch.tensor(value).isfinite() for value in readings.values())


@every_case
@pytest.mark.usefixtures("our_errors")
def test_bad_rows_are_refused_in_words(case: Case):
    function, inputs = case.function(), case.inputs(6, 4)
    whole = [x.long() for x in inputs]
    with pytest.raises(inv.InvarianceError, match="floating point"):
        function(*whole)
    one = case.permuted(inputs, torch.arange(1))
    with pytest.raises(inv.InvarianceError, match="at least"):
        function(*one)
    none = case.permuted(inputs, torch.arange(0))
    with pytest.raises(inv.InvarianceError, match="at least"):
        function(*none)
    inputs[0][..., 3, 0] = torch.nan
    with pytest.raises(inv.InvarianceError, match="NaN or infinite numbers in"):
        function(*inputs)


@pytest.mark.parametrize("name", ["nt_xent", "debiased"])
@pytest.mark.usefixtures("our_errors")
def test_what_is_no_matrix_is_refused_in_words(name):
    for nothing in (None, torch.tensor(1.0)):
        with pytest.raises(inv.InvarianceError, match=r"tensor|shape \(n, d\)"):
            getattr(inv, name)(nothing, nothing)


@pytest.mark.usefixtures("our_errors")
def test_labels_are_integers():
    for labels in (torch.rand(4), torch.rand(4) > 0.5):
        with pytest.raises(inv.InvarianceError, match="one integer a row"):
            inv.sup_con(torch.randn(4, 3), labels)


@softmax_cases
@pytest.mark.parametrize("temperature", [0.0, -1.0, float("nan"), float("inf")])
def test_bad_temperatures_are_refused(case: Case, temperature):
    with pytest.raises(inv.InvarianceError, match="temperature must be"):
        case.function()(*case.inputs(4, 3), temperature=temperature)
    with pytest.raises(inv.InvarianceError, match="temperature must be"):
        Case(
            case.name,
            case.settings | {"temperature": temperature},
            prototypes=case.prototypes,
        ).module(3)

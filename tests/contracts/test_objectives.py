"""The contract every objective of the catalogue passes."""

import inspect
import re
import warnings
from fractions import Fraction

import numpy as np
import pytest
import torch
from torch.autograd import grad, gradcheck

import invariance as inv
from invariance.diagnostics import mutual_information_bound

# the size of a tile is nobody's setting
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


@every_case
def test_a_value_per_sample_averages_to_the_mean(case: Case):
    inputs = case.inputs(6, 4)
    if not case.per_sample:
        with pytest.raises(inv.InvarianceError, match="one number for the whole batch"):
            case.function()(*inputs, reduction="none")
        return

    def mean(*rows):
        values = case.function()(*rows, reduction="none")
        assert values.shape == (6,)
        return values.mean()

    whole = value_and_gradients(case.function(), inputs)
    assert_same(value_and_gradients(mean, inputs), whole)
    order = torch.tensor([3, 0, 5, 1, 2, 4])  # the values are in the order of samples
    values = case.function()(*inputs, reduction="none")
    shuffled = case.function()(*case.permuted(inputs, order), reduction="none")
    torch.testing.assert_close(shuffled, values[order])
    module_inputs = inputs[:2] if case.prototypes else inputs
    assert case.module(4, reduction="none")(*module_inputs).shape == (6,)


@every_case
def test_an_unknown_reduction_is_refused(case: Case):
    with pytest.raises(inv.InvarianceError, match="Did you mean 'mean'"):
        case.function()(*case.inputs(4, 3), reduction="men")
    with pytest.raises(inv.InvarianceError, match="Did you mean 'mean'"):
        case.module(3, reduction="men")


@every_case
def test_its_terms_add_up_to_the_loss(case: Case):
    inputs = case.inputs(6, 4, dtype=torch.float32)
    module = case.module(4)
    inputs = inputs[:2] if case.prototypes else inputs
    terms = module.terms(*inputs)
    torch.testing.assert_close(terms.total, module(*inputs))
    assert all(part.shape == () for part in terms.parts.values())
    assert set(terms.weights) <= set(terms.parts)
    assert f"total={float(terms.total.detach()):.4g}" in repr(terms)


@every_case
def test_one_process_gathers_itself(case: Case):
    inputs = case.inputs(6, 4)
    assert_same(
        value_and_gradients(case.function(), inputs, gather=True),
        value_and_gradients(case.function(), inputs),
    )


@softmax_cases
def test_a_temperature_that_is_a_tensor_has_the_twin_s_gradient(case: Case):
    inputs = case.inputs(5, 4)
    temperature = torch.tensor(0.4, dtype=torch.float64)

    def of_temperature(function):
        return lambda *rows: function(*rows[:-1], temperature=rows[-1])

    inputs.append(temperature)
    ours = value_and_gradients(of_temperature(case.function()), inputs)
    twin = value_and_gradients(of_temperature(case.function(twin=True)), inputs)
    assert ours[1][-1] is not None
    assert_same(ours, twin, rtol=1e-8, atol=1e-8)
    if not case.stops_gradients:
        only = temperature.clone().requires_grad_()
        assert gradcheck(lambda t: case.function()(*inputs[:-1], temperature=t), only)
    plain = case.function()(*inputs[:-1], temperature=0.4)
    torch.testing.assert_close(ours[0], plain)


@softmax_cases
def test_a_learned_temperature(case: Case):
    inputs = case.inputs(6, 4, dtype=torch.float32)
    inputs = inputs[:2] if case.prototypes else inputs
    start = case.settings.get("temperature") or case.module(4).temperature
    torch.manual_seed(0)
    learned = case.module(4, temperature=inv.LearnedTemperature(start))
    torch.manual_seed(0)
    fixed = case.module(4, temperature=start)
    loss = learned(*inputs)
    torch.testing.assert_close(loss, fixed(*inputs), rtol=1e-4, atol=1e-5)
    loss.backward()
    assert learned.temperature.log_scale.grad.isfinite()
    assert f"temperature=LearnedTemperature({start:.4g}" in repr(learned)
    assert not learned.temperature_may_move
    with torch.no_grad():
        learned.temperature.log_scale += 0.3
    again = case.module(4, temperature="learned")
    again.load_state_dict(learned.state_dict())
    assert torch.equal(again(*inputs), learned(*inputs))
    assert not torch.equal(again(*inputs), loss) or case.name == "flat_nce"


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
@pytest.mark.parametrize("n", [2, 17, 129])
@pytest.mark.parametrize("d", [1, 128])
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
def test_rows_of_any_length_count_by_their_direction(case: Case):
    """Squares beyond float32, from 1.8e19 on, once made every cosine 0."""
    if not case.softmax or case.settings.get("normalize") is False:
        pytest.skip("lengths count")
    inputs = case.inputs(6, 4, dtype=torch.float32)
    value, gradients = value_and_gradients(case.function(), inputs)
    long = [x * 2.0**100 if x.is_floating_point() else x for x in inputs]
    theirs, shrunk = value_and_gradients(case.function(), long)
    torch.testing.assert_close(theirs, value)
    for a, b in zip(shrunk, gradients, strict=True):
        torch.testing.assert_close(a * 2.0**100, b)


@every_case
@pytest.mark.parametrize("length", [1e10, 1e20, 1e30])
@pytest.mark.usefixtures("our_errors")
def test_huge_rows_give_the_right_value_or_are_refused(case: Case, length):
    """Nothing is NaN without a word, and no gradient vanishes."""
    exact = [length * x if x.is_floating_point() else x for x in case.inputs(6, 4)]
    rows = [x.float() if x.is_floating_point() else x for x in exact]
    try:
        value, gradients = value_and_gradients(case.function(), rows)
    except inv.InvarianceError as error:
        assert "beyond what torch.float32 can hold" in str(error)
        return
    expected = value_and_gradients(case.function(), exact)
    scaled = [[length * g for g in gs] for gs in (gradients, expected[1])]
    assert_same((value, scaled[0]), (expected[0], scaled[1]), rtol=1e-3, atol=1e-4)


@pytest.mark.usefixtures("our_errors")
def test_huge_rows_against_a_queue_are_refused():
    queue, ids = inv.Queue(8, width=4), torch.arange(8)
    queue.remember(torch.randn(8, 4), ids)
    huge = 1e38 * torch.ones(8, 4)
    with pytest.raises(inv.InvarianceError, match="InfoNCE of these rows is beyond"):
        inv.InfoNCE(normalize=False).against(huge, huge, queue, ids)


@every_case
def test_torch_func_differentiates_and_batches_it(case: Case):
    inputs = case.inputs(5, 3)
    _, gradients = value_and_gradients(case.function(), inputs)
    floats = [k for k, x in enumerate(inputs) if x.is_floating_point()]
    functional = torch.func.grad(case.function(), argnums=tuple(floats))(*inputs)
    for a, b in zip(functional, gradients, strict=True):
        torch.testing.assert_close(a, torch.zeros_like(a) if b is None else b)
    batches = [case.inputs(5, 3, seed=k) for k in range(3)]
    together = torch.func.vmap(case.function())(
        *map(torch.stack, zip(*batches, strict=True))
    )
    each = torch.stack([case.function()(*batch) for batch in batches])
    torch.testing.assert_close(together, each)


def test_a_first_batch_within_torch_func_is_not_remembered():
    """BinaryNCE's constant is that of its first batch, and nothing may change there."""
    u, v = torch.randn(2, 5, 3, generator=torch.Generator().manual_seed(0))
    objective = inv.BinaryNCE()
    leaf = u.clone().requires_grad_()
    (expected,) = grad(inv.binary_nce(leaf, v), leaf)
    torch.testing.assert_close(torch.func.grad(objective)(u, v), expected)
    alone = torch.func.vmap(objective)(torch.stack([u, v]), torch.stack([v, u]))
    assert alone[0].item() == pytest.approx(inv.binary_nce(u, v).item())
    assert objective.log_z.isnan()
    objective(u, v)
    assert objective.log_z.isfinite()


@pytest.mark.parametrize("name", ["info_nce", "nt_xent", "kcl", "sig_lip"])
def test_a_second_derivative_by_torch_func(name):
    """Of a Hessian's product with a vector, against a difference of gradients."""
    u, v, w = torch.randn(3, 5, 3, generator=torch.Generator().manual_seed(0)).double()
    function = getattr(inv, name)

    def gradient(u):
        return torch.func.grad(function)(u, v)

    _, product = torch.func.jvp(gradient, (u,), (w,))
    step = 1e-5
    difference = (gradient(u + step * w) - gradient(u - step * w)) / (2 * step)
    torch.testing.assert_close(product, difference, rtol=1e-5, atol=1e-6)
    # a gradient penalty: the outer derivative by autograd
    leaf = u.clone().requires_grad_()
    (penalty,) = grad(gradient(leaf).square().sum(), leaf)
    (back,) = torch.func.vjp(gradient, u)[1](2 * gradient(u))
    torch.testing.assert_close(penalty, back)
    with pytest.raises(inv.InvarianceError, match=r"torch\.func\.grad"):
        (once,) = grad(function(leaf, v), leaf, create_graph=True)
        grad(once.sum(), leaf)


@every_case
def test_autocast_does_not_lower_its_precision(case: Case):
    inputs = case.inputs(8, 16, dtype=torch.float32)
    function = case.function()

    def within_autocast(*given):  # the gradient is taken outside, as in a loop
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return function(*given)

    outside = value_and_gradients(function, inputs)
    assert_same(value_and_gradients(within_autocast, inputs), outside)
    if not case.own_products:  # whose backward pass would follow autocast
        with torch.autocast("cpu", dtype=torch.bfloat16):
            assert_same(value_and_gradients(function, inputs), outside)


@every_case
def test_readings_are_finite_floats(case: Case):
    inputs = case.inputs(6, 4, dtype=torch.float32)
    if case.prototypes:
        inputs.pop()
    module = case.module(4)
    readings = module.readings(*inputs)
    assert readings
    assert ("loss" in readings) is not module.value_is_constant
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


@every_case
@pytest.mark.parametrize("wrong", [None, [[1.0, 2.0]], np.ones((4, 3))])
@pytest.mark.usefixtures("our_errors")
def test_what_is_no_tensor_is_refused_in_words(case: Case, wrong):
    inputs = case.inputs(4, 3)
    for k in range(len(inputs)):
        changed = [wrong if i == k else x for i, x in enumerate(inputs)]
        with pytest.raises(inv.InvarianceError, match="must be a torch tensor, not"):
            case.function()(*changed)


@pytest.mark.usefixtures("our_errors")
def test_other_widths_are_called_so():
    u = torch.randn(8, 4)
    for name in ("info_nce", "kcl", "vicreg", "byol", "sig_lip"):
        with pytest.raises(inv.InvarianceError, match=r"one width: got .8, 4. and .8,"):
            getattr(inv, name)(u, torch.randn(8, 5))
    with pytest.raises(inv.InvarianceError, match="target_u needs the shape of u"):
        inv.byol(u, u, torch.randn(8, 5), u)


@pytest.mark.parametrize("name", ["info_nce", "dcl", "multi_view", "sup_con"])
@pytest.mark.usefixtures("our_errors")
def test_against_says_what_it_needs(name):
    objective, u = inv.OBJECTIVES[name](), torch.randn(4, 3)
    queue, ids = inv.Queue(8, 3), torch.arange(4)
    queue.remember(u, ids)
    rows = torch.stack([u, u]) if name == "multi_view" else u
    with pytest.raises(inv.InvarianceError, match="must be a torch tensor, not None"):
        objective.against(rows, u, queue, None)
    with pytest.raises(inv.InvarianceError, match="must be a torch tensor, not None"):
        objective.against(None, u, queue, ids)
    with pytest.raises(inv.InvarianceError, match=r"such as inv\.Queue"):
        objective.against(rows, u, None, ids)


@every_case
@pytest.mark.parametrize(
    "number",
    [
        np.float32(0.25),
        np.float64(0.25),
        np.array(0.25),
        Fraction(1, 4),
        np.float16(0.25),
    ],
)
def test_any_kind_of_number_will_do(case: Case, number):
    """As each setting that is a number, in the function and in the class."""
    inputs = case.inputs(4, 3)
    taken = inspect.signature(getattr(inv, case.name)).parameters.values()
    floats = [p.name for p in taken if isinstance(p.default, float)]
    for name in floats:
        plain = case.function()(*inputs, **{name: 0.25})
        torch.testing.assert_close(case.function()(*inputs, **{name: number}), plain)
        setting = getattr(case.module(3, **{name: number}), name)
        assert float(setting) == 0.25 and type(setting) is not type(number)


@pytest.mark.usefixtures("our_errors")
def test_whole_numbers_of_numpy_will_do():
    count = np.int64(4)
    assert len(inv.Queue(count, count).z) == len(inv.Bank(count, width=count)) == 4
    assert inv.Ball(inv.Bank(16, width=4), k=count).k == 4
    assert inv.InfoNCE(temperature=count).temperature == 4
    with pytest.raises(inv.InvarianceError, match="must be a number"):
        inv.InfoNCE(temperature=np.bool_(True))


def test_it_prints_what_is_learned():
    assert repr(inv.SigLIP()) == "SigLIP(scale=10, bias=-10, normalize=True)"
    assert "scale=10 (learned), bias=-10 (learned)" in repr(inv.SigLIP(learnable=True))
    learned = torch.nn.Parameter(torch.tensor(0.2))
    assert "temperature=0.2 (learned)" in repr(inv.InfoNCE(temperature=learned))
    assert "temperature=0.2," in repr(inv.InfoNCE(temperature=learned.detach()))


def test_labels_that_are_all_different_teach_nothing():
    z, queue = torch.randn(4, 3), inv.Queue(8, 3)
    queue.remember(z, torch.arange(10, 14))
    with pytest.warns(UserWarning, match="No two of the 4 labels are equal"):
        assert inv.sup_con(z, torch.arange(4)) == 0
    with pytest.warns(UserWarning, match="No two of the 4 labels are equal"):
        inv.SupCon().against(z, None, queue, torch.arange(4))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        inv.sup_con(z, torch.tensor([0, 0, 1, 2]))


@pytest.mark.usefixtures("our_errors")
def test_labels_are_integers():
    for labels in (torch.rand(4), torch.rand(4) > 0.5):
        with pytest.raises(inv.InvarianceError, match="one integer per row"):
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


@every_case
def test_it_says_what_it_takes(case: Case):
    module = case.module(4)
    kind = "views" if case.stack else "labels" if case.labelled else "pair"
    if case.name in ("byol", "sim_siam"):
        kind = "targets"
    assert module.takes == kind
    signature = inspect.signature(type(module))
    declared = inspect.signature(getattr(inv, case.name)).parameters
    names = {p.name for p in declared.values() if p.kind is p.KEYWORD_ONLY}
    assert names - {"log_z"} <= set(signature.parameters)
    assert set(module.settings) == names - {"log_z"}


@pytest.mark.parametrize("name", inv.OBJECTIVES)
def test_its_help_explains_the_settings_that_all_share(name):
    kind = inv.OBJECTIVES[name]
    for thing in (kind, kind.function):
        text, settings = inspect.getdoc(thing), inspect.signature(thing).parameters
        for setting in ("temperature", "normalize", "gather", "reduction"):
            entry = rf"^    {setting}( \(.+\))?: "
            n_entries = len(re.findall(entry, text, re.MULTILINE))
            assert n_entries == (setting in settings), setting
        assert all(
            word in text for word in ("True: ", "False: ", '"ring": ', '"equal": ')
        )


@every_case
def test_its_chance_is_the_loss_of_equal_rows(case: Case):
    """Which is all that chance can mean: nothing tells the samples apart."""
    module = case.module(4)
    inputs = case.inputs(6, 4, dtype=torch.float32)
    inputs = inputs[:2] if case.prototypes else inputs
    n_views = len(inputs[0]) if case.stack else 1 if case.labelled else 2
    chance = module.chance(6, n_views)
    if chance is None:
        return
    equal = [torch.ones_like(x) if x.is_floating_point() else x for x in inputs]
    if case.prototypes:
        module.load_state_dict({"prototypes": torch.ones_like(module.prototypes)})
    if "log_z" in case.settings:
        module.log_z.fill_(float("nan"))
    if case.labelled:
        equal = [equal[0], torch.zeros(6, dtype=torch.long)]
    assert module(*equal).item() == pytest.approx(chance, rel=1e-4)


def test_a_learned_temperature_stays_above_its_minimum_and_comes_back():
    objective = inv.NTXent(temperature=inv.LearnedTemperature(0.05, minimum=0.04))
    u, v = torch.randn(2, 8, 4, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        objective.temperature.log_scale += 5.0
    assert float(objective.temperature) == pytest.approx(0.04)
    torch.testing.assert_close(objective(u, v), inv.nt_xent(u, v, temperature=0.04))
    objective(u, v).backward()
    assert objective.temperature.log_scale.grad != 0
    with torch.no_grad():
        objective.temperature.log_scale -= 0.5
    assert float(objective.temperature) > 0.05
    with pytest.raises(inv.InvarianceError, match="starts at its minimum"):
        inv.LearnedTemperature(0.05, minimum=0.1)
    with pytest.raises(inv.InvarianceError, match="use the class"):
        inv.nt_xent(u, v, temperature="learned")


def test_readings_equal_diagnostics():
    u, v = torch.randn(2, 20, 8, generator=torch.Generator().manual_seed(0))
    for objective in (inv.InfoNCE(0.2), inv.DCL(0.2), inv.FlatNCE(0.2)):
        readings = objective.readings(u, v)
        bound = mutual_information_bound(u, v, temperature=0.2)
        assert readings["mi_nats"] == bound.nats
        assert readings["mi_ceiling"] == bound.ceiling
        assert readings["mi_reachable"] == bound.reachable
        how = {"temperature": 0.2, "negatives": objective.negatives}
        ess = inv.effective_sample_size(u, v, **how)
        assert readings["ess"] == ess


@every_case
def test_a_misspelled_setting_is_answered_with_the_nearest(case: Case):
    with pytest.raises(TypeError, match=r"unexpected .* Did you mean 'reduction'"):
        case.function()(*case.inputs(4, 3), reductoin="none")
    with pytest.raises(TypeError, match="Did you mean 'reduction'"):
        case.module(3, reductoin="none")

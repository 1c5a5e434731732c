"""Predictive coding: its loss, its gradient, its choices, and what it refuses."""

import math

import pytest
import torch
from tests import reference
from tests.processes import on_processes
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import invariance as inv
from invariance.encoders import Encoder, Predictive, Unrolled, build_encoder
from invariance.errors import SettingError, ShapeError
from invariance.methods import Method, build, customize, options_of
from invariance.negatives import IN_TIME

METHOD = {
    "samples_and_times": "cpc",
    "other_samples": "cpc_samples",
    "other_times": "cpc_times",
}


def make(
    negatives="samples_and_times", *, length=20, steps=2, context="gru", **options
):
    torch.manual_seed(0)
    network = Predictive(
        channels=2, strides=(2, 2), latent=3, width=4, context=context
    ).double()
    encoder = Encoder(network, input_shape=(2, length), name="small")
    return build(METHOD[negatives], encoder, steps=steps, **options).double()


def make_windows(n=4, length=20):
    generator = torch.Generator().manual_seed(1)
    return torch.randn(n, 2, length, generator=generator, dtype=torch.float64)


def make_twin(learner, windows, **settings):
    """The slow twin's loss of the learner's own codes, contexts and critics."""
    codes, contexts = Unrolled(learner.encoder).split(windows)
    weight, bias = learner.head[0].weight, learner.head[0].bias
    matrices = weight.view(learner.steps, 3, 4)
    # a bias is a context of 1 more
    matrices = torch.cat([matrices, bias.view(learner.steps, 3, 1)], 2)
    contexts = torch.cat([contexts, torch.ones_like(contexts[..., :1])], 2)
    return reference.predictive_coding(codes, contexts, matrices, **settings)


@pytest.mark.parametrize("negatives", IN_TIME)
@pytest.mark.parametrize("normalize", [False, True])
def test_loss_and_gradient_are_the_slow_twins(negatives, normalize):
    learner = make(negatives, normalize=normalize, temperature=0.5)
    windows = make_windows(3)
    loss = learner([windows]).loss
    settings = {"temperature": 0.5, "normalize": normalize, "negatives": negatives}
    expected = make_twin(learner, windows, **settings)
    torch.testing.assert_close(loss, expected, rtol=1e-10, atol=1e-10)
    weights = [*learner.parameters()]
    ours, theirs = (torch.autograd.grad(x, weights) for x in (loss, expected))
    for a, b in zip(ours, theirs, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("negatives", IN_TIME)
def test_gradients_of_the_log_partitions(negatives):
    u, v = torch.randn(2, 3, 4, 2, dtype=torch.float64, requires_grad=True)
    sums = IN_TIME[negatives].sums
    assert torch.autograd.gradcheck(lambda u, v: sums(u, v, [0.7, 1.4], None), (u, v))
    counts = sums(u, v, [0.0], None).exp()
    expected = torch.full_like(counts, IN_TIME[negatives].count(3, 4))
    torch.testing.assert_close(counts, expected)


@pytest.mark.parametrize("negatives", IN_TIME)
def test_where_nothing_tells_codes_apart_the_loss_is_chance(negatives):
    learner, windows = make(negatives), make_windows()
    with torch.no_grad():
        for p in learner.head.parameters():
            p.zero_()
    n_candidates = {"other_samples": 4, "other_times": 3, "samples_and_times": 12}
    chance = math.log(n_candidates[negatives])
    step = learner([windows]).with_ess().with_information()
    assert step.loss.item() == pytest.approx(chance) == learner.chance(4)
    assert step.readings["mi_ceiling"].item() == pytest.approx(chance)
    assert step.readings["mi_nats"].item() == pytest.approx(0, abs=1e-9)
    assert step.readings["ess"].item() == pytest.approx(1)
    for name in ("accuracy", "accuracy_chance"):
        assert step.readings[name].item() == pytest.approx(math.exp(-chance))


def test_accuracy_is_that_of_predictions_among_all_their_candidates():
    learner, windows = make(steps=1), make_windows()
    step = learner([windows]).with_information()
    rows = Unrolled(learner.encoder)(windows)
    ((guesses, codes),) = learner.predict(rows)
    scores = guesses.flatten(0, 1) @ codes.flatten(0, 1).T
    found = (scores.argmax(1) == torch.arange(len(scores))).double().mean()
    assert step.readings["accuracy"].item() == pytest.approx(found.item(), abs=1e-6)
    assert step.readings["accuracy_chance"].item() == pytest.approx(1 / len(scores))


def test_parts_are_the_steps_and_their_mean_is_the_loss():
    learner = make(steps=3)
    step = learner([make_windows()])
    assert [*step.parts] == ["step_1", "step_2", "step_3"]
    torch.testing.assert_close(torch.stack([*step.parts.values()]).mean(), step.loss)
    assert step.u.shape == step.v.shape == (4, learner.head.width)
    assert not step.u.requires_grad


def test_it_is_told_the_future_only_by_its_own_past():
    """A context sees no value of later patches, nor a code one of other patches."""
    for context in ("gru", "conv"):
        encoder = make(context=context).encoder
        windows = make_windows(1)
        later = windows.clone()
        later[..., 12:] += 1.0  # the fourth and fifth of five patches
        before, after = (Unrolled(encoder).split(x) for x in (windows, later))
        for a, b in zip(before, after, strict=True):
            assert torch.equal(a[:, :3], b[:, :3])
            assert not torch.isclose(a[:, 3:], b[:, 3:]).all(-1).any()
        one = windows.clone()
        one[..., 4:8] += 1.0  # a code is of its own patch
        assert torch.equal(Unrolled(encoder).split(one)[0][:, 2:], before[0][:, 2:])


def test_windows_that_are_no_whole_number_of_patches_keep_their_end():
    encoder = make(length=22).encoder
    windows = make_windows(length=22)
    shifted = windows.clone()
    shifted[..., :2] = 9.0
    assert torch.equal(encoder(windows), encoder(shifted))
    assert not torch.equal(encoder(windows), encoder(windows + windows.sign()))


@pytest.mark.parametrize("objective", ["dcl", "flat_nce", "debiased", "nt_xent"])
def test_any_softmax_over_negatives_will_do(objective):
    settings = {"temperature": 0.5}
    method = customize("cpc", objective=objective, settings=settings)
    learner = build(method, make().encoder.float(), steps=2)
    step = learner([make_windows().float()])
    step.loss.backward()
    assert all(p.grad.isfinite().all() for p in learner.parameters())


def test_pieces_of_a_batch_give_the_gradient_of_the_whole():
    windows, gradients = make_windows(6), []
    for micro_batch in (None, 4):
        learner = make()
        learner.micro_batch = micro_batch
        learner([windows]).loss.backward()
        gradients.append([p.grad for p in learner.parameters()])
    for whole, pieces in zip(*gradients, strict=True):
        torch.testing.assert_close(whole, pieces, rtol=1e-10, atol=1e-12)


def step_of(negatives, rows):
    """Loss, readings and averaged gradients of some of seven windows."""
    learner = make(negatives, temperature="learned")
    module = learner
    if torch.distributed.is_initialized():
        module = DistributedDataParallel(learner)
    step = module([make_windows(7)[rows]])
    step.loss.backward()
    step = step.with_ess().with_information().gathered()
    named = learner.named_parameters()
    gradients = {k: p.grad for k, p in named if p.grad is not None}
    numbers = {"loss": step.loss.detach(), **step.parts, **step.readings}
    return {**numbers, **gradients, "u": step.u, "v": step.v}


@pytest.mark.parametrize("shares", [(4, 3), (2, 1, 4, 0)], ids=str)
def test_processes_say_what_one_says_of_the_whole_batch(shares, tmp_path, our_errors):
    ends = [sum(shares[: k + 1]) for k in range(len(shares))]
    rows = [slice(end - n, end) for end, n in zip(ends, shares, strict=True)]
    answers = on_processes(
        len(shares),
        lambda rank: {name: step_of(name, rows[rank]) for name in IN_TIME},
        tmp_path,
    )
    for name in IN_TIME:
        expected = step_of(name, slice(0, 7))
        for answer in answers:
            assert answer[name].keys() == expected.keys()
            for key, value in expected.items():
                torch.testing.assert_close(
                    answer[name][key], value, rtol=1e-9, atol=1e-10, msg=f"{name} {key}"
                )


def test_its_state_comes_back():
    learner, twin, windows = make(), make(steps=2), make_windows()
    with torch.no_grad():
        for p in learner.parameters():
            p.add_(0.1)
    twin.load_state_dict(learner.state_dict())
    assert torch.equal(learner([windows]).loss, twin([windows]).loss)


def test_options():
    options = options_of("cpc")
    assert options["steps"].default == 6 and "symmetric" not in options
    assert make(steps=1, temperature=0.3).objective.temperature == 0.3


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda: make(length=8, steps=2), "windows of 3 patches or more.*makes 2"),
        (lambda: make(steps=0), "steps"),
        (
            lambda: build("cpc", build_encoder("tiny")),
            "code for every patch of time, and tiny has none: use cpc_small",
        ),
        (
            lambda: build(customize("cpc", negatives="batch"), make().encoder),
            "negatives in time",
        ),
        (
            lambda: build(customize("simclr", negatives="other_times"), nn.Flatten()),
            "negatives in time",
        ),
        (
            lambda: build(
                customize("cpc", objective="vicreg", settings={}), make().encoder
            ),
            "vicreg is not a softmax over negatives",
        ),
        (
            lambda: build(customize("cpc", head="none"), make().encoder, steps=2),
            "bilinear",
        ),
        (lambda: make("other_samples")([make_windows(1)]), "there are none among 1"),
        (lambda: Predictive(strides=(4, 0)), "1 or more"),
        (lambda: Predictive(summary="middle"), "Unknown summary"),
        (lambda: Predictive(context="lstm"), "Unknown context"),
        (lambda: Predictive()(torch.zeros(1, 1, 7)), "at least the 8 values"),
    ],
)
def test_what_is_refused(call, message):
    with pytest.raises((SettingError, ShapeError), match=message):
        call()


def test_it_is_a_method_of_ones_own_too():
    method = Method(
        objective="dcl", negatives="other_times", positives="future", head="mlp2"
    )
    learner = build(method, make().encoder.float(), steps=2)
    assert isinstance(learner.objective, inv.DCL)
    learner([make_windows().float()]).loss.backward()

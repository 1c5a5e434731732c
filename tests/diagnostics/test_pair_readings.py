"""Readings of two views: closed forms, and slow loops in float64."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests import reference

from invariance.diagnostics import (
    alignment,
    contrastive_accuracy,
    diagnosis,
    effective_sample_size,
    mutual_information_bound,
    reachable_information,
    split_info_nce,
)
from invariance.objectives import info_nce

shapes = {"n": st.integers(2, 9), "d": st.integers(1, 6), "seed": st.integers(0, 99)}
few = settings(max_examples=20, deadline=None)


def views(n, d, seed=0, noise=0.5):
    g = torch.Generator().manual_seed(seed)
    u = torch.randn(n, d, generator=g, dtype=torch.float64)
    return u, u + noise * torch.randn(n, d, generator=g, dtype=torch.float64)


def unit(z):
    return [[x / math.hypot(*row) for x in row] for row in z.tolist()]


def dot(a, b):
    return math.fsum(x * y for x, y in zip(a, b, strict=True))


def slow_alignment(u, v, alpha):
    pairs = zip(unit(u), unit(v), strict=True)
    return sum(math.dist(a, b) ** alpha for a, b in pairs) / len(u)


def slow_ess(u, v, temperature, negatives):
    total = 0.0
    for a, b in ((unit(u), unit(v)), (unit(v), unit(u))):
        for i in range(len(a)):
            others = [b[j] for j in range(len(b)) if j != i]
            if negatives == "all":
                others += [a[j] for j in range(len(a)) if j != i]
            w = [math.exp(dot(a[i], c) / temperature) for c in others]
            w = [x / sum(w) for x in w]
            total += 1 / (len(w) * sum(x * x for x in w))
    return total / (2 * len(u))


def slow_accuracy(u, v):
    a, b = unit(u), unit(v)
    hits = 0
    for i in range(len(a)):
        scores = [dot(a[i], c) for c in b]
        hits += all(scores[i] > s for j, s in enumerate(scores) if j != i)
    return hits / len(a)


def slow_bound(u, v, temperature):
    a, b, total = unit(u), unit(v), 0.0
    for i in range(len(a)):
        e = [math.exp(dot(a[i], c) / temperature) for c in b]
        total += math.log(e[i] / (sum(e) / len(e)))
    return total / len(a)


@few
@given(**shapes, alpha=st.sampled_from([1, 2, 3.5]))
def test_alignment_is_the_loop(n, d, seed, alpha):
    u, v = views(n, d, seed)
    assert alignment(u, v, alpha) == pytest.approx(slow_alignment(u, v, alpha))


def test_alignment_closed_forms():
    u = torch.eye(3)
    assert alignment(u, 5 * u) == 0
    assert alignment(u, -u) == pytest.approx(4)
    assert alignment(u, u.roll(1, 0)) == pytest.approx(2)
    assert alignment(u, -u, alpha=1) == pytest.approx(2)


@few
@given(**shapes, tau=st.floats(0.05, 5), negatives=st.sampled_from(["cross", "all"]))
def test_effective_sample_size_is_the_loop(n, d, seed, tau, negatives):
    u, v = views(n, d, seed)
    got = effective_sample_size(u, v, temperature=tau, negatives=negatives)
    assert got == pytest.approx(slow_ess(u, v, tau, negatives), rel=1e-6)


@pytest.mark.parametrize("negatives", ["cross", "all"])
@pytest.mark.parametrize("tau", [1e-3, 0.01, 1, 1e4])
def test_effective_sample_size_stays_in_its_range(negatives, tau):
    u, v = (z.float() for z in views(32, 8))
    m = 31 * (1 + (negatives == "all"))
    got = effective_sample_size(u, v, temperature=tau, negatives=negatives)
    assert 1 / m <= got <= 1


def test_effective_sample_size_closed_forms():
    same = torch.ones(6, 4)
    got = effective_sample_size(same, same, temperature=0.05)
    assert got == pytest.approx(1, abs=1e-5)  # float32 at logits of 20
    # one negative at cosine 1, the others at 0, at a low temperature: one of n - 1
    u, v = torch.eye(6), torch.eye(6).roll(1, 0)
    got = effective_sample_size(u, v, temperature=0.01)
    assert got == pytest.approx(1 / 5)


def test_effective_sample_size_falls_with_the_temperature():
    u, v = views(64, 16)
    sizes = [effective_sample_size(u, v, temperature=t) for t in (2, 1, 0.5, 0.1, 0.05)]
    assert sizes == sorted(sizes, reverse=True)


@few
@given(**shapes)
def test_contrastive_accuracy_is_the_loop(n, d, seed):
    u, v = views(n, d + 1, seed)  # in one dimension all cosines tie
    assert contrastive_accuracy(u, v) == pytest.approx(slow_accuracy(u, v))


def test_contrastive_accuracy_does_not_depend_on_the_chunks(monkeypatch):
    u, v = views(50, 6, noise=1.0)
    whole = contrastive_accuracy(u, v)
    # the size of a chunk is no setting
    size = "invariance.checked_rows.CHUNK_ELEMENTS"
    monkeypatch.setattr(size, 7 * 50)
    assert contrastive_accuracy(u, v) == whole
    monkeypatch.setattr(size, 1)
    assert contrastive_accuracy(u, v) == whole


def test_an_accuracy_just_above_chance_is_not_rounded_to_nothing():
    u = torch.randn(400, 8, generator=torch.Generator().manual_seed(0))
    v = u.roll(1, 0)
    v[:2] = u[:2]  # two rows of 400 find their own
    meaning = diagnosis(torch.stack([u, v]))["contrastive accuracy", "h"].meaning
    assert meaning.startswith(f"{100 * contrastive_accuracy(u, v):.2f} % of")
    assert not meaning.startswith("0.00")


def test_contrastive_accuracy_of_ties_is_chance():
    z = torch.ones(10, 3)
    assert contrastive_accuracy(z, z) == pytest.approx(0.1)
    # two copies of each row: the point is shared by two
    z = torch.eye(4).repeat(2, 1)
    assert contrastive_accuracy(z, z) == pytest.approx(0.5)


@few
@given(**shapes, tau=st.floats(0.05, 5))
def test_mutual_information_bound_is_the_loop(n, d, seed, tau):
    u, v = views(n, d, seed)
    got = mutual_information_bound(u, v, temperature=tau)
    assert got.nats == pytest.approx(slow_bound(u, v, tau), rel=1e-6, abs=1e-9)
    assert got.nats <= got.reachable + 1e-9 <= got.ceiling + 1e-9
    assert got.ceiling == math.log(n)


@few
@given(**shapes, tau=st.floats(0.05, 5))
def test_info_nce_is_split_exactly(n, d, seed, tau):
    u, v = views(n, d, seed)
    parts = split_info_nce(u, v, temperature=tau)
    pull, spread = reference.split_info_nce(u, v, temperature=tau)
    assert parts.alignment == pytest.approx(pull, rel=1e-6, abs=1e-9)
    assert parts.uniformity == pytest.approx(spread, rel=1e-6, abs=1e-9)
    loss = info_nce(u, v, temperature=tau).item()
    assert parts.loss == pytest.approx(loss, rel=1e-6, abs=1e-6)
    # the first part is the alignment by another name
    assert parts.alignment == pytest.approx((alignment(u, v) / 2 - 1) / tau, abs=1e-9)


def test_rows_that_agree_and_cover_the_sphere_reach_the_ideal():
    z = torch.randn(3000, 6, generator=torch.Generator().manual_seed(0))
    parts = split_info_nce(z, z, temperature=0.5)
    assert parts.alignment == pytest.approx(-2)
    assert parts.uniformity == pytest.approx(parts.even_uniformity, abs=0.01)
    near = split_info_nce(z + 2, z + 2, temperature=0.5)
    assert near.uniformity > parts.uniformity + 0.5


def test_mutual_information_bound_may_take_rows_as_they_are():
    u, v = views(12, 4)
    long = mutual_information_bound(2 * u, 2 * v, temperature=1.0, normalize=False)
    scores = (4 * u @ v.T).tolist()
    loss = [math.log(sum(map(math.exp, row))) - row[i] for i, row in enumerate(scores)]
    assert long.nats == pytest.approx(math.log(12) - sum(loss) / 12)


def test_mutual_information_bound_knows_its_ceiling():
    z = torch.eye(16)
    full = mutual_information_bound(z, z, temperature=0.01)
    assert full.saturated
    assert full.nats == pytest.approx(math.log(16))
    assert "more rows" in str(full)


@pytest.mark.parametrize("n", [2, 3, 20, 128])
@pytest.mark.parametrize("tau", [0.05, 0.2, 0.3, 0.5, 2.0])
def test_a_regular_simplex_reads_all_that_a_temperature_allows(n, tau):
    z = torch.eye(n).double() - 1 / n
    best = mutual_information_bound(z, z, temperature=tau)
    assert best.nats == pytest.approx(best.reachable, abs=1e-9)
    assert best.reachable == pytest.approx(reachable_information(n, tau))
    assert best.saturated


@few
@given(**shapes, tau=st.floats(0.05, 5))
def test_no_step_uphill_passes_what_a_temperature_allows(n, d, seed, tau):
    """Climbing towards the largest bound, from any rows and in any dimension."""
    u, v = (z.clone().requires_grad_() for z in views(n, d, seed))
    climber = torch.optim.Adam([u, v], lr=0.3)
    for _ in range(30):
        loss = info_nce(u, v, temperature=tau, symmetric=False)
        climber.zero_grad()
        loss.backward()
        climber.step()
        assert math.log(n) - loss.item() <= reachable_information(n, tau) + 1e-9


def test_the_bound_says_what_its_temperature_allows():
    g = torch.Generator().manual_seed(0)
    z = torch.randn(128, 64, generator=g)
    bound = mutual_information_bound(z, z + z.roll(1, 0), temperature=0.5)
    assert "of at most 1.97 at temperature 0.5; log 128 is 4.85" in str(bound)
    simplex = torch.eye(128) - 1 / 128
    full = mutual_information_bound(simplex, simplex, temperature=0.5)
    assert "lower the temperature" in str(full)


def test_only_rows_held_out_certify():
    z = torch.eye(16)
    for temperature in (0.01, 0.5):
        how = {"temperature": temperature}
        trained = mutual_information_bound(z, z, held_out=False, **how)
        assert "certify nothing" in str(trained) and "at least" not in str(trained)
        assert "at least" in str(mutual_information_bound(z, z, **how))


def test_long_rows_are_read_by_their_direction():
    u, v = (z.float() for z in views(12, 4))
    bound = mutual_information_bound(u, v, temperature=0.2)
    long = mutual_information_bound(u * 2.0**100, v * 2.0**90, temperature=0.2)
    assert long.nats == pytest.approx(bound.nats) and bound.nats > 0.1
    assert alignment(u * 2.0**100, v) == pytest.approx(alignment(u, v))


def test_rows_taken_as_they_are_can_reach_log_n():
    u, v = views(12, 4)
    bound = mutual_information_bound(u, v, temperature=2.0, normalize=False)
    assert bound.reachable == bound.ceiling


def test_mutual_information_bound_of_collapsed_views_is_zero():
    z = torch.ones(16, 4)
    none = mutual_information_bound(z, z, temperature=0.1)
    assert none.nats == pytest.approx(0, abs=1e-6)
    assert not none.saturated


def test_mutual_information_bound_of_mistaken_views_is_negative():
    z = torch.eye(16)
    wrong = mutual_information_bound(z, z.roll(1, 0), temperature=0.1)
    assert wrong.nats < 0
    assert wrong.sentence.startswith("No shared information is certified")


def test_mutual_information_bound_below_the_truth():
    # the first axis is a fair sign that both views show: I = log 2
    g = torch.Generator().manual_seed(0)
    sign = 2.0 * torch.randint(2, (512, 1), generator=g) - 1
    got = mutual_information_bound(sign, sign, temperature=0.1)
    assert got.nats == pytest.approx(math.log(2), abs=0.02)
    assert not got.saturated
    limit = "of at most 6.22 at temperature 0.1; log 512 is 6.24"
    assert str(got) == f"The views share at least 0.69 nats ({limit})."


@pytest.mark.parametrize(
    "reading",
    [
        alignment,
        contrastive_accuracy,
        lambda u, v: effective_sample_size(u, v, temperature=0.2),
        lambda u, v: mutual_information_bound(u, v, temperature=0.2).nats,
    ],
)
def test_half_precision_reads_as_its_float32_values(reading):
    u, v = (z.bfloat16() for z in views(24, 8))
    assert reading(u, v) == reading(u.float(), v.float())
    needs_grad = u.float().requires_grad_()
    assert isinstance(reading(needs_grad, v), float)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert reading(u, v) == pytest.approx(reading(u.float(), v.float()), rel=1e-5)

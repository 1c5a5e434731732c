"""Estimates of Z: equal to their twins, unbiased, and as steady as they say."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests import reference
from torch import Tensor
from torch.nn.functional import normalize

from invariance.negatives import (
    control_variate_partition,
    importance_partition,
    monte_carlo_partition,
    stratified_partition,
)

SCALE, M, D, K = 2.0, 40, 3, 12
N_DRAWS = 20_000


def rows(*shape, seed):
    generator = torch.Generator().manual_seed(seed)
    return normalize(
        torch.randn(*shape, generator=generator, dtype=torch.float64), dim=-1
    )


U, Z = rows(1, D, seed=0), rows(M, D, seed=1)  # p is uniform over the rows of Z
S = SCALE * U @ Z.T
EXACT = S.exp().mean().item()


def drawn(weights, seed=2):
    """Many lots of K rows, with the given probabilities."""
    generator = torch.Generator().manual_seed(seed)
    return torch.multinomial(
        weights.expand(N_DRAWS, M), K, replacement=True, generator=generator
    )


def plain() -> Tensor:
    return monte_carlo_partition(S[0][drawn(torch.ones(M))]).exp()


def importance(q) -> Tensor:
    lots = drawn(q)
    ratio = (1 / M / (q / q.sum())).log()
    return importance_partition(S[0][lots], ratio[lots]).exp()


def by_strata(proportional=True) -> tuple[Tensor, Tensor]:
    """Rows ordered by score in four strata of ten; three draws from each."""
    order = S[0].argsort()
    generator = torch.Generator().manual_seed(3)
    counts = [3, 3, 3, 3] if proportional else [1, 2, 3, 6]
    within = [
        order[10 * h : 10 * (h + 1)][
            torch.randint(10, (N_DRAWS, n), generator=generator)
        ]
        for h, n in enumerate(counts)
    ]
    stratum = torch.arange(4).repeat_interleave(torch.tensor(counts))
    return torch.cat(within, 1), stratum


def stratified(proportional=True) -> Tensor:
    lots, stratum = by_strata(proportional)
    quarter = torch.full((4,), 0.25, dtype=torch.float64)
    return stratified_partition(S[0][lots], stratum, quarter).exp()


def best_coefficient() -> float:
    h = 1 + S[0] + S[0] ** 2 / 2
    both = torch.stack([S[0].exp(), h])
    return (both.cov()[0, 1] / both.cov()[1, 1]).item()


def control_variate(coefficient, n=2000) -> Tensor:
    lots = drawn(torch.ones(M))[:n]
    moments = {"mean": Z.mean(0), "second_moment": Z.T @ Z / M}
    return torch.cat(
        [
            control_variate_partition(
                U, Z[lot], scale=SCALE, coefficient=coefficient, **moments
            )
            for lot in lots
        ]
    ).exp()


ESTIMATES = {
    "monte_carlo": plain,
    "importance, easy": lambda: importance((-0.5 * S[0]).exp()),
    "importance, hard": lambda: importance((0.5 * S[0]).exp()),
    "stratified": stratified,
    "stratified, not proportional": lambda: stratified(proportional=False),
    "control variate, c = 1": lambda: control_variate(1.0),
    "control variate, c = -0.5": lambda: control_variate(-0.5),
    "control variate, best": lambda: control_variate(best_coefficient()),
}


@pytest.mark.parametrize("name", ESTIMATES)
def test_it_is_unbiased(name):
    estimates = ESTIMATES[name]()
    error = estimates.std() / math.sqrt(len(estimates))
    assert error > 1e-6  # there is something to average
    assert abs(estimates.mean().item() - EXACT) < 4 * error


def test_the_logarithm_is_low():
    estimates = plain().log()
    error = estimates.std() / math.sqrt(N_DRAWS)
    assert estimates.mean().item() < math.log(EXACT) - 4 * error.item()


def test_the_best_proposal_has_no_variance():
    estimates = importance(S[0].exp())
    torch.testing.assert_close(estimates, torch.full_like(estimates, EXACT))


def test_which_is_steadier():
    spread = {name: make().std().item() for name, make in ESTIMATES.items()}
    assert spread["importance, hard"] < spread["monte_carlo"]
    assert spread["monte_carlo"] < spread["importance, easy"]
    assert spread["stratified"] < 0.7 * spread["monte_carlo"]
    best = spread["control variate, best"]
    assert best < 0.5 * spread["monte_carlo"]
    assert best < min(spread["control variate, c = 1"], spread["monte_carlo"])
    assert spread["control variate, c = -0.5"] > spread["monte_carlo"]


def test_a_coefficient_of_the_same_draws_is_nearly_the_best():
    chosen, best = control_variate(None), control_variate(best_coefficient())
    assert chosen.std() < 2 * best.std()
    assert abs(chosen.mean().item() - EXACT) < 0.05 * EXACT


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10_000), n=st.integers(1, 4), k=st.integers(2, 9))
def test_they_equal_their_twins(seed, n, k):
    u, z = rows(n, D, seed=seed), rows(k, D, seed=seed + 1)
    s = SCALE * u @ z.T
    generator = torch.Generator().manual_seed(seed)
    p, q = torch.rand(2, n, k, generator=generator, dtype=torch.float64) + 0.1
    stratum = torch.arange(k) % 2
    share = torch.tensor([0.3, 0.7], dtype=torch.float64)
    mean, root = rows(2, D, seed=seed + 2)[0] / 2, rows(D, D, seed=seed + 3)
    second = root @ root.T
    moments = {"scale": SCALE, "mean": mean, "second_moment": second}
    first = SCALE * u @ mean
    square = SCALE**2 * ((u @ second) * u).sum(1)
    found = [
        monte_carlo_partition(s),
        importance_partition(s, (p / q).log()),
        stratified_partition(s, stratum, share),
        control_variate_partition(u, z, **moments),
        control_variate_partition(u, z, coefficient=0.4, **moments),
    ]
    for i in range(n):
        row = s[i].tolist()
        expected = [
            reference.monte_carlo(row),
            reference.importance(row, p[i].tolist(), q[i].tolist()),
            reference.stratified(row, stratum.tolist(), share.tolist()),
            reference.control_variate(row, first[i].item(), square[i].item()),
            reference.control_variate(row, first[i].item(), square[i].item(), 0.4),
        ]
        for log_z, z_hat in zip(found, expected, strict=True):
            if z_hat > 0:
                assert log_z[i].item() == pytest.approx(math.log(z_hat), abs=1e-6)
            else:  # a negative estimate is raised to the smallest number there is
                assert log_z[i] < -600

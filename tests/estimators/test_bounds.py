"""Bounds as pure functions: their slow twins, their gradients, their closed forms."""

import math

import pytest
import torch
from tests.reference import information as slow

from invariance import estimators as est
from invariance.errors import SettingError

TWINS = {
    "info_nce": {},
    "leave_one_out": {},
    "nwj": {},
    "donsker_varadhan": {},
    "jensen_shannon": {},
    "binary_nce": {"noise": 3},
    "smile": {"clip": 0.7},
    "hard_negatives": {"fraction": 0.4},
}
WITH_HELPER = {"tuba": {}, "interpolated": {"alpha": 0.3}, "flo": {}}


@pytest.fixture
def matrix():
    return 2 * torch.randn(6, 6, generator=torch.Generator().manual_seed(3)).double()


@pytest.fixture
def helper():
    return torch.randn(6, generator=torch.Generator().manual_seed(4)).double()


@pytest.mark.parametrize("name", TWINS)
def test_values_and_gradients_equal_the_twin(name, matrix):
    settings = TWINS[name]
    g = matrix.requires_grad_()
    ours = getattr(est, name)(g, **settings)
    theirs = getattr(slow, name)(g, **settings)
    torch.testing.assert_close(ours, theirs)
    for a, b in zip(
        torch.autograd.grad(ours, g), torch.autograd.grad(theirs, g), strict=True
    ):
        torch.testing.assert_close(a, b)


@pytest.mark.parametrize("name", WITH_HELPER)
def test_values_and_gradients_with_a_helper_equal_the_twin(name, matrix, helper):
    settings = WITH_HELPER[name]
    inputs = matrix.requires_grad_(), helper.requires_grad_()
    ours = getattr(est, name)(*inputs, **settings)
    theirs = getattr(slow, name)(*inputs, **settings)
    torch.testing.assert_close(ours, theirs)
    for a, b in zip(
        torch.autograd.grad(ours, inputs),
        torch.autograd.grad(theirs, inputs),
        strict=True,
    ):
        torch.testing.assert_close(a, b)


@pytest.mark.parametrize("name", [*TWINS, *WITH_HELPER])
def test_stacked_matrices_give_stacked_values(name, matrix, helper):
    rest = (helper,) if name in WITH_HELPER else ()
    stacked = torch.stack([matrix, matrix.T, 0 * matrix])
    function = getattr(est, name)
    together = function(stacked, *(r.expand(3, -1) for r in rest))
    alone = torch.stack([function(m, *rest) for m in stacked])
    torch.testing.assert_close(together, alone)


@pytest.mark.parametrize("name", est.BOUNDS)
def test_large_scores_stay_finite(name):
    g = torch.full((5, 5), -400.0).fill_diagonal_(60.0).requires_grad_()
    bound = est.BOUNDS[name]
    helper = torch.full((5,), -60.0) if bound.helper == "dual" else torch.zeros(5)
    loss = bound.loss(g, helper, {})
    loss.backward()
    assert torch.isfinite(loss) and torch.isfinite(g.grad).all()
    assert torch.isfinite(bound.value(g.detach(), helper))


@pytest.mark.parametrize("name", est.BOUNDS)
def test_a_critic_that_knows_nothing_shows_nothing(name):
    bound = est.BOUNDS[name]
    value = bound.value(torch.zeros(8, 8), torch.zeros(8))
    assert value.item() == pytest.approx(0.0, abs=1e-6)


@pytest.mark.parametrize("name", [n for n, b in est.BOUNDS.items() if b.ceiling])
def test_no_critic_passes_the_ceiling(name):
    bound, n = est.BOUNDS[name], 9
    g = torch.full((n, n), -50.0).fill_diagonal_(50.0)
    helper = torch.zeros(n)
    top = bound.ceiling(n)
    assert bound.value(g, helper).item() <= top + 1e-5
    assert bound.value(g, helper).item() > top - 0.01
    for seed in range(20):
        wild = 30 * torch.randn(n, n, generator=torch.Generator().manual_seed(seed))
        assert bound.value(wild, helper).item() <= top + 1e-4


# ------------------------------------------------------- gradients named in papers


def gradient(loss, g):
    (grad,) = torch.autograd.grad(loss, g)
    return grad


def test_flat_nce_has_the_gradient_of_leave_one_out(matrix):
    g = matrix.requires_grad_()
    flat = est.flat_nce_loss(g)
    assert flat.item() == pytest.approx(1.0)
    torch.testing.assert_close(gradient(flat, g), gradient(-est.leave_one_out(g), g))


def test_fdv_shows_info_nce_and_moves_like_flat_nce(matrix):
    g = matrix.requires_grad_()
    fdv = est.fdv_loss(g)
    assert fdv.item() == pytest.approx(-est.info_nce(g).item())
    torch.testing.assert_close(gradient(fdv, g), gradient(est.flat_nce_loss(g), g))


def test_flo_with_its_best_dual_is_leave_one_out(matrix):
    best = torch.stack(
        [
            slow.log_mean_exp([s - matrix[i, i] for s in slow.strangers(matrix, i)])
            for i in range(6)
        ]
    )
    torch.testing.assert_close(est.flo(matrix, best), est.leave_one_out(matrix))


def test_interpolation_ends_at_tuba_and_at_info_nce_over_one_fewer(matrix, helper):
    torch.testing.assert_close(
        est.interpolated(matrix, helper, alpha=0), est.tuba(matrix, helper)
    )
    n, fewer = 6, []
    for drop in range(n):  # InfoNCE of every row with one stranger left out
        for i in range(n):
            if i != drop:
                row = [matrix[i, k] for k in range(n) if k != drop]
                fewer.append(matrix[i, i] - slow.log_mean_exp(row))
    torch.testing.assert_close(
        est.interpolated(matrix, helper, alpha=1), slow.mean(fewer)
    )


def test_mine_divides_by_the_moving_average(matrix):
    g = matrix.requires_grad_()
    loss, first = est.mine_loss(g, None)
    # the first batch is its own average: Donsker and Varadhan's gradient
    torch.testing.assert_close(gradient(loss, g), gradient(-est.donsker_varadhan(g), g))
    old = torch.tensor(2.0).double()
    loss, new = est.mine_loss(g, old, rate=0.25)
    expected = math.log(0.75 * math.exp(2.0) + 0.25 * first.exp().item())
    assert new.item() == pytest.approx(expected)
    eye = torch.eye(6, dtype=torch.bool)
    weight = (g.detach() - new).exp() / 30
    wanted = torch.where(eye, -torch.ones_like(weight) / 6, weight)
    torch.testing.assert_close(gradient(loss, g), wanted)
    assert not new.requires_grad


def test_mine_forgets_one_huge_batch_at_once():
    """Else strangers weigh nothing for as long as the average is full of it."""
    calm = torch.zeros(4, 4, dtype=torch.float64)
    _, full = est.mine_loss(calm + 50, None)
    _, average = est.mine_loss(calm, full)
    assert average.item() == pytest.approx(1.0)


# ------------------------------------------------------------------------- VINCE


def test_vince_equals_its_twin_and_the_paper_constant_is_vacuous(matrix):
    positive, negatives = matrix[:, 0], matrix[:, 1:4]
    ratio = 0.3 * matrix[:, 3:]
    for r in (None, ratio):
        torch.testing.assert_close(
            est.vince(positive, negatives, r), slow.vince(positive, negatives, r)
        )
    plain = est.vince(positive, negatives)
    paper = est.vince(positive, negatives, paper_constant=True)
    assert paper.item() == pytest.approx(plain.item() - 3)
    assert paper.item() <= 0


def test_weighting_by_acceptance_gives_info_nce_back_in_expectation():
    """Negatives accepted with probability r, weighted by Z_r / r: an exact change."""
    dice = torch.Generator().manual_seed(0)
    n, k = 200_000, 2
    y = torch.randn(n, 40, generator=dice).double()
    anchor = torch.randn(n, 1, generator=dice).double()
    accept = 0.3 + 0.7 * torch.sigmoid(2 * anchor * y)  # likes what scores high
    taken = torch.rand(n, 40, generator=dice).double() < accept
    first = taken.double().cumsum(1)
    pick = torch.stack([(first >= j + 1).double().argmax(1) for j in range(k)], 1)
    assert (first[:, -1] >= k).all()
    negatives = (anchor * y).gather(1, pick)
    # Z_r(anchor) = 0.3 + 0.7 E sigmoid(2 a Y) = 0.65 for symmetric Y
    ratio = est.acceptance_log_ratio(
        accept.gather(1, pick).log(), torch.full((n,), math.log(0.65)).double()
    )
    positive = 1.5 * anchor[:, 0].abs()
    weighted = est.vince(positive, negatives, ratio)
    iid = est.vince(positive, (anchor * y)[:, -k:])
    unweighted = est.vince(positive, negatives)
    assert weighted.item() == pytest.approx(iid.item(), abs=0.01)
    assert unweighted.item() < iid.item() - 0.05  # hard negatives: below
    about = est.vince(positive, negatives, ratio, self_normalize=True)
    assert about.item() == pytest.approx(iid.item(), abs=0.01)


def test_negatives_that_could_not_be_accepted_have_no_weight():
    with pytest.raises(SettingError, match="unweighted form"):
        est.acceptance_log_ratio(torch.tensor([[0.0, -math.inf]]), torch.tensor([0.0]))
    with pytest.raises(SettingError, match="at most 1"):
        est.hard_negatives(torch.zeros(3, 3), fraction=2)

"""One family: the named objectives at its settings, and what a psi must be."""

import math

import pytest
import torch

import invariance as inv
from invariance.errors import SettingError
from invariance.objectives import find_problem

TAU = 0.4
MEMBERS = {
    "info_nce": (inv.InfoNCE, {"psi": "log1p", "within_weight": 0.0}),
    "nt_xent": (inv.NTXent, {"psi": "log1p"}),
    "dcl": (inv.DCL, {"psi": "log"}),
    "dhel": (inv.DHEL, {"psi": "log", "cross_weight": 0.0}),
}


def views(n=7, d=5, seed=0):
    g = torch.Generator().manual_seed(seed)
    u = torch.randn(n, d, generator=g, dtype=torch.float64, requires_grad=True)
    return u, torch.randn(n, d, generator=g, dtype=torch.float64)


@pytest.mark.parametrize("name", MEMBERS)
def test_the_members_are_the_objectives_we_know(name):
    kind, settings = MEMBERS[name]
    (u, v), member = views(), kind(temperature=TAU)
    family = inv.Unified(temperature=TAU, **settings)
    ours, theirs = family(u, v), member(u, v)
    torch.testing.assert_close(ours, theirs)
    torch.testing.assert_close(
        *(torch.autograd.grad(loss, u)[0] for loss in (ours, theirs))
    )
    assert family.negatives == (member.negatives or "all")
    if (chance := member.chance(6)) is not None:
        assert family.chance(6) == pytest.approx(chance)
    queue = inv.Queue(9, 5).double()
    queue.remember(views(9, 5, seed=1)[1], torch.arange(20, 29))
    ids = torch.arange(7)
    torch.testing.assert_close(
        *(objective.against(u, v, queue, ids) for objective in (family, member))
    )


def test_a_function_does_what_its_name_does():
    u, v = views()
    for name, function in {"log1p": torch.log1p, "log": torch.log}.items():
        torch.testing.assert_close(
            inv.unified(u, v, psi=function), inv.unified(u, v, psi=name)
        )


@pytest.mark.parametrize(
    ("psi", "problem"),
    [
        (torch.log, ""),
        (torch.log1p, ""),
        (torch.sqrt, ""),
        (lambda x: x**2, ""),
        (torch.zeros_like, ""),
        (lambda x: -x, "psi falls, from x = 3.1e-07"),
        (torch.sin, "psi falls, from x = 1.6"),
        (lambda x: x / (1 + x), "psi(e^y) is not convex in y = log x near x = 3:"),
        (lambda x: 1 / (x - x), "psi(3.1e-07) is not finite."),
        (lambda x: x.sum(), "psi must give one number for each"),
    ],
)
def test_what_a_psi_must_be_is_said_in_words(psi, problem):
    assert find_problem(psi)[: len(problem)] == problem
    assert bool(problem) == bool(find_problem(psi))


def test_a_psi_that_promises_nothing_is_refused_unless_asked_for():
    u, v = views()

    def bounded(x):
        return x / (1 + x)

    with pytest.raises(SettingError, match=r"not convex.*set any_psi=True"):
        inv.unified(u, v, psi=bounded)
    with pytest.raises(SettingError, match="not convex"):
        inv.Unified(psi=bounded)
    assert 0 < inv.Unified(psi=bounded, any_psi=True)(u, v) < 1
    with pytest.raises(SettingError, match="Unknown psi 'log2'"):
        inv.Unified(psi="log2")
    with pytest.raises(SettingError, match="log, identity, sqrt or a function of x"):
        inv.Unified(psi=3)
    with pytest.raises(SettingError, match="both 0, so there are no negatives"):
        inv.Unified(cross_weight=0, within_weight=0)


@pytest.mark.parametrize("psi", ["log1p", "log", "identity", "sqrt"])
def test_the_simplex_is_the_optimum_of_every_member(psi):
    """n = d + 1 rows, both views alike, at cosine -1/(n - 1): no gradient is left."""
    n = 5
    simplex = torch.eye(n, dtype=torch.float64) - 1 / n
    u, v = (simplex.clone().requires_grad_() for _ in range(2))
    loss = inv.unified(u, v, psi=psi, cross_weight=0.7)
    loss.backward()
    assert u.grad.abs().max() < 1e-12
    noisy = simplex + 0.2 * torch.randn(n, n, dtype=torch.float64)
    assert inv.unified(noisy, noisy, psi=psi, cross_weight=0.7) > loss


def test_flo_is_tight_where_its_dual_fits_and_dcl_has_its_gradient_there():
    u = torch.eye(4, dtype=torch.float64)
    # strangers 0, partners 1: the contrast is -2, and so is the dual 0 - 1 s
    assert inv.flo(u, u, temperature=0.5).item() == pytest.approx(-2)
    assert inv.flo(u, u, temperature=0.5, bias=1.0).item() == pytest.approx(
        -1 + math.exp(-1) - 1
    )
    fitted = u.clone().requires_grad_()
    inv.flo(fitted, u, temperature=0.5).backward()
    plain = u.clone().requires_grad_()
    inv.dcl(plain, u, temperature=0.5, negatives="cross").backward()
    torch.testing.assert_close(fitted.grad, plain.grad)


def test_a_learned_dual_finds_the_contrast():
    g = torch.Generator().manual_seed(0)
    u = torch.randn(256, 8, generator=g)
    v = u + 0.5 * torch.randn(256, 8, generator=g)
    objective = inv.FLO(bias=2.0, learnable=True)
    before = objective(u, v).item()
    optimizer = torch.optim.Adam(objective.parameters(), lr=0.05)
    for _ in range(200):
        optimizer.zero_grad()
        loss = objective(u, v)
        loss.backward()
        optimizer.step()
    # no dual does better than the contrast itself, whose value is DCL's less a constant
    best = inv.dcl(u, v, temperature=0.5, negatives="cross") - math.log(255)
    assert best <= loss.detach() < min(before, float(best) + 0.05)
    assert set(objective.readings(u, v)) >= {"slope", "bias", "loss"}
    assert "(learned)" in repr(objective)

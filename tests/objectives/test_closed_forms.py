"""Values that can be worked out on paper, and settings that are refused."""

import math

import pytest
import torch

import invariance as inv

SAME = torch.ones(4, 8)
BASIS = torch.eye(4)


def test_identical_embeddings_cost_chance():
    assert inv.info_nce(SAME, SAME).item() == pytest.approx(math.log(4))
    assert inv.nt_xent(SAME, SAME).item() == pytest.approx(math.log(7))
    labels = torch.tensor([0, 0, 1, 1])
    assert inv.sup_con(SAME, labels).item() == pytest.approx(math.log(3))


def test_sup_con_keeps_float64():
    """Identical rows at temperature 1 / 7, in classes of 4: log 7 to the last digit."""
    labels = torch.tensor([0, 0, 0, 0, 1, 1, 1, 1])
    z = torch.eye(8, dtype=torch.float64)[[0] * 8]
    loss = inv.sup_con(z, labels, temperature=1 / 7).item()
    assert loss == pytest.approx(math.log(7), abs=1e-12)


@pytest.mark.parametrize("gap", [15.0, 20.5, 25.0, 36.0])
def test_a_large_loss_keeps_float64(gap):
    """Each partner is the other sample's row: log(1 + e^gap), and its slope."""
    u = torch.eye(2, dtype=torch.float64)
    v, even = u.flip(0), math.log(2)  # the cost of a score of 0
    scale = torch.tensor(gap, dtype=torch.float64, requires_grad=True)
    losses = {
        inv.info_nce(u, v, temperature=1 / scale): 0,
        inv.binary_nce(u, v, temperature=1 / scale, log_z=0.0): even,
        inv.jsd(u, v, temperature=1 / scale): even,
        inv.sig_lip(u, v, scale=scale, bias=0.0): even,
    }
    for loss, more in losses.items():
        rest = loss.item() - gap - more
        assert rest == pytest.approx(math.log1p(math.exp(-gap)), abs=1e-13)
    (slope,) = torch.autograd.grad(next(iter(losses)), scale)
    assert slope.item() == pytest.approx(1 / (1 + math.exp(-gap)), abs=1e-14)


def test_orthogonal_embeddings():
    assert inv.info_nce(BASIS, BASIS, temperature=0.5).item() == pytest.approx(
        math.log(1 + 3 * math.exp(-2))
    )
    assert inv.dcl(BASIS, BASIS, temperature=0.5).item() == pytest.approx(
        math.log(6) - 2
    )
    assert inv.dhel(BASIS, BASIS, temperature=0.5, views="sum").item() == pytest.approx(
        2 * math.log(3) - 2
    )


def test_two_samples():
    u, v = torch.tensor([[1.0], [-1.0]]), torch.tensor([[1.0], [-1.0]])
    assert inv.info_nce(u, v, temperature=1.0).item() == pytest.approx(
        math.log1p(math.exp(-2))
    )
    assert inv.kcl(u, v, gamma=1.0, t=0.5).item() == pytest.approx(
        -2 + 2 * math.exp(-2)
    )


def test_the_simplex_is_dhels_optimum():
    """n = d + 1 points at cosine -1/(n - 1): the gradient vanishes."""
    n = 5
    simplex = torch.eye(n, dtype=torch.float64) - 1 / n
    u, v = (simplex.clone().requires_grad_() for _ in range(2))
    inv.dhel(u, v).backward()
    assert u.grad.abs().max() < 1e-12


def test_a_constant_feature_costs_barlow_one():
    u = torch.zeros(6, 3)
    assert inv.barlow_twins(u, u).item() == pytest.approx(3)


def test_a_collapsed_batch_pays_vicregs_variance():
    u = torch.ones(6, 3)
    assert inv.vicreg(u, u).item() == pytest.approx(25 * (1 - 0.01))


def test_the_flat_loss_is_one_and_its_readings_are_not():
    u, v = torch.randn(8, 4), torch.randn(8, 4)
    objective = inv.FlatNCE()
    assert objective(u, v).item() == 1.0
    readings = objective.readings(u, v)
    assert "loss" not in readings
    assert readings["info_nce"] == pytest.approx(
        inv.info_nce(u, v, symmetric=False).item(), rel=1e-5
    )


def test_sinkhorn_balances_the_prototypes():
    from invariance.objectives import sinkhorn

    shares = sinkhorn(torch.randn(12, 4), 50)
    torch.testing.assert_close(shares.sum(1), torch.ones(12))
    torch.testing.assert_close(shares.sum(0), torch.full((4,), 3.0))


def test_a_learnable_sig_lip_moves_its_scale_and_bias():
    objective = inv.SigLIP(learnable=True)
    objective(torch.randn(4, 3), torch.randn(4, 3)).backward()
    assert objective.log_scale.grad.abs() > 0
    assert objective.bias.grad.abs() > 0
    assert not any(p.requires_grad for p in inv.SigLIP().parameters())


def test_printing_an_objective_shows_its_settings():
    assert "temperature=0.2" in repr(inv.DCL(0.2))


@pytest.mark.usefixtures("our_errors")
@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: inv.info_nce(torch.randn(4, 3), torch.randn(5, 3)), r"\(4, 3\) and"),
        (lambda: inv.info_nce(torch.randn(4), torch.randn(4)), "the shape"),
        (lambda: inv.kcl(SAME, SAME, kernel="gausian"), "Did you mean 'gaussian'"),
        (lambda: inv.kcl(SAME, SAME, s=0.0), "must not be 0"),
        (lambda: inv.dcl(SAME, SAME, negatives="al"), "Did you mean 'all'"),
        (lambda: inv.dcl(SAME, SAME, weight_sigma=-1.0), "weight_sigma must be"),
        (lambda: inv.dhel(SAME, SAME, views="men"), "Did you mean 'mean'"),
        (lambda: inv.flat_nce(SAME, SAME, gamma=0.0), "gamma must not be 0"),
        (lambda: inv.debiased(SAME, SAME, prior=1.0), "below 1"),
        (lambda: inv.debiased(SAME, SAME, hardness=-1.0), "0 or more"),
        (lambda: inv.multi_view(SAME), "views, n, d"),
        (lambda: inv.multi_view(SAME[None]), "at least 2 views"),
        (
            lambda: inv.multi_view(torch.ones(2, 1, 8)),
            r"at least 2 samples: got \(2, 1, 8\).*drop_last=True",
        ),
        (
            lambda: inv.multi_view(torch.stack([SAME, SAME]), aggregate="polly"),
            "Did you mean 'poly'",
        ),
        (lambda: inv.sup_con(SAME, torch.arange(3)), r"expected \(4,\), got \(3,\)"),
        (lambda: inv.sig_lip(SAME, SAME, scale=-1.0), "scale must be"),
        (lambda: inv.swav(SAME, SAME, torch.ones(3, 5)), "width 8"),
        (
            lambda: inv.swav(SAME, SAME, torch.ones(1, 8)),
            r"prototypes need at least 2 rows.*got \(1, 8\)",
        ),
        (lambda: inv.SwAV(8, 1), "at least 2 prototypes"),
        (lambda: inv.InfoNCE("0.1"), "must be a number"),
        (lambda: inv.InfoNCE("leanred"), 'number, or the word "learned": got \'lean'),
        (lambda: inv.InfoNCE(symmetric="false"), "symmetric must be True or False"),
        (lambda: inv.dcl(SAME, SAME, normalize="no"), "True or False: got 'no'"),
    ],
)
def test_what_is_refused(call, message):
    with pytest.raises(inv.InvarianceError, match=message):
        call()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: inv.DCL(temprature=0.1), "DCL: .*'temprature'. Did you mean 'temper"),
        (lambda: inv.DCL(tau=0.1), "'tau'. It takes temperature, negatives, weight"),
        (lambda: inv.SwAV(), "SwAV: missing .*'width'. It takes width, n_prototypes"),
    ],
)
def test_arguments_that_a_class_does_not_have(make, message):
    with pytest.raises(TypeError, match=message):
        make()


def test_nan_is_named_with_the_number_of_rows():
    u, v = torch.randn(6, 3), torch.randn(6, 3)
    v[1, 0] = v[4, 2] = torch.nan
    with pytest.raises(inv.InvarianceError, match=r"v has NaN .* in 2 of 6 rows"):
        inv.nt_xent(u, v)

"""The properties that tie the family together (and catch a wrong member)."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.autograd import grad
from torch.nn.functional import normalize

import invariance as inv


def views(n=8, d=5, seed=0, noise=1.0):
    generator = torch.Generator().manual_seed(seed)
    draw = {"generator": generator, "dtype": torch.float64}
    centre = torch.randn(n, d, **draw)
    u, v = (centre + noise * torch.randn(n, d, **draw) for _ in range(2))
    return u.requires_grad_(), v.requires_grad_()


def gradient(objective, **settings):
    u, v = views()
    return torch.cat(grad(objective(u, v, **settings), (u, v)))


@pytest.mark.parametrize("negatives", ["all", "cross"])
@pytest.mark.parametrize("temperature", [1.0, 0.1, 0.02])
def test_the_gradient_of_flat_nce_is_that_of_dcl(negatives, temperature):
    more = {"negatives": negatives, "temperature": temperature}
    torch.testing.assert_close(
        gradient(inv.flat_nce, **more), gradient(inv.dcl, **more)
    )


@pytest.mark.parametrize("temperature", [1.0, 0.1, 0.02])
def test_with_the_positive_kept_it_is_that_of_info_nce(temperature):
    torch.testing.assert_close(
        gradient(
            inv.flat_nce,
            negatives="cross",
            keep_positive=True,
            temperature=temperature,
        ),
        gradient(inv.info_nce, temperature=temperature),
    )
    torch.testing.assert_close(
        gradient(inv.flat_nce, keep_positive=True, temperature=temperature),
        gradient(inv.nt_xent, temperature=temperature),
    )


def test_holder_is_flat_nce_at_another_scale():
    gamma = 3.0
    torch.testing.assert_close(
        gradient(inv.flat_nce, gamma=gamma, temperature=0.3),
        gradient(inv.flat_nce, temperature=0.3 / gamma) / gamma,
    )


def test_an_anchors_dcl_gradient_is_its_info_nce_gradient_over_one_minus_p():
    u, v = views(n=6)
    temperature, anchor = 0.5, 2
    logits = normalize(u, dim=1) @ normalize(v, dim=1).T / temperature
    info_nce = logits[anchor].logsumexp(0) - logits[anchor, anchor]
    others = torch.arange(6) != anchor
    dcl = logits[anchor][others].logsumexp(0) - logits[anchor, anchor]
    p = (-info_nce).exp().detach()
    (with_positive,) = grad(info_nce, u, retain_graph=True)
    (without,) = grad(dcl, u, retain_graph=True)
    torch.testing.assert_close(with_positive / (1 - p), without)
    # and the batch is the mean of such anchors
    rows = [
        torch.softmax(logits, 1).diagonal().detach(),
        torch.softmax(logits, 0).diagonal().detach(),
    ]
    per_anchor = [
        torch.stack([logits[i].logsumexp(0) - logits[i, i] for i in range(6)]),
        torch.stack([logits[:, i].logsumexp(0) - logits[i, i] for i in range(6)]),
    ]
    weighted = sum(
        (loss / (1 - share)).mean()
        for loss, share in zip(per_anchor, rows, strict=True)
    )
    torch.testing.assert_close(
        grad(weighted / 2, u)[0],
        grad(inv.dcl(u, v, temperature=temperature, negatives="cross"), u)[0],
    )


def test_kcl_does_not_move_with_the_batch():
    """Its expectation over batches is the same for any n; InfoNCE's is not."""
    generator = torch.Generator().manual_seed(0)
    means, errors = [], []
    for n, batches in ((4, 1000), (16, 250), (64, 60)):
        values = []
        for _ in range(batches):
            centre = torch.randn(n, 3, generator=generator)
            u, v = (centre + torch.randn(n, 3, generator=generator) for _ in range(2))
            values.append(inv.kcl(u, v, gamma=2.0))
        values = torch.stack(values)
        means.append(values.mean())
        errors.append(values.std() / math.sqrt(batches))
    for k in range(2):
        assert abs(means[k] - means[2]) < 4 * math.hypot(errors[k], errors[2])


@settings(max_examples=40, deadline=None)
@given(
    n=st.integers(2, 30),
    temperature=st.floats(0.01, 5),
    noise=st.floats(0, 3),
    seed=st.integers(0, 10**6),
)
def test_no_critic_takes_info_nce_past_log_n(n, temperature, noise, seed):
    u, v = views(n, 4, seed, noise)
    loss = inv.info_nce(u, v, temperature=temperature, symmetric=False)
    assert loss >= 0  # so log n - loss <= log n
    readings = inv.InfoNCE(temperature).readings(u, v)
    assert readings["mi_nats"] <= readings["mi_reachable"] + 1e-12
    assert readings["mi_reachable"] <= readings["mi_ceiling"]
    assert readings["mi_ceiling"] == pytest.approx(math.log(n))


@settings(max_examples=40, deadline=None)
@given(n=st.integers(2, 30), temperature=st.floats(0.02, 5), seed=st.integers(0, 10**6))
def test_ess_lies_between_one_negative_and_all(n, temperature, seed):
    u, v = views(n, 4, seed)
    ess = inv.FlatNCE(temperature).readings(u, v)["ess"]
    assert 1 / (2 * n - 2) - 1e-9 <= ess <= 1 + 1e-9


def test_two_views_are_the_two_view_losses():
    u, v = views()
    z = torch.stack([u, v])
    torch.testing.assert_close(
        inv.multi_view(z, aggregate="poly", temperature=0.2),
        inv.nt_xent(u, v, temperature=0.2),
    )
    torch.testing.assert_close(
        inv.multi_view(z, aggregate="mv_dhel", temperature=0.2),
        inv.dhel(u, v, temperature=0.2, views="sum"),
    )
    torch.testing.assert_close(
        inv.multi_view(z, temperature=0.2), inv.info_nce(u, v, temperature=0.2)
    )


def test_the_released_dhel_spreads_twice_as_hard():
    u, v = views()
    positive = (normalize(u, dim=1) * normalize(v, dim=1)).sum(1).mean() / 0.3
    torch.testing.assert_close(
        inv.dhel(u, v, views="sum"), 2 * inv.dhel(u, v, views="mean") + positive
    )


def test_sup_con_with_every_sample_its_own_class_is_nt_xent():
    u, v = views()
    torch.testing.assert_close(
        inv.sup_con(torch.cat([u, v]), torch.arange(8).repeat(2), temperature=0.5),
        inv.nt_xent(u, v, temperature=0.5),
    )


def test_a_learned_temperature_gets_its_gradient():
    u, v = views()
    log_scale = torch.tensor(1.0, dtype=torch.float64, requires_grad=True)
    for objective in (inv.info_nce, inv.nt_xent, inv.dcl, inv.dhel):
        assert torch.autograd.gradcheck(
            lambda p, objective=objective: objective(
                u.detach(), v.detach(), temperature=torch.exp(-p)
            ),
            log_scale,
        )

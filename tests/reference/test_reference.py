"""The twins against closed forms, library formulas and one another."""

import math
from functools import partial
from itertools import combinations

import pytest
import torch
from torch.nn import functional as F

from . import (
    align_uniform,
    alignment,
    barlow_twins,
    binary_nce,
    byol,
    dcl,
    debiased,
    dhel,
    effective_rank,
    effective_sample_size,
    flat_nce,
    info_nce,
    kcl,
    log_partition,
    multi_view,
    nt_xent,
    sig_lip,
    sim_siam,
    sup_con,
    swav,
    tolerance,
    uniformity,
    vicreg,
    wasserstein_to_uniform,
)

close = partial(torch.testing.assert_close, rtol=1e-10, atol=1e-12)


def near(value):
    return pytest.approx(value, rel=1e-10, abs=1e-12)


def draw(*shape, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, dtype=torch.float64, generator=generator)


def gradients(objective, *inputs, **settings):
    leaves = [x.clone().requires_grad_() for x in inputs]
    return torch.autograd.grad(objective(*leaves, **settings), leaves)


N, D, TAU = 5, 3, 0.2
U, V = draw(N, D, seed=1), draw(N, D, seed=2)
SAME = torch.ones(N, D, dtype=torch.float64)
AXES = torch.eye(N, dtype=torch.float64)
LABELS = torch.tensor([0, 1, 0, 2, 0])

IDENTICAL = {
    "info_nce": (info_nce, math.log(N)),
    "nt_xent": (nt_xent, math.log(2 * N - 1)),
    "dcl": (dcl, math.log(2 * N - 2)),
    "dcl_cross": (partial(dcl, negatives="cross"), math.log(N - 1)),
    "dcl_weighted": (partial(dcl, weight_sigma=0.5), math.log(2 * N - 2)),
    "dhel": (dhel, math.log(N - 1)),
    "dhel_first": (partial(dhel, views="first"), math.log(N - 1)),
    "dhel_sum": (partial(dhel, views="sum"), 2 * math.log(N - 1) + 1 / 0.3),
    "flat_nce": (flat_nce, 1.0),
    "kcl": (kcl, -2 + 2 * 16),
    "kcl_log": (partial(kcl, kernel="log"), 0.0),
    "kcl_imq": (partial(kcl, kernel="imq"), -2 + 2 * 16),
    "kcl_riesz": (partial(kcl, kernel="riesz"), (2 - 2 * 16) * 1e-6),
    "kcl_gaussian_riesz": (partial(kcl, kernel="gaussian_riesz"), -2 - 32e-6),
    "debiased": (debiased, math.log(2 * N - 1)),
    "debiased_hard": (partial(debiased, hardness=1.0), math.log(2 * N - 1)),
    "sig_lip": (sig_lip, N * math.log(2)),
    "binary_nce": (binary_nce, math.log(N) + (N - 1) * math.log(N / (N - 1))),
    "align_uniform": (align_uniform, 0.0),
    "byol": (byol, 0.0),
    "sim_siam": (sim_siam, -1.0),
    "barlow_twins": (barlow_twins, D),
    "vicreg": (vicreg, 25 * 0.99),
    "alignment": (alignment, 0.0),
    "uniformity": (lambda u, v: uniformity(u), 0.0),
    "effective_sample_size": (partial(effective_sample_size, temperature=TAU), 1.0),
}


@pytest.mark.parametrize("name", IDENTICAL)
def test_identical_rows(name):
    objective, expected = IDENTICAL[name]
    assert float(objective(SAME, SAME)) == near(expected)


far = math.exp(-1 / TAU)  # an orthogonal negative against a perfect positive
ORTHOGONAL = {
    "info_nce": (partial(info_nce, temperature=TAU), math.log1p((N - 1) * far)),
    "nt_xent": (partial(nt_xent, temperature=TAU), math.log1p((2 * N - 2) * far)),
    "dcl": (partial(dcl, temperature=TAU), math.log(2 * N - 2) - 1 / TAU),
    "dhel": (partial(dhel, temperature=TAU), math.log(N - 1) - 1 / TAU),
    "dhel_sum": (
        partial(dhel, temperature=TAU, views="sum"),
        2 * math.log(N - 1) - 1 / TAU,
    ),
    "kcl": (kcl, -2 + 32 * math.exp(-4)),
    "kcl_log": (partial(kcl, kernel="log"), -16 * math.log(5)),
    "kcl_imq": (partial(kcl, kernel="imq", t=1.0), -2 + 32 / math.sqrt(3)),
    "kcl_riesz": (partial(kcl, kernel="riesz"), 2e-6 - 32 * math.sqrt(2)),
    "kcl_riesz_1": (
        partial(kcl, kernel="gaussian_riesz", s=1.0),
        -2 + 32 / math.sqrt(2),
    ),
    # e^0 everywhere: Ng = (M - prior M e^{1/tau}) / (1 - prior) is below its floor
    "debiased": (
        partial(debiased, temperature=TAU),
        math.log1p((2 * N - 2) * math.exp(-2 / TAU)),
    ),
    "debiased_0": (
        partial(debiased, temperature=TAU, prior=0.0, hardness=2.0),
        math.log1p((2 * N - 2) * far),
    ),
    "sig_lip": (sig_lip, math.log(2) + (N - 1) * math.log1p(math.exp(-10))),
    "uniformity": (lambda u, v: uniformity(u), -4.0),
    "effective_rank": (lambda u, v: effective_rank(u), N),
}


@pytest.mark.parametrize("name", ORTHOGONAL)
def test_orthogonal_rows(name):
    objective, expected = ORTHOGONAL[name]
    tolerated = 1e-5 if name == "effective_rank" else 1e-10
    assert float(objective(AXES, AXES)) == pytest.approx(expected, rel=tolerated)


def test_two_samples_by_hand():
    u = torch.tensor([[2.0, 0.0], [0.0, 3.0]], dtype=torch.float64)
    v = torch.tensor([[0.6, 0.8], [0.0, -1.0]], dtype=torch.float64)
    # scores: u.v = [[.6, 0], [.8, -1]], u.u = 0, v.v = -.8
    e = math.exp
    rows = [math.log1p(e(0 - 0.6)), math.log1p(e(0.8 + 1))]
    columns = [math.log1p(e(0.8 - 0.6)), math.log1p(e(0 + 1))]
    assert info_nce(u, v, temperature=1.0).item() == near(sum(rows + columns) / 4)
    assert info_nce(u, v, temperature=1.0, symmetric=False).item() == near(
        sum(rows) / 2
    )
    anchors = [  # (cross negative, within negative, positive)
        (0.0, 0.0, 0.6),
        (0.8, 0.0, -1.0),
        (0.8, -0.8, 0.6),
        (0.0, -0.8, -1.0),
    ]
    expected = sum(math.log(e(a) + e(b)) - p for a, b, p in anchors) / 4
    assert dcl(u, v, temperature=1.0).item() == near(expected)
    expected = sum(a - p for a, _, p in anchors) / 4
    assert dcl(u, v, temperature=1.0, negatives="cross").item() == near(expected)
    expected = sum(math.log1p(e(a - p) + e(b - p)) for a, b, p in anchors) / 4
    assert nt_xent(u, v, temperature=1.0).item() == near(expected)
    assert dhel(u, v, temperature=1.0).item() == near(-0.4 + 0.2)
    assert dhel(u, v, temperature=1.0, views="sum").item() == near(-0.8 + 0.2)
    assert dhel(u, v, temperature=1.0, views="first").item() == near(0.2)
    share = e(0.6 / 0.5) / (e(0.6 / 0.5) + e(-1 / 0.5))
    weighted = 0.6 * (2 - 2 * share) - 1.0 * (2 - 2 * (1 - share))
    expected = sum(a for a, _, _ in anchors) / 4 - weighted / 2
    assert dcl(
        u, v, temperature=1.0, negatives="cross", weight_sigma=0.5
    ).item() == near(expected)
    assert effective_sample_size(u, v, temperature=0.1) == near(1.0)


def test_zero_row_stays_zero_and_normalize_can_be_left_out():
    u = U.clone()
    u[2] = 0
    for objective in (info_nce, nt_xent, dcl, dhel, kcl, sig_lip, align_uniform):
        value = objective(u, V)
        assert value.isfinite()
        unit = F.normalize(u, dim=1), F.normalize(V, dim=1)
        close(objective(*unit, normalize=False), value)
        assert abs(objective(u, V, normalize=False) - value) > 1e-6


# Library formulas: the same quantity from matrices and torch's own losses.


def logits(u, v, temperature):
    return F.normalize(u, dim=1) @ F.normalize(v, dim=1).T / temperature


def test_info_nce_is_cross_entropy():
    s, target = logits(U, V, TAU), torch.arange(N)
    both = (F.cross_entropy(s, target) + F.cross_entropy(s.T, target)) / 2
    close(info_nce(U, V, temperature=TAU), both)


def test_nt_xent_is_cross_entropy_without_the_diagonal():
    z = torch.cat([U, V])
    s = logits(z, z, TAU).fill_diagonal_(-torch.inf)
    close(
        nt_xent(U, V, temperature=TAU),
        F.cross_entropy(s, (torch.arange(2 * N) + N) % (2 * N)),
    )


def test_sig_lip_is_binary_cross_entropy_times_n():
    s = 10 * logits(U, V, 1.0) - 10
    close(
        sig_lip(U, V), F.binary_cross_entropy_with_logits(s, torch.eye(N).double()) * N
    )


@pytest.mark.parametrize("hardness", [0.0, 1.0])
@pytest.mark.parametrize("temperature", [0.5, 2.0])
def test_debiased_is_the_published_formula(hardness, temperature):
    z = torch.cat([U, V])
    e = torch.exp(logits(z, z, temperature))
    eye = torch.eye(N, dtype=torch.bool).repeat(2, 2)
    negative = e[~eye].view(2 * N, -1)
    positive = torch.exp(logits(U, V, temperature)).diagonal().repeat(2)
    tilt = (hardness * negative.log()).exp()
    total = (tilt * negative).sum(1) / tilt.mean(1)
    count = 2 * N - 2
    ng = (total - 0.1 * count * positive) / 0.9
    ng = ng.clamp(min=count * math.exp(-1 / temperature))
    close(
        debiased(U, V, temperature=temperature, hardness=hardness),
        -torch.log(positive / (positive + ng)).mean(),
    )


def test_barlow_twins_is_batch_norm_and_a_product():
    norm = torch.nn.BatchNorm1d(D, affine=False).double()
    c = norm(U).T @ norm(V) / N
    off = c - torch.diag(c.diagonal())
    expected = (1 - c.diagonal()).square().sum() + 0.0051 * off.square().sum()
    close(barlow_twins(U, V), expected)


def test_vicreg_is_the_published_code():
    def off_diagonal(z):
        c = torch.cov(z.T)
        return (c - torch.diag(c.diagonal())).square().sum() / D

    u, v = 0.7 * U, 1.1 * V
    std_u, std_v = torch.sqrt(u.var(0) + 1e-4), torch.sqrt(v.var(0) + 1e-4)
    expected = 25 * F.mse_loss(u, v) + off_diagonal(u) + off_diagonal(v)
    expected += 25 * (F.relu(1 - std_u).mean() / 2 + F.relu(1 - std_v).mean() / 2)
    close(vicreg(u, v), expected)


def test_swav_is_the_published_code():
    prototypes = draw(4, D, seed=3)

    def codes(scores):
        q = torch.exp(scores / 0.05).T
        q = q / q.sum()
        for _ in range(3):
            q = q / q.sum(1, keepdim=True) / 4
            q = q / q.sum(0, keepdim=True) / N
        return (q * N).T

    a, b = logits(U, prototypes, 1.0), logits(V, prototypes, 1.0)
    first = (codes(b) * F.log_softmax(a / 0.1, 1)).sum(1).mean()
    second = (codes(a) * F.log_softmax(b / 0.1, 1)).sum(1).mean()
    close(swav(U, V, prototypes), -(first + second) / 2)
    close(codes(a).sum(1), torch.ones(N).double())


def test_swav_of_undecided_prototypes_is_log_k():
    plane = torch.cat([U, 0 * U], 1)
    prototypes = torch.cat([0 * U, V], 1)
    assert swav(plane, plane, prototypes).item() == near(math.log(N))


def test_sup_con_against_a_matrix():
    s = logits(U, U, TAU).fill_diagonal_(-torch.inf)
    log_p = s - s.logsumexp(1, keepdim=True)
    same = (LABELS[:, None] == LABELS) & ~torch.eye(N, dtype=torch.bool)
    per_anchor = -torch.where(same, log_p, 0).sum(1) / same.sum(1).clamp(min=1)
    close(sup_con(U, LABELS, temperature=TAU), per_anchor.sum() / N)


def test_sup_con_with_pairs_as_classes_is_nt_xent():
    labels = torch.arange(N).repeat(2)
    close(
        sup_con(torch.cat([U, V]), labels, temperature=TAU),
        nt_xent(U, V, temperature=TAU),
    )


def test_byol_and_sim_siam_take_targets_without_gradient():
    target_u, target_v = draw(N, D, seed=5), draw(N, D, seed=6)
    cos = F.cosine_similarity(U, target_v) + F.cosine_similarity(V, target_u)
    close(byol(U, V, target_u, target_v), (4 - 2 * cos).mean())
    close(sim_siam(U, V, target_u, target_v), -cos.mean() / 2)
    close(byol(U, V), 4 + 4 * sim_siam(U, V))
    leaf = target_u.requires_grad_()
    assert not byol(U, V, leaf, target_v).requires_grad


def test_log_partition_against_a_masked_matrix():
    x, y = draw(4, D, seed=7), draw(6, D, seed=8)
    row_ids, column_ids = torch.tensor([0, 1, 2, 3]), torch.tensor([0, 1, 1, 5, 3, 3])
    low, high = (
        torch.full((4,), -1.0).double(),
        torch.tensor([0.5, 1, 2, -0.9]).double(),
    )
    s = x @ y.T
    close(log_partition(x, y, scale=3.0), (3 * s).logsumexp(1))
    allowed = row_ids[:, None] != column_ids
    kept = torch.where(allowed, 3 * s, -torch.inf).logsumexp(1)
    ids = {"row_ids": row_ids, "column_ids": column_ids}
    close(log_partition(x, y, scale=3.0, **ids), kept)
    allowed &= (s >= low[:, None]) & (s <= high[:, None])
    kept = torch.where(allowed, 3 * s, -torch.inf).logsumexp(1)
    close(log_partition(x, y, scale=3.0, **ids, low=low, high=high), kept)


def test_log_partition_without_candidates_is_minus_infinity():
    ids = torch.zeros(N)
    empty = log_partition(U, V, scale=1.0, row_ids=ids, column_ids=ids)
    assert (empty == -torch.inf).all()


# Identities between objectives.


def test_objectives_from_the_log_partition():
    u, v, ids = F.normalize(U, dim=1), F.normalize(V, dim=1), torch.arange(N)
    positive = (u * v).sum(1) / TAU

    def others(x, y):
        return log_partition(x, y, scale=1 / TAU, row_ids=ids, column_ids=ids)

    both = F.softplus(others(u, v) - positive) + F.softplus(others(v, u) - positive)
    close(info_nce(U, V, temperature=TAU), both.mean() / 2)
    close(dhel(U, V, temperature=TAU, views="first"), (others(u, u) - positive).mean())
    gaussian = (others(u, u) - 1 / TAU).exp().mean() / (N - 1)
    gaussian += (others(v, v) - 1 / TAU).exp().mean() / (N - 1)
    attraction = (positive - 1 / TAU).exp().mean()
    close(kcl(U, V, t=1 / (2 * TAU)), -2 * attraction + 16 * gaussian)


def test_released_dhel_has_twice_the_uniformity_of_the_mean_form():
    s = F.cosine_similarity(U, V).mean() / TAU
    mean, total = (dhel(U, V, temperature=TAU, views=w) for w in ("mean", "sum"))
    close(total, 2 * mean + s)
    swapped = dhel(V, U, temperature=TAU, views="first")
    close(mean, (dhel(U, V, temperature=TAU, views="first") + swapped) / 2)


@pytest.mark.parametrize("negatives", ["all", "cross"])
def test_flat_nce_has_the_gradient_of_dcl_and_the_value_one(negatives):
    settings = {"temperature": TAU, "negatives": negatives}
    assert flat_nce(U, V, **settings).item() == 1.0
    close(gradients(flat_nce, U, V, **settings), gradients(dcl, U, V, **settings))


@pytest.mark.parametrize(("negatives", "kept"), [("all", nt_xent), ("cross", info_nce)])
def test_flat_nce_with_the_positive_has_the_gradient_of_the_softmax(negatives, kept):
    plus = partial(flat_nce, negatives=negatives, keep_positive=True)
    close(
        gradients(plus, U, V, temperature=TAU), gradients(kept, U, V, temperature=TAU)
    )


@pytest.mark.parametrize("gamma", [0.5, 3.0, -1.0])
def test_holder_gradient_is_a_rescaled_flat_nce_gradient(gamma):
    holder = gradients(flat_nce, U, V, temperature=TAU, gamma=gamma)
    sharper = gradients(flat_nce, U, V, temperature=TAU / gamma)
    close(holder, tuple(g / gamma for g in sharper))


def test_dcl_gradient_is_info_nce_gradient_over_one_minus_p():
    ids = torch.arange(N)
    leaf = U.clone().requires_grad_()
    gap = log_partition(leaf, V, scale=1 / TAU, row_ids=ids, column_ids=ids)
    gap = gap - (leaf * V).sum(1) / TAU
    for i in range(N):
        (flat,) = torch.autograd.grad(gap[i], leaf, retain_graph=True)
        (soft,) = torch.autograd.grad(F.softplus(gap[i]), leaf, retain_graph=True)
        p = torch.sigmoid(-gap[i]).item()
        close(flat, soft / (1 - p))


def test_dcl_weights_average_one_and_are_not_differentiated():
    settings = {"temperature": TAU, "negatives": "cross"}
    cos = F.cosine_similarity(U, V)
    weights = 2 - N * F.softmax(cos / 0.5, 0)
    assert weights.mean().item() == near(1.0)
    plain = dcl(U, V, **settings)
    close(
        dcl(U, V, **settings, weight_sigma=0.5),
        plain + ((1 - weights) * cos).mean() / TAU,
    )

    def by_hand(u, v):
        cos = F.cosine_similarity(u, v)
        return dcl(u, v, **settings) + ((1 - weights) * cos).mean() / TAU

    close(gradients(dcl, U, V, **settings, weight_sigma=0.5), gradients(by_hand, U, V))


def test_two_views_are_the_two_view_objectives():
    z = torch.stack([U, V])
    for aggregate, expected in {
        "pairs": info_nce(U, V, temperature=TAU),
        "poly": nt_xent(U, V, temperature=TAU),
        "mv_dhel": dhel(U, V, temperature=TAU, views="sum"),
    }.items():
        close(multi_view(z, temperature=TAU, aggregate=aggregate), expected)
    e = torch.exp(logits(z.flatten(0, 1), z.flatten(0, 1), TAU)).fill_diagonal_(0)
    positive = e.diagonal(N)
    close(
        multi_view(z, temperature=TAU, aggregate="mv_info_nce"),
        -torch.log(2 * positive / (e.sum(1)[:N] + e.sum(1)[N:])).mean(),
    )


def test_identical_views_of_many():
    m = 4
    z = torch.ones(m, N, D, dtype=torch.float64)
    for aggregate, expected in {
        "pairs": math.log(N),
        "poly": math.log(1 + m * (N - 1)),
        "mv_info_nce": math.log((m * N - 1) / (m - 1)),
        "mv_dhel": m * math.log(N - 1) + (m - 1) / TAU - math.log(m * (m - 1) / 2),
    }.items():
        value = multi_view(z, temperature=TAU, aggregate=aggregate).item()
        assert value == near(expected), aggregate


def test_order_of_views_and_samples_does_not_matter():
    z = draw(3, 4, D, seed=9)
    shuffled = z[[2, 0, 1]][:, [3, 1, 0, 2]]
    for aggregate in ("pairs", "poly", "mv_info_nce", "mv_dhel"):
        close(
            multi_view(z, aggregate=aggregate),
            multi_view(shuffled, aggregate=aggregate),
        )


@pytest.mark.parametrize("kernel", ["gaussian", "log", "imq", "riesz"])
def test_kcl_is_the_average_over_its_sub_batches(kernel):
    pairs = [list(pair) for pair in combinations(range(N), 2)]
    parts = [kcl(U[pair], V[pair], kernel=kernel) for pair in pairs]
    close(kcl(U, V, kernel=kernel), torch.stack(parts).mean())


@pytest.mark.parametrize(
    "objective",
    [
        info_nce,
        nt_xent,
        dcl,
        dhel,
        debiased,
        partial(debiased, hardness=1.0, temperature=1.0),
        sig_lip,
        partial(binary_nce, temperature=0.5, log_z=1.0),
        align_uniform,
        barlow_twins,
        vicreg,
        *[
            partial(kcl, kernel=k)
            for k in ("gaussian", "log", "imq", "riesz", "gaussian_riesz")
        ],
        lambda u, v: sup_con(torch.cat([u, v]), torch.tensor([0, 1, 0, 1, 1, 2])),
        lambda u, v: multi_view(torch.stack([u, v]), aggregate="mv_info_nce"),
        lambda u, v: log_partition(u, v, scale=2.0).sum(),
    ],
)
def test_gradients_are_those_of_the_value(objective):
    u, v = draw(3, 2, seed=11).requires_grad_(), draw(3, 2, seed=12).requires_grad_()
    assert torch.autograd.gradcheck(objective, (u, v))


# Metrics.


def test_uniformity_of_a_simplex():
    simplex = torch.eye(8, dtype=torch.float64) - 1 / 8
    assert uniformity(simplex) == near(-2 * (2 + 2 / 7))
    close(align_uniform(simplex, simplex), torch.tensor(-32 / 7, dtype=torch.float64))


def test_alignment_and_tolerance():
    assert alignment(AXES, -AXES) == near(4.0)
    assert alignment(AXES, -AXES, alpha=1) == near(2.0)
    cos = logits(U, U, 1.0)
    assert tolerance(U, LABELS) == near((cos[0, 2] + cos[0, 4] + cos[2, 4]).item() / 3)


def test_effective_rank_counts_directions():
    assert effective_rank(7 * AXES) == pytest.approx(N, rel=1e-5)
    assert effective_rank(SAME) == pytest.approx(1, rel=1e-5)


def test_effective_sample_size_is_a_ratio_of_partitions():
    u, v, ids = F.normalize(U, dim=1), F.normalize(V, dim=1), torch.arange(N)
    one, two = (
        torch.cat(
            [
                log_partition(a, b, scale=k / TAU, row_ids=ids, column_ids=ids)
                for a, b in ((u, v), (v, u))
            ]
        )
        for k in (1, 2)
    )
    expected = ((2 * one - two).exp() / (N - 1)).mean().item()
    assert effective_sample_size(U, V, temperature=TAU) == near(expected)
    sizes = [effective_sample_size(U, V, temperature=t) for t in (10, 1, 0.1, 0.01)]
    assert sizes == sorted(sizes, reverse=True)
    assert 1 / (N - 1) - 1e-9 <= sizes[-1] <= sizes[0] <= 1
    assert effective_sample_size(U, V, temperature=1e-3, negatives="all") == (
        pytest.approx(1 / (2 * N - 2), rel=0.2)
    )


def test_wasserstein_distance_to_uniform_cosines():
    assert wasserstein_to_uniform(AXES[:3, :3]) == pytest.approx(0.5)  # E|U(-1, 1)|
    assert wasserstein_to_uniform(SAME) == pytest.approx(1.0)  # E|1 - c|
    spread = draw(24, 3, seed=4)
    assert wasserstein_to_uniform(spread) < 0.1 < wasserstein_to_uniform(spread + 1)

"""Critics: matrices of scores, chunks that change nothing, penalties."""

import math

import pytest
import torch

from invariance.critics import (
    CRITICS,
    Exact,
    Lift,
    Residual,
    build_critic,
    gaussian_critic,
    gradient_penalty,
    lifted_gaussian_critic,
)
from invariance.errors import SettingError
from invariance.estimators import (
    canonical_gaussian,
    correlated_gaussian,
    image,
    info_nce,
    spiral,
)


@pytest.fixture(autouse=True)
def seeded():
    torch.manual_seed(0)


@pytest.fixture
def rows():
    return torch.randn(7, 3), torch.randn(7, 2)


@pytest.mark.parametrize("spectral_norm", [False, True])
@pytest.mark.parametrize("name", CRITICS)
def test_the_diagonal_of_all_pairs_is_the_pairs(name, spectral_norm, rows):
    critic = build_critic(name, 3, 2, spectral_norm=spectral_norm)
    for p in critic.parameters():  # a critic that starts at zero would pass anything
        torch.nn.init.normal_(p)
    x, y = rows
    for _ in range(20):  # power iterations run while training
        critic(x, y)
    critic.eval()
    scores = critic(x, y)
    assert scores.shape == (7, 7) and scores.std() > 0
    torch.testing.assert_close(scores.diagonal(), critic.score_pairs(x, y))
    torch.testing.assert_close(critic(x, y[:4]), scores[:, :4])


@pytest.mark.parametrize("name", ["concatenated", "additive"])
def test_chunks_change_neither_scores_nor_gradients(name, rows, monkeypatch):
    critic = build_critic(name, 3, 2)
    x, y = rows

    def run():
        critic.zero_grad()
        scores = critic(x, y)
        scores.logsumexp(1).sum().backward()
        return scores.detach(), [p.grad.clone() for p in critic.parameters()]

    whole, grads = run()
    seen = []
    # the chunk size is no setting
    monkeypatch.setattr("invariance.critics._critic.PAIRS_AT_ONCE", 15)
    block = critic._block
    critic._block = lambda a, b: (seen.append(len(a) * len(b)), block(a, b))[1]
    parts, again = run()
    torch.testing.assert_close(parts, whole)
    torch.testing.assert_close(again, grads)
    assert max(seen) <= 15 and len(seen) >= 4


def test_the_cosine_critic_is_bounded_by_its_scale(rows):
    critic = build_critic("cosine", 3, 2)
    assert critic(*rows).abs().max() <= critic.scale() * (1 + 1e-6)
    with torch.no_grad():
        critic.log_scale.fill_(50.0)
    assert critic.scale().item() == pytest.approx(100.0)


@pytest.mark.parametrize(
    "name, layers",
    [("separable", 6), ("cosine", 6), ("concatenated", 4), ("additive", 3)],
)
def test_spectral_norm_bounds_the_gain_of_every_layer(name, layers):
    critic = build_critic(name, 5, 5, spectral_norm=True)
    for layer in critic.modules():
        if isinstance(layer, torch.nn.Linear):
            layer.parametrizations.weight.original.data *= 30
    for _ in range(60):  # power iterations run while training
        critic(torch.randn(4, 5), torch.randn(4, 5))
    gains = [
        torch.linalg.matrix_norm(layer.weight, 2).item()
        for layer in critic.modules()
        if isinstance(layer, torch.nn.Linear)
    ]
    assert len(gains) == layers and max(gains) < 1.05


def test_the_gaussian_critic_is_the_exact_one_of_gaussian_rows():
    pairs = correlated_gaussian(3, nats=1.5)
    x, y = pairs.sample(60_000, generator=torch.Generator().manual_seed(1))
    fitted, exact = gaussian_critic(x, y), Exact(pairs.log_ratio)
    a, b = x[:50], y[:50]
    assert fitted.nats().item() == pytest.approx(1.5, abs=0.03)
    torch.testing.assert_close(fitted(a, b), exact(a, b), atol=0.4, rtol=0.05)
    torch.testing.assert_close(fitted.score_pairs(a, b), fitted(a, b).diagonal())
    # any linear map of either side changes nothing
    mixed = x @ torch.tensor([[2.0, 1, 0], [0, 1, 0], [1, 0, 3]]) + 5
    again = gaussian_critic(mixed, y)
    torch.testing.assert_close(again(mixed[:50], b), fitted(a, b), atol=1e-3, rtol=1e-3)


def test_the_gaussian_critic_survives_repeated_columns_and_chance():
    x, y = torch.randn(500, 4), torch.randn(500, 3)
    doubled = torch.cat([x, x], 1)
    critic = gaussian_critic(doubled, y)
    assert torch.isfinite(critic(doubled, y)).all()
    assert critic.nats().item() < 0.02
    strong = gaussian_critic(x, x)
    assert torch.isfinite(strong(x, x)).all()


def test_a_residual_trains_only_its_second_part(rows):
    x, y = rows
    base, learned = build_critic("bilinear", 3, 2), build_critic("separable", 3, 2)
    critic = Residual(base, learned)
    torch.testing.assert_close(critic(x, y), base(x, y) + learned(x, y))
    critic(x, y).sum().backward()
    assert all(p.grad is None for p in base.parameters())
    assert all(p.grad is not None for p in learned.parameters())


def test_a_lift_adds_the_length_of_rows_and_products_with_it():
    z = torch.tensor([[3.0, 4], [0, 1], [1, 0], [0, 0]])
    square = torch.tensor([25.0, 1, 1, 0])
    r = (square - square.mean()) / square.std()
    torch.testing.assert_close(Lift(z)(z), torch.cat([z, r[:, None]], 1))
    whole = torch.cat([z, r[:, None], z * r[:, None]], 1)
    torch.testing.assert_close(Lift(z, products=True)(z), whole)
    assert Lift(z)(100 * z)[0, 2] == 3.0  # far away counts as far, and no more
    same = torch.eye(4)
    assert (Lift(same)(same)[:, 4] == 0).all()  # one length tells nothing


def test_a_lifted_critic_sees_what_turns_with_length():
    dice = torch.Generator().manual_seed(0)
    pairs = canonical_gaussian([0.9, 0.9], x_width=12, y_width=12)
    pairs = image(pairs, x=spiral(0.1))
    x, y = pairs.sample(4000, generator=dice, dtype=torch.float64)
    plain, lifted = gaussian_critic(x, y), lifted_gaussian_critic(x, y)
    a, b = pairs.sample(1000, generator=dice, dtype=torch.float64)
    assert info_nce(lifted(a, b)) > info_nce(plain(a, b)) + 0.1
    torch.testing.assert_close(lifted(a, b).diagonal(), lifted.score_pairs(a, b))


def test_gradient_penalties_of_a_linear_critic_are_known(rows):
    critic = build_critic("bilinear", 3, 2)
    with torch.no_grad():
        critic.of_x.weight.copy_(torch.tensor([[3.0, 0, 0]]))
        critic.of_y.weight.copy_(torch.tensor([[0.0, 4]]))  # slope 5 everywhere
    zero = gradient_penalty(critic, *rows, kind="zero")
    wgan = gradient_penalty(critic, *rows, kind="wgan")
    assert zero.item() == pytest.approx(25.0, rel=1e-5)
    assert wgan.item() == pytest.approx(16.0, rel=1e-5)
    zero.backward()
    assert critic.of_y.weight.grad[0, 1].item() == pytest.approx(8.0, rel=1e-5)
    assert gradient_penalty(critic, *rows, kind="none").item() == 0.0


def test_an_all_zero_critic_has_a_finite_penalty_gradient(rows):
    critic = build_critic("bilinear", 3, 2)
    penalty = gradient_penalty(critic, *rows, kind="wgan")
    penalty.backward()
    assert penalty.item() == pytest.approx(1.0, abs=1e-4)
    assert all(
        math.isfinite(p.grad.sum().item())
        for p in critic.parameters()
        if p.grad is not None
    )


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: build_critic("separabel", 2, 2), "Did you mean 'separable'"),
        (lambda: build_critic("bilinear", 2, 2, width=3), "no such setting: width"),
        (lambda: build_critic("separable", 2, 2, width=0), "1 or more"),
        (
            lambda: gradient_penalty(
                build_critic("bilinear", 1, 1),
                torch.zeros(2, 1),
                torch.zeros(2, 1),
                kind="wgam",
            ),
            "Did you mean 'wgan'",
        ),
    ],
)
def test_mistakes_are_answered_in_words(call, words):
    with pytest.raises(SettingError, match=words):
        call()


def test_only_the_settings_a_critic_lacks_are_named():
    with pytest.raises(SettingError, match=r"no such setting: embed\."):
        build_critic("concatenated", 3, 2, width=8, embed=4)

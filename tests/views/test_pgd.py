"""PGD: the slow twin, the closed form of linear losses, balls that are never left."""

import pytest
import torch
from tests.reference import adversarial as reference
from torch import nn

import invariance as inv
from invariance.errors import SettingError
from invariance.views import PGD, Draws

NORMS = ("linf", "l2")


def draw(n, *shape, seed=0, dtype=torch.float64):
    generator = torch.Generator().manual_seed(seed)
    return torch.rand(n, *shape, generator=generator, dtype=dtype)


def draws(n, epoch=0):
    return Draws(seed=0, epoch=epoch, samples=torch.arange(n), view=0)


@pytest.mark.parametrize("norm", NORMS)
def test_it_is_the_slow_twin_on_a_contrastive_loss(norm):
    torch.manual_seed(0)
    encoder = nn.Sequential(nn.Flatten(), nn.Linear(12, 8), nn.Tanh(), nn.Linear(8, 4))
    encoder.double()
    u, v = draw(5, 3, 2, 2), draw(5, 3, 2, 2, seed=1)
    attack = PGD(epsilon=0.2, steps=4, step_size=0.07, norm=norm)

    def loss(view):
        return inv.nt_xent(encoder(view), encoder(v), temperature=0.5)

    start = attack.start(u, draws(5))
    (ours,) = attack(lambda views: loss(views[0]), [u], [start])
    how = {"epsilon": 0.2, "steps": 4, "step_size": 0.07, "norm": norm}
    theirs = reference.pgd(loss, u, start, **how)
    torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-12)
    assert loss(ours) > loss(u)


@pytest.mark.parametrize("norm, dual", [("linf", 1), ("l2", 2)])
def test_of_a_linear_loss_it_finds_the_worst_case(norm, dual):
    weights = draw(6, 3, 4, 4, seed=2) - 0.5
    x = 0.4 + 0.2 * draw(6, 3, 4, 4)  # no pixel reaches 0 or 1
    attack = PGD(epsilon=0.1, steps=40, norm=norm)
    (worst,) = attack(
        lambda views: (weights * views[0]).sum(), [x], [attack.start(x, draws(6))]
    )
    rise = (weights * (worst - x)).flatten(1).sum(1)
    most = 0.1 * weights.flatten(1).norm(p=dual, dim=1)
    torch.testing.assert_close(rise, most, rtol=1e-6, atol=0)


@pytest.mark.parametrize("norm", NORMS)
def test_no_sample_leaves_its_ball_or_its_pixels(norm):
    x = draw(8, 3, 5, 5, dtype=torch.float32)
    x[0], x[1], x[2, 0, 0, 0] = 0.0, 1.0, 1.05  # as resizing may leave one
    attack = PGD(epsilon=0.3, steps=3, step_size=1.0, norm=norm)
    start = attack.start(x, draws(8))
    way = draw(8, 3, 5, 5, seed=3, dtype=torch.float32) - 0.5
    (end,) = attack(lambda views: (way * views[0]).sum(), [x], [start])
    for y in (start, end):
        change = (y - x).flatten(1)
        size = change.abs().amax(1) if norm == "linf" else change.norm(dim=1)
        assert (size <= 0.3 + 1e-6).all()
        assert y.min() >= 0 and (y <= x.clamp(min=1.0)).all()


@pytest.mark.parametrize("norm", NORMS)
def test_a_start_depends_on_seed_epoch_and_sample_alone(norm):
    x = draw(4, 3, 6, 6, dtype=torch.float32) * 0.5 + 0.25
    attack = PGD(norm=norm)
    start = attack.start(x, draws(4))
    alone = attack.start(x[2:3], Draws(0, 0, torch.tensor([2]), 0))
    assert torch.equal(start[2:3], alone)
    assert not torch.equal(start, attack.start(x, draws(4, epoch=1)))
    last = x.contiguous(memory_format=torch.channels_last)
    kept = attack.start(last, draws(4))
    assert kept.is_contiguous(memory_format=torch.channels_last)
    assert torch.equal(kept, start)


def test_starts_fill_the_ball():
    x = torch.full((500, 4), 0.5)
    length = (PGD(epsilon=0.1, norm="l2").start(x, draws(500)) - x).norm(dim=1)
    # the volume within half the radius is a sixteenth in four dimensions
    assert (length < 0.05).float().mean() == pytest.approx(1 / 16, abs=0.03)
    pixels = PGD(epsilon=0.1).start(x, draws(500)) - x
    assert pixels.std() == pytest.approx(0.1 / 3**0.5, rel=0.05)


def test_several_batches_are_changed_together_and_one_without_a_gradient_is_not():
    u, v = draw(3, 2), draw(3, 2, seed=1)
    attack = PGD(epsilon=0.05)
    changed = attack(lambda views: (views[0] * views[1]).sum(), [u, v])
    assert all((a > b).all() for a, b in zip(changed, (u, v), strict=True))
    first, second = attack(lambda views: views[0].sum(), [u, v], [u + 0.01, v + 0.01])
    assert (first > u).all() and torch.equal(second, v)
    with pytest.raises(SettingError, match="no gradient for the samples"):
        attack(lambda views: v.sum(), [u])


def test_a_sample_without_a_slope_stays_and_gives_no_nan():
    x = draw(2, 3)
    for norm in NORMS:
        (changed,) = PGD(norm=norm)(lambda views: views[0][:1].sum(), [x])
        assert torch.equal(changed[1], x[1]) and (changed[0] > x[0]).all()


@pytest.mark.parametrize(
    "settings, sentence",
    [
        ({"epsilon": 0}, "epsilon must be a positive number"),
        ({"step_size": -1.0}, "step_size must be a positive number"),
        ({"steps": 0}, "steps is 1 or more"),
        ({"norm": "linv"}, "Did you mean 'linf'"),
    ],
)
def test_settings_that_cannot_work_are_refused(settings, sentence):
    with pytest.raises(SettingError, match=sentence):
        PGD(**settings)

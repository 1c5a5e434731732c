"""Columns redrawn and hidden: how many, from where, and for which row."""

import pytest
import torch

from invariance.data import Column, Row
from invariance.errors import SettingError, ShapeError
from invariance.views import (
    RECIPES,
    Draws,
    HideColumns,
    RedrawColumns,
    UniformNoise,
    ViewSet,
    weaken,
)


def draws_of(n, view=0, epoch=0):
    return Draws(seed=0, epoch=epoch, samples=torch.arange(n), view=view)


@pytest.fixture
def rows():
    """A number, a category out of three, a number with gaps, a category of two."""
    dice = torch.Generator().manual_seed(0)
    n = 400
    columns = [
        torch.randn(n, generator=dice),
        torch.randint(3, (n,), generator=dice).float(),
        torch.randn(n, generator=dice).masked_fill(torch.arange(n) % 4 == 0, torch.nan),
        (torch.rand(n, generator=dice) < 0.2).float(),
    ]
    return torch.stack(columns, 1)


def test_so_many_columns_of_every_row_come_from_the_training_rows(rows):
    batch = torch.full((2000, 4), 7.0)
    changed = RedrawColumns(0.5, rows=rows)(batch, draws_of(2000))
    new = changed != 7
    assert (new.sum(1) == 2).all()
    assert new.float().mean(0) == pytest.approx([0.5] * 4, abs=0.05)
    for k in range(4):
        drawn, known = changed[new[:, k], k], rows[:, k]
        assert torch.isin(drawn[~drawn.isnan()], known).all()
    # as often as in the data: categories and gaps
    assert changed[new[:, 3], 3].mean() == pytest.approx(
        float(rows[:, 3].mean()), abs=0.05
    )
    assert changed[new[:, 2], 2].isnan().float().mean() == pytest.approx(0.25, abs=0.05)


def test_columns_are_redrawn_from_rows_of_their_own(rows):
    number = torch.arange(400.0)[:, None].expand(-1, 4)  # which row a cell is from
    drawn = RedrawColumns(0.75, rows=number)(torch.full((500, 4), -1.0), draws_of(500))
    different = [len({*row.tolist()} - {-1.0}) for row in drawn]
    assert sum(n == 3 for n in different) > 480


def test_a_view_belongs_to_its_sample_view_and_epoch(rows):
    redraw = RedrawColumns(0.6, rows=rows)
    views = ViewSet([[redraw], [redraw]])
    batch, samples = rows[:50], torch.arange(50)
    u, v = views(batch, samples=samples, seed=0, epoch=0)
    order = torch.randperm(50)
    again, _ = views(batch[order], samples=samples[order], seed=0, epoch=0)
    assert again.nan_to_num(9).equal(u[order].nan_to_num(9))
    later, _ = views(batch, samples=samples, seed=0, epoch=1)
    assert not u.nan_to_num(9).equal(v.nan_to_num(9))
    assert not u.nan_to_num(9).equal(later.nan_to_num(9))


@pytest.mark.parametrize(("share", "n"), [(0.01, 1), (0.6, 2), (0.99, 3)])
def test_one_column_at_least_and_never_all(rows, share, n):
    batch = torch.full((20, 4), 7.0)
    for operation in (
        RedrawColumns(share, rows=rows),
        HideColumns(share, blank=(torch.nan,) * 4),
    ):
        assert ((operation(batch, draws_of(20)) != 7).sum(1) == n).all()


def test_recipes_of_rows(rows):
    kind = Row(
        [
            Column("a", scale=2.0),
            Column("b", categories=("x", "y", "z")),
            Column("c", missing=True),
            Column("d", categories=("no", "yes")),
        ]
    )
    batch = rows[:100]
    same, redrawn = ViewSet(RECIPES["scarf"](kind, rows=rows), prepare=kind.prepare)(
        batch, samples=torch.arange(100), seed=0, epoch=0
    )
    assert same.nan_to_num(9).equal(batch.nan_to_num(9))
    assert not redrawn.nan_to_num(9).equal(batch.nan_to_num(9))
    assert "a" in kind.show(redrawn[0])
    for name in ("noise", "uniform_noise"):  # categories have no noise on them
        noisy = ViewSet(RECIPES[name](kind, n_views=1), prepare=kind.prepare)(
            batch, samples=torch.arange(100), seed=0, epoch=0
        )[0]
        assert noisy[:, [1, 3]].equal(batch[:, [1, 3]])
        assert (noisy[:, 0] != batch[:, 0]).all()
        assert noisy[:, 2].isnan().equal(batch[:, 2].isnan())
    (hidden,) = RECIPES["hide_columns"](kind, rows=rows, n_views=1)
    assert hidden[0](batch[:, :4], draws_of(100)).isnan().sum() >= 100


def test_they_can_be_weakened(rows):
    views = weaken(
        [[RedrawColumns(0.6, rows=rows), UniformNoise(0.4)]], {"redrawn": 0.5}
    )
    assert views[0][0].share == pytest.approx(0.3) and views[0][1].width == 0.4
    assert weaken(views, {"redrawn": 0, "noise": 0}) == [[]]


def test_what_is_refused(rows):
    for share in (0, 1, 1.5):
        with pytest.raises(SettingError, match="share is the part of a row's columns"):
            RedrawColumns(share, rows=rows)
    with pytest.raises(ShapeError, match="rows of 4 columns to draw from"):
        RedrawColumns(0.5, rows=rows)(torch.zeros(2, 3), draws_of(2))
    with pytest.raises(SettingError, match="width is 0 or more"):
        UniformNoise(-1)

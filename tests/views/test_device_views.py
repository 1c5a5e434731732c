"""Views from rows and keys: what `ViewSet` makes, in the layout asked for."""

import pytest
import torch

from invariance.views import (
    KINDS_OF,
    RECIPES,
    DeviceViews,
    Draws,
    RandomRotation,
    ViewSet,
    simclr,
)

IMAGES = torch.randint(
    256, (20, 3, 24, 24), generator=torch.Generator().manual_seed(0), dtype=torch.uint8
)

IMAGE_RECIPES = [name for name in RECIPES if name not in KINDS_OF]
ROWS = torch.tensor([7, 3, 19, 0])


@pytest.mark.parametrize("recipe", IMAGE_RECIPES)
def test_rows_and_keys_make_the_views_of_a_view_set(recipe):
    view_set = ViewSet(RECIPES[recipe](20))
    views = DeviceViews(view_set, IMAGES)
    for seed, epoch in ((0, 0), (5, 2), (-1, 3)):
        want = view_set(IMAGES[ROWS], samples=ROWS, seed=seed, epoch=epoch)
        keys = views.keys(seed, epoch)
        for a, b in zip(want, views(ROWS, keys), strict=True):
            torch.testing.assert_close(b, a, rtol=0, atol=1e-5)


def test_views_come_in_the_type_and_layout_asked_for():
    views = DeviceViews(
        ViewSet(simclr(16)), IMAGES, dtype=torch.bfloat16, channels_last=True
    )
    for view in views(ROWS, views.keys(0, 0)):
        assert view.dtype == torch.bfloat16
        assert view.is_contiguous(memory_format=torch.channels_last)


def test_a_function_of_ones_own_is_not_captured():
    assert DeviceViews(ViewSet([[RandomRotation(10)]]), IMAGES).can_be_captured
    assert not DeviceViews(ViewSet([[lambda x: x]]), IMAGES).can_be_captured

    class Mine(RandomRotation):
        """An operation of one's own may draw from Python, which a graph repeats."""

    assert not DeviceViews(ViewSet([[Mine(10)]]), IMAGES).can_be_captured


def test_draws_from_a_key_are_those_of_its_seed_and_epoch():
    keys = DeviceViews(ViewSet(simclr(16)), IMAGES).keys(5, 2)
    for view in (0, 1):
        plain = Draws(5, 2, ROWS, view).substream(3).substream(0)
        keyed = Draws.from_key(keys[0], ROWS, view).substream(3).substream(0)
        for ask in ("uniform", "normal", "permutation", "coin"):
            assert torch.equal(getattr(keyed, ask)(1), getattr(plain, ask)(1))

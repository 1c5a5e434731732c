"""What was drawn for a view is what was done to its images."""

import pytest
import torch

from invariance.errors import SettingError
from invariance.views import (
    RECIPES,
    GaussianBlur,
    RandomAffine,
    RandomGrayscale,
    RandomHorizontalFlip,
    RandomResizedCrop,
    RandomRotation,
    Sometimes,
    ViewSet,
    draw_parameters,
)

KEYS = {"samples": torch.arange(10, 50), "seed": 3, "epoch": 7}


@pytest.fixture
def images():
    return torch.rand(40, 3, 16, 16, generator=torch.Generator().manual_seed(0))


def drawn(views, **changes):
    return draw_parameters(views, (3, 16, 16), **KEYS | changes)


def test_angles_turn_the_images_as_the_view_did(images):
    views = ViewSet([[RandomHorizontalFlip()], [RandomRotation(180)]])
    found = drawn(views, view=1)
    assert found.keys() == {"rotation (cos)", "rotation (sin)"}
    turn = torch.atan2(found["rotation (sin)"], found["rotation (cos)"]).rad2deg()
    again = RandomRotation(180).apply(images, turn)
    same = (again == views(images, **KEYS)[1]).float().mean()
    assert same > 0.999  # an angle through sine and cosine may round a pixel over


def test_boxes_crop_the_images_as_the_view_did(images):
    crop = RandomResizedCrop(8, scale=(0.2, 0.9))
    views = ViewSet([[crop]])
    found = drawn(views)
    area, shape = found["crop area"] * 256, found["crop shape"].exp()
    width, height = (area * shape).sqrt().round(), (area / shape).sqrt().round()
    left, top = found["crop x"] * 16 - width / 2, found["crop y"] * 16 - height / 2
    boxes = torch.stack([top, left, height, width], 1).round().long()
    assert torch.equal(crop.apply(images, boxes), views(images, **KEYS)[0])


def test_what_happens_sometimes_reads_neutral_elsewhere(images):
    blur = GaussianBlur(sigma=(0.5, 2.0), kernel_size=3)
    views = ViewSet([[Sometimes(0.5, blur), RandomGrayscale(0)]])
    found = drawn(views)
    assert found.keys() == {"blur"}  # gray never happens: it is constant
    changed = (views(images, **KEYS)[0] != images).flatten(1).any(1)
    assert torch.equal(changed, found["blur"] > 0)
    assert 5 < int(changed.sum()) < 35


def test_what_happens_twice_has_happened_if_either_did(images):
    views = ViewSet([[RandomGrayscale(0.3), RandomGrayscale(0.3)]])
    seen = views(images, **KEYS)[0]
    gray = (seen[:, 0] == seen[:, 1]).flatten(1).all(1)
    assert torch.equal(gray, drawn(views)["gray"] == 1)


def test_an_affine_motion_has_its_parts():
    affine = RandomAffine(10, translate=(0.2, 0.2), scale=(0.8, 1.2), shear=(5, 5))
    found = drawn(ViewSet([[affine]]))
    assert {"shift x", "shift y", "scale", "shear x", "shear y"} <= found.keys()
    assert found["scale"].min() >= 0.8 and found["shift x"].abs().max() <= 0.2


@pytest.mark.parametrize("recipe", ["simclr", "byol", "weak", "shapes"])
@pytest.mark.parametrize("channels", [1, 3])
def test_every_recipe_has_finite_names_of_its_own(recipe, channels):
    views = ViewSet(RECIPES[recipe](96, channels))
    for view in range(2):
        found = draw_parameters(views, (channels, 96, 96), **KEYS, view=view)
        assert {"crop x", "crop area", "flip"} <= found.keys()
        assert all(v.isfinite().all() and v.shape == (40,) for v in found.values())
        assert ("hue" in found) == (channels == 3 and recipe != "weak")


def test_functions_of_ones_own_have_no_names():
    assert drawn(ViewSet([[lambda images: images]])) == {}
    with pytest.raises(SettingError, match="view is 0 to 0: got 1"):
        drawn(ViewSet([[RandomHorizontalFlip()]]), view=1)

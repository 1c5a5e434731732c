"""Feature maps: those of the same pass as the features, whatever the network."""

import pytest
import torch
from torch import nn

from invariance.encoders import Encoder, Mapped, build_encoder, standardize
from invariance.errors import SettingError


@pytest.mark.parametrize(
    "name, stage, shape",
    [
        ("tiny", None, (128, 4, 4)),
        ("tiny", -1, (256, 2, 2)),
        ("tiny", -3, (48, 8, 8)),
        ("resnet18", None, (256, 8, 8)),
        ("torchvision/resnet18", None, (256, 8, 8)),
        ("vit_tiny_patch16_224", None, (192, 2, 2)),
    ],
)
def test_features_are_those_of_a_plain_pass(name, stage, shape):
    torch.manual_seed(0)
    encoder = standardize(build_encoder(name), [0.5] * 3, [0.2] * 3).eval()
    images, mapped = torch.rand(2, 3, 32, 32), Mapped(encoder, stage)
    features, places = mapped(images)
    assert mapped.shape == shape and places.shape == (2, *shape)
    assert torch.equal(features, encoder(images))
    assert torch.equal(encoder.feature_map(images, stage), places)


def test_places_are_where_they_are_in_the_image():
    encoder = build_encoder("tiny").eval()
    images = torch.zeros(1, 3, 64, 64)
    plain = encoder.feature_map(images)
    images[..., :6, :6] = 1.0  # a corner
    moved = (encoder.feature_map(images) - plain).abs().amax((0, 1)) > 0
    assert moved[0, 0] and not moved[4:].any() and not moved[:, 4:].any()


def test_a_network_s_own_output_is_its_map():
    encoder = Encoder(nn.Conv2d(1, 4, 3), input_shape=(1, 8, 8))
    images = torch.rand(3, 1, 8, 8)
    assert torch.equal(encoder.feature_map(images), encoder.network(images))


def test_looking_for_the_map_leaves_the_network_as_it_was():
    encoder = build_encoder("tiny")
    before = {k: v.clone() for k, v in encoder.state_dict().items()}
    Mapped(encoder)
    assert all(torch.equal(v, before[k]) for k, v in encoder.state_dict().items())
    assert encoder.training


@pytest.mark.parametrize(
    "encoder, stage, message",
    [
        (lambda: build_encoder("mlp"), None, "mlp has no feature map"),
        (lambda: build_encoder("tiny"), -5, "stage -1, the last, to -4: got -5"),
        (lambda: build_encoder("tiny"), 1, "stage -1, the last, to -4: got 1"),
    ],
)
def test_what_is_refused(encoder, stage, message):
    with pytest.raises(SettingError, match=message):
        Mapped(encoder(), stage)

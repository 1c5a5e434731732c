"""Images to features: one way for tensors and sources, bytes and floats."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from invariance.data import load
from invariance.evaluation import encode_batch, encode_images, raw_pixels


@pytest.fixture(scope="module")
def encoder():
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        layers = nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.Dropout(), nn.Flatten()
        return nn.Sequential(*layers)


@settings(deadline=None, max_examples=20)
@given(n=st.integers(1, 23), size=st.integers(1, 9))
def test_every_row_in_order_whatever_the_batch_size(encoder, n, size):
    images = load("shapes", n=23)
    rows = torch.randperm(23, generator=torch.Generator().manual_seed(n))[:n]
    counts = []
    features = encode_images(
        encoder, images, rows, batch_size=size, progress=counts.append
    )
    whole = next(images.batches([rows]))
    with torch.no_grad():
        expected = encoder.eval()(whole.float() / 255)
    assert torch.allclose(features, expected, atol=1e-6)
    assert counts[-1] == n and len(counts) == -(-n // size)


def test_without_an_encoder_the_pixels_themselves(encoder):
    images = torch.arange(2 * 3 * 4 * 4, dtype=torch.uint8).reshape(2, 3, 4, 4)
    assert torch.equal(encode_images(None, images), raw_pixels(images))


def test_no_gradients_and_evaluation_mode(encoder):
    images = torch.rand(5, 3, 6, 6)
    features = encode_batch(encoder.train(), images)
    assert not features.requires_grad and not encoder.training
    assert torch.equal(features, encode_batch(encoder, images))
    assert torch.is_grad_enabled()


@pytest.mark.parametrize("precision", [torch.float16, torch.bfloat16, torch.float64])
def test_an_encoder_of_another_precision_gives_float32(precision):
    network = nn.Sequential(nn.Flatten(), nn.Linear(12, 2)).to(precision)
    images = torch.randint(0, 255, (3, 3, 2, 2), dtype=torch.uint8)
    features = encode_images(network, images)
    assert features.dtype == torch.float32 and features.shape == (3, 2)
    floats = encode_images(network, images.to(precision) / 255)
    assert torch.equal(features, floats)

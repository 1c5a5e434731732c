"""Heads have the layers and widths they are named for."""

import pytest
import torch
from torch import nn

from invariance.encoders import HEADS, Predictor, build_head
from invariance.errors import SettingError


def kinds(module):
    return [type(layer).__name__ for layer in module]


@pytest.mark.parametrize("kind", HEADS)
@pytest.mark.parametrize("batch_norm", [True, False])
@pytest.mark.parametrize("last_batch_norm", [True, False])
def test_width_is_what_comes_out(kind, batch_norm, last_batch_norm):
    head = build_head(
        kind, 6, 10, 4, batch_norm=batch_norm, last_batch_norm=last_batch_norm
    )
    assert head.width == (6 if kind == "none" else 4)
    assert head(torch.randn(5, 6)).shape == (5, head.width)
    assert kinds(head).count("Linear") == HEADS[kind]


def test_layers():
    block = ["Linear", "BatchNorm1d", "ReLU"]
    assert kinds(build_head("mlp3", 6, 10, 4)) == [*block, *block, "Linear"]
    assert kinds(build_head("mlp2", 6, 10, 4, batch_norm=False)) == [
        "Linear",
        "ReLU",
        "Linear",
    ]
    assert kinds(build_head("linear", 6, 10, 4)) == ["Linear"]
    x = torch.randn(5, 6)
    assert torch.equal(build_head("none", 6)(x), x)


def test_last_batch_norm_standardizes_without_scale_or_shift():
    head = build_head("mlp2", 6, 32, 4, last_batch_norm=True)
    z = head(torch.randn(512, 6))
    torch.testing.assert_close(z.mean(0), torch.zeros(4), atol=1e-5, rtol=0)
    torch.testing.assert_close(z.std(0), torch.ones(4), atol=1e-2, rtol=0)
    assert not list(head[-1].parameters())
    assert head[-2].bias is None


def test_a_linear_layer_before_a_batch_norm_has_no_bias():
    head = build_head("mlp3", 6, 10, 4)
    biases = [layer.bias is not None for layer in head if isinstance(layer, nn.Linear)]
    assert biases == [False, False, True]


def test_predictor_keeps_the_width():
    predictor = Predictor(8, 3)
    assert predictor.width == 8
    assert kinds(predictor) == ["Linear", "BatchNorm1d", "ReLU", "Linear"]
    assert predictor(torch.randn(5, 8)).shape == (5, 8)


def test_settings_that_cannot_work():
    with pytest.raises(SettingError, match="Unknown head 'mlp4'"):
        build_head("mlp4", 6)
    with pytest.raises(SettingError, match="1 or more"):
        build_head("mlp2", 6, 0, 4)
    with pytest.raises(SettingError, match="1 or more"):
        Predictor(8, 0)

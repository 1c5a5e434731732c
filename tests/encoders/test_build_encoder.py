"""Names and modules become encoders of a known width, or a sentence says why not."""

import subprocess
import sys
import time

import pytest
import torch
from torch import nn

from invariance.encoders import ENCODERS, Encoder, build_encoder, standardize
from invariance.errors import DataError, SettingError, ShapeError


def images(n=2, channels=3, size=32):
    generator = torch.Generator().manual_seed(0)
    return torch.rand(n, channels, size, size, generator=generator)


@pytest.mark.parametrize("name", ENCODERS)
@pytest.mark.parametrize(("channels", "size"), [(3, 32), (1, 28), (3, 96), (4, 8)])
def test_ours_take_any_channels_and_size(name, channels, size):
    encoder = build_encoder(name, channels=channels, image_size=size)
    h = encoder(images(3, channels, size))
    assert h.shape == (3, encoder.width)
    h.sum().backward()
    assert all(p.grad is not None for p in encoder.parameters())


@pytest.mark.parametrize(
    ("name", "width"),
    [
        ("resnet18", 512),
        ("timm/resnet10t", 512),  # a stem of three convolutions
        ("mobilenetv3_small_050", 1024),  # wider than its num_features
        ("vit_tiny_patch16_224", 192),  # a fixed image size
        ("torchvision/resnet18", 512),
        ("torchvision/mobilenet_v3_small", 576),
        ("torchvision/shufflenet_v2_x0_5", 1024),
    ],
)
def test_names_of_timm_and_torchvision(name, width):
    encoder = build_encoder(name, channels=1)
    assert (encoder.width, encoder.name) == (width, name)
    assert encoder(images(channels=1)).shape == (2, width)


def test_second_classifiers_are_taken_off():
    encoder = build_encoder("torchvision/googlenet").train()
    assert encoder(images()).shape == (2, encoder.width)


@pytest.mark.parametrize("name", ["resnet18", "resnet10t", "torchvision/resnet18"])
@pytest.mark.parametrize(
    ("stem", "size", "places"),
    [("auto", 32, 32), ("auto", 72, 18), ("large", 32, 8), ("small", 72, 72)],
)
def test_the_small_stem_keeps_every_pixel(name, stem, size, places):
    network = build_encoder(name, stem=stem, image_size=size).network
    seen = []
    network.layer1.register_forward_pre_hook(lambda _, x: seen.append(x[0].shape[-1]))
    with torch.no_grad():
        network.eval()(images(1, size=size))
    assert seen == [places]


def test_small_stem_is_three_by_three_without_a_max_pool():
    for name in ("resnet18", "torchvision/resnet18"):
        network = build_encoder(name).network
        assert network.conv1.kernel_size == (3, 3)
        assert network.conv1.stride == (1, 1)
        assert isinstance(network.maxpool, nn.Identity)


def test_small_stem_on_another_network_is_refused():
    with pytest.raises(SettingError, match="begins like a ResNet"):
        build_encoder("tiny", stem="small")
    with pytest.raises(SettingError, match="Did you mean 'small'"):
        build_encoder("tiny", stem="smal")


def test_unknown_names_get_the_nearest():
    with pytest.raises(SettingError, match=r"Unknown encoder 'resnet19'.*'resnet18'"):
        build_encoder("resnet19")
    with pytest.raises(SettingError, match="'torchvision/resnet18'"):
        build_encoder("torchvision/resnet19")
    with pytest.raises(SettingError, match="Did you mean 'tiny'"):
        build_encoder("tinny")
    with pytest.raises(SettingError, match=r"timm\.list_models"):
        build_encoder("zzzzqqqq")


def test_settings_that_cannot_work():
    with pytest.raises(SettingError, match="no pretrained weights"):
        build_encoder("tiny", pretrained=True)
    with pytest.raises(SettingError, match="3 channels"):
        build_encoder("torchvision/resnet18", channels=1, pretrained=True)
    with pytest.raises(SettingError, match="1 or more"):
        build_encoder("tiny", channels=0)
    with pytest.raises(SettingError, match=r"could not build 'resnet18\.nope'"):
        build_encoder("resnet18.nope")


def test_a_module_is_measured_and_left_alone():
    network = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.Dropout())
    network[1].eval()
    before = {k: v.clone() for k, v in network.state_dict().items()}
    random = torch.get_rng_state()
    encoder = build_encoder(network)
    assert encoder.network is network
    assert encoder.width == 4
    assert encoder.name == "Sequential"
    assert [m.training for m in network] == [True, False, True]
    assert torch.equal(torch.get_rng_state(), random)
    after = network.state_dict()
    assert all(torch.equal(after[k], before[k]) for k in before)
    assert build_encoder(encoder) is encoder


def test_buffers_written_in_a_forward_are_restored():
    class Counter(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("calls", torch.zeros(()))

        def forward(self, x):
            self.calls += 1
            return x.flatten(1)

    network = Counter()
    assert build_encoder(network, image_size=4).width == 48
    assert network.calls == 0


def test_a_callers_resnet_keeps_its_stem_unless_asked():
    from torchvision.models import resnet18

    assert build_encoder(resnet18()).network.conv1.kernel_size == (7, 7)
    small = build_encoder(resnet18(), stem="small")
    assert small.network.conv1.kernel_size == (3, 3)


def test_maps_are_averaged_and_doubles_stay_doubles():
    encoder = Encoder(nn.Conv2d(3, 6, 1).double(), input_shape=(3, 5, 5))
    x = images(size=5).double()
    torch.testing.assert_close(encoder(x), encoder.network(x).mean((2, 3)))


@pytest.mark.parametrize(
    ("network", "message"),
    [
        (nn.Flatten(2), r"\(n e h w\) maps.*a tensor of shape \(1, 3, 1024\)"),
        (nn.Flatten(0), r"a tensor of shape \(3072,\)"),
        (nn.LSTM(32, 4), "could not take a batch of shape"),
        (nn.Linear(7, 4), r"shape \(1, 3, 32, 32\).*channels and image_size"),
        (nn.Flatten(0, 1), "one row per sample: got 3 rows for 1 samples"),
    ],
)
def test_other_outputs_are_refused_in_words(network, message):
    if isinstance(network, nn.Flatten) and network.end_dim == 1:
        network = nn.Sequential(network, nn.Flatten(1))
    with pytest.raises(ShapeError, match=message):
        build_encoder(network)


def test_importing_encoders_does_not_import_timm():
    code = "import sys, invariance.encoders as e; e.build_encoder('tiny'); "
    code += "sys.exit('timm' in sys.modules or 'torchvision' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.fixture
def out_of_reach(monkeypatch, tmp_path):
    """No server answers, and nothing was fetched before."""
    from huggingface_hub import constants

    def refuse(*_, **__):
        raise ConnectionRefusedError

    monkeypatch.setattr("socket.create_connection", refuse)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setenv("TORCH_HOME", str(tmp_path))


@pytest.mark.parametrize("name", ["resnet18", "torchvision/resnet18"])
def test_without_a_network_weights_are_given_up_at_once(out_of_reach, name):
    began = time.monotonic()
    with pytest.raises(DataError, match="connect to the network once"):
        build_encoder(name, pretrained=True)
    assert time.monotonic() - began < 15  # the hub's own retries take a minute


def test_a_name_server_that_does_not_answer_is_not_waited_for(monkeypatch):
    def answer_late(*_, **__):
        time.sleep(60)
        raise TimeoutError

    monkeypatch.setattr("socket.create_connection", answer_late)
    # only a shorter wait makes the test short
    monkeypatch.setattr("invariance.encoders._network.SECONDS", 0.2)
    began = time.monotonic()
    with pytest.raises(DataError, match="the server cannot be reached"):
        build_encoder("torchvision/resnet18", pretrained=True)
    assert time.monotonic() - began < 15


def test_weights_that_cannot_be_fetched_are_one_sentence(monkeypatch):
    def offline(*_, **__):
        raise OSError("cannot find the file on the Hub.\nCheck your connection.")

    monkeypatch.setattr("timm.create_model", offline)
    with pytest.raises(DataError, match=r"weights of 'resnet18' could not") as told:
        build_encoder("resnet18", pretrained=True)
    assert "\n" not in str(told.value) and "leave pretrained out" in str(told.value)


def test_names_of_weights_are_those_of_older_files():
    encoder = standardize(build_encoder("tiny"), [0.5] * 3, [0.2] * 3)
    names = list(encoder.state_dict())
    assert names[:3] == [
        "network.0.mean",
        "network.0.std",
        "network.1.layers.0.0.weight",
    ]
    assert len(names) == 2 + 5 * 6

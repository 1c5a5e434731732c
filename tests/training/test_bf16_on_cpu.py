"""bf16 on a CPU: proposed where it gains, refused where gradients would be wrong."""

import copy

import numpy as np
import pytest
import torch
from torch import nn

from invariance import devices
from invariance.errors import SettingError
from invariance.training import Machine, train

BF16 = Machine(device="cpu", precision="bf16")


@pytest.fixture
def hardware(monkeypatch):
    """Say whether this CPU has bf16."""

    def set_to(has):
        name = "invariance.training._bf16_on_cpu.computes_bf16"
        monkeypatch.setattr(name, lambda device: has)

    return set_to


def proposals(result):
    return [fact for fact in result.facts if fact.startswith("precision")]


def test_it_is_proposed_to_images_on_a_cpu_that_has_it(small, pictures, hardware):
    settings = small(dry_run=True, machine=Machine(device="cpu"))
    hardware(True)
    (fact,) = proposals(train(settings, data=pictures))
    assert "--machine.precision bf16" in fact
    hardware(False)
    assert not proposals(train(settings, data=pictures))


def test_a_cpu_that_may_only_emulate_it_says_so(small, pictures, hardware):
    hardware(False)
    (fact,) = proposals(train(small(dry_run=True, machine=BF16), data=pictures))
    assert "not known to have it" in fact and "--machine.precision 32" in fact


@pytest.mark.parametrize(
    "changes",
    [
        {"machine": BF16},
        {"machine": Machine(device="cpu", precision="32")},
        {"encoder": "mobilenetv3_small_050"},
        {"data": "latent_walk", "method": "cpc", "encoder": "auto", "hidden": None},
    ],
    ids=["chosen", "declined", "channels in groups", "measured numbers"],
)
def test_it_is_not_proposed_where_it_would_not_gain(small, hardware, changes):
    hardware(True)
    given = {"data": "shapes", "limit": 64, "machine": Machine(device="cpu"), **changes}
    assert not proposals(train(small(dry_run=True, **given)))


def test_it_learns_as_float32_does(small, pictures, readings):
    losses = []
    for machine in (BF16, Machine(device="cpu", precision="32")):
        run = train(small(machine=machine), data=pictures)
        losses.append([reading["loss"] for reading in readings(run.folder)])
    rounded, exact = map(np.array, losses)
    assert (rounded != exact).any()
    np.testing.assert_allclose(rounded, exact, rtol=0.02)


def network_over(size, layer):
    """A network whose only convolution sees maps of this size."""
    return nn.Sequential(nn.AdaptiveAvgPool2d(size), layer, nn.Flatten())


NARROW = {
    "1x1": ((1, 1), nn.Conv2d(3, 4, 3, 2, 1)),
    "4x1": ((4, 1), nn.Conv2d(3, 4, 3, 2, 1)),
    "3x3": ((3, 3), nn.Conv2d(3, 4, 7, 4, 3)),
}
WIDE = {
    "single pixels in steps of 1": ((1, 1), nn.Conv2d(3, 4, 3, 1, 1)),
    "one axis": ((1, 8), nn.Conv2d(3, 4, (1, 3), (1, 2))),
    "wide": ((8, 8), nn.Conv2d(3, 4, 3, 2, 1)),
    "no neighbors": ((1, 1), nn.Conv2d(3, 4, 1, 2)),
}


@pytest.mark.parametrize("dry_run", [False, True])
@pytest.mark.parametrize("size", NARROW)
def test_maps_narrower_than_a_stride_are_refused(small, pictures, size, dry_run):
    network = network_over(*NARROW[size])
    settings = small(machine=BF16, dry_run=dry_run)
    words = rf"over maps of {size}, .* --machine.precision 32"
    with pytest.raises(SettingError, match=words):
        train(settings, data=pictures, encoder=network)
    assert not network[1]._forward_pre_hooks  # it is its owner's again


def test_convolutions_along_three_axes_are_refused(small, pictures):
    network = nn.Sequential(
        nn.Unflatten(1, (3, 1)),
        nn.Conv3d(3, 4, 3, padding=(2, 1, 1)),
        nn.AdaptiveAvgPool3d(1),
        nn.Flatten(),
    )
    with pytest.raises(SettingError, match="along three axes"):
        train(small(machine=BF16), data=pictures, encoder=network)
    machine = Machine(device="cpu", precision="32")
    assert train(small(machine=machine), data=pictures, encoder=network).metrics


@pytest.mark.parametrize("maps", WIDE)
def test_all_other_maps_are_trained_on(small, pictures, maps):
    network = network_over(*WIDE[maps])
    run = train(small(machine=BF16, epochs=1), data=pictures, encoder=network)
    assert run.metrics and not network[1]._forward_pre_hooks


def test_float32_is_not_refused_to_functions_and_copies(small, pictures):
    copies = []

    def look(epoch, learner):
        copies.append(copy.deepcopy(learner.encoder))
        assert learner.encoder(torch.rand(2, 3, 1, 1)).isfinite().all()
        return {}

    network = nn.Sequential(
        nn.Conv2d(3, 4, 3, 2, 1), nn.AdaptiveAvgPool2d(1), nn.Flatten()
    )
    train(
        small(machine=BF16, epochs=1),
        data=pictures,
        encoder=network,
        each_epoch=look,
    )
    assert copies[0](torch.rand(2, 3, 1, 1)).isfinite().all()


def test_float32_trains_on_narrow_maps(small, pictures):
    network = network_over(*NARROW["1x1"])
    machine = Machine(device="cpu", precision="32")
    assert train(small(machine=machine, epochs=1), data=pictures, encoder=network)


def test_gradients_that_are_not_refused_are_right():
    """What is not refused does not depend on what the memory held before."""
    for size, layer in WIDE.values():
        images = torch.rand(16, 3, *size)
        reference = gradient_of(layer, images)
        junk = [torch.full((n,), torch.nan) for n in (10**3, 10**4, 10**5, 10**6)]
        del junk
        with torch.autocast("cpu", dtype=torch.bfloat16):
            rounded = gradient_of(layer, images)
        torch.testing.assert_close(rounded, reference, rtol=0.05, atol=0.05)


def gradient_of(layer, images):
    return torch.autograd.grad(layer(images).float().square().mean(), layer.weight)[0]


def test_fp16_is_for_gpus(small, pictures):
    machine = Machine(device="cpu", precision="fp16")
    with pytest.raises(SettingError, match="A CPU does not train in fp16"):
        train(small(machine=machine), data=pictures)


@pytest.mark.parametrize("flag", ["avx512_bf16", "amx_bf16", "avx512f"])
def test_a_cpu_has_what_linux_says(monkeypatch, flag):
    text = f"model name\t: A CPU\nflags\t\t: fpu {flag} sse\n\nflags\t\t: none\n"
    monkeypatch.setattr(devices.Path, "read_text", lambda *_, **__: text)
    assert devices.computes_bf16("cpu") == flag.endswith("bf16")
    assert devices.read_cpu()["model name"] == "A CPU"
    assert not devices.computes_bf16("mps")

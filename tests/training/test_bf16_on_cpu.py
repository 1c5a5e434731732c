"""bf16 on a CPU: proposed where it gains, refused where gradients would be wrong."""

import numpy as np
import pytest
import torch
from torch import nn

import invariance as inv
from invariance.devices import computes_bf16
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


@pytest.mark.parametrize("dry_run", [False, True])
def test_maps_of_one_pixel_are_refused(small, dry_run):
    images = np.zeros((32, 8, 8, 3), dtype=np.uint8)
    settings = small(machine=BF16, dry_run=dry_run)
    with pytest.raises(SettingError, match=r"maps of 1x1.* --machine.precision 32"):
        train(settings, data=images)
    train(small(machine=Machine(device="cpu", precision="32")), data=images)


def test_a_network_of_ones_own_is_given_back_as_it_was(small, pictures):
    network = nn.Sequential(nn.Conv2d(3, 4, 3, padding=1), nn.Flatten())
    train(small(machine=BF16), data=pictures, encoder=network)
    assert network(torch.rand(2, 3, 1, 1)).shape == (2, 4)


def test_only_hardware_counts(monkeypatch):
    monkeypatch.setattr(inv.devices, "BF16_FLAGS", frozenset())
    assert not computes_bf16("cpu") and not computes_bf16("mps")

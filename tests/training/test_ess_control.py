"""The temperature follows its target; the paper's printed rule runs away."""

import pytest
import torch

from invariance.diagnostics import effective_sample_size
from invariance.errors import SettingError
from invariance.objectives import (
    BYOL,
    DCL,
    DHEL,
    KCL,
    BinaryNCE,
    InfoNCE,
    NTXent,
    SwAV,
    VICReg,
)
from invariance.training import Ess, EssController, train


@pytest.fixture
def pair():
    generator = torch.Generator().manual_seed(0)
    u = torch.randn(48, 16, generator=generator)
    return u, u + 0.5 * torch.randn(48, 16, generator=generator)


@pytest.mark.parametrize("start", [0.05, 2.0])
@pytest.mark.parametrize("objective", [NTXent, InfoNCE, DCL, DHEL])
def test_it_reaches_its_target_from_either_side(objective, start, pair):
    objective = objective(temperature=start)
    controller = EssController(objective, Ess(target=0.25, rate=0.02))
    for _ in range(150):
        controller.update(objective.shares(*pair).mean(), progress=0.0)
    # the negatives the loss has, which differ: asked of the diagnostics by name
    how = {"temperature": objective.temperature, "negatives": objective.negatives}
    assert effective_sample_size(*pair, **how) == pytest.approx(0.25, abs=0.02)


def test_the_printed_rule_runs_away(pair):
    """Algorithm S2 lowers beta where the ESS is above its target; that raises it."""
    beta, rate, target = 2.0, 0.05, 0.25
    for _ in range(200):
        ess = effective_sample_size(*pair, temperature=1 / beta)
        beta *= 1 - rate if ess > target else 1 + rate
    assert beta < 1e-3 and ess > 0.999


def test_targets_may_move():
    controller = EssController(NTXent(), Ess(target=0.4, end=0.2))
    assert [controller.target(p) for p in (0.0, 0.5, 1.0)] == pytest.approx(
        [0.4, 0.3, 0.2]
    )
    bent = EssController(NTXent(), Ess(schedule=(0.5, 0.2, 0.3)))
    places = (0.0, 0.25, 0.5, 0.75, 1.0)
    wanted = pytest.approx([0.5, 0.35, 0.2, 0.25, 0.3])
    assert [bent.target(p) for p in places] == wanted
    assert [float(bent.target(torch.tensor(p))) for p in places] == wanted
    constant = EssController(NTXent(), Ess(target=0.4))
    assert constant.target(0.7) == 0.4


def test_the_temperature_stays_in_bounds():
    objective = NTXent(temperature=0.005)
    EssController(objective, Ess(target=0.01, rate=0.5)).update(0.9, progress=0.0)
    assert objective.temperature >= 0.005


@pytest.mark.parametrize("objective", [BYOL(), KCL(), VICReg(), SwAV(8), BinaryNCE()])
def test_objectives_without_a_softmax_are_refused(objective):
    with pytest.raises(SettingError, match="needs a softmax over negatives"):
        EssController(objective, Ess(target=0.3))


@pytest.mark.parametrize(
    "ess, message",
    [
        (Ess(target=1.5), "ess.target lies between 0 and 1: got 1.5"),
        (Ess(target=0.3, end=0.0), "ess.end lies between 0 and 1: got 0.0"),
        (Ess(schedule=(0.3, 2.0)), "ess.schedule lies between 0 and 1: got 2.0"),
        (Ess(target=0.3, rate=1.0), "ess.rate lies between 0 and 1: got 1.0"),
    ],
)
def test_impossible_targets_are_refused(ess, message):
    with pytest.raises(SettingError, match=message):
        EssController(NTXent(), ess)


def test_a_run_with_a_target_moves_its_temperature(small, pictures):
    run = train(small(ess=Ess(target=0.2, rate=0.05)), data=pictures)
    temperatures = [m["temperature"] for m in run.metrics]
    assert temperatures[-1] < temperatures[0]  # untrained rows crowd: ESS starts high
    fixed = train(small(), data=pictures)
    assert {m["temperature"] for m in fixed.metrics} == {0.5}


def test_a_run_without_a_softmax_refuses_a_target(small, pictures):
    settings = small(method="vicreg", ess=Ess(target=0.2))
    with pytest.raises(SettingError, match="VICReg has none"):
        train(settings, data=pictures)


def test_a_run_reads_and_controls_what_its_memory_holds(small, pictures):
    changes = {"method": "ball", "options": {"k": 8}, "epochs": 4}
    settings = small(ess=Ess(target=0.5, rate=0.2), **changes)
    run = train(settings, data=pictures)
    assert all(1 / 8 <= m["ess"] <= 1 for m in run.metrics)
    # each step moves by the reading that it wrote
    for before, after in zip(run.metrics, run.metrics[1:], strict=False):
        cooler = after["temperature"] < before["temperature"]
        assert cooler == (after["ess"] > 0.5)
    with pytest.raises(SettingError, match="At least one of 8 negatives"):
        train(small(ess=Ess(target=0.1), **changes), data=pictures)


def test_a_run_without_a_softmax_has_no_ess(small, pictures):
    run = train(small(method="vicreg", epochs=1), data=pictures)
    assert all("ess" not in reading for reading in run.metrics)

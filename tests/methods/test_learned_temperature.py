"""A temperature that is learned: where it starts, and what it never falls below."""

import pytest
import torch

import invariance as inv
from invariance.encoders import build_encoder
from invariance.errors import SettingError
from invariance.methods import METHODS, Method, build, customize, options_of
from invariance.partition import explain

WITH_ONE = [name for name in METHODS if "temperature_start" in options_of(name)]


def make(method, **options):
    torch.manual_seed(0)
    method = customize(method, hidden=8, width=6)
    return build(method, build_encoder("tiny", image_size=16), n_samples=40, **options)


def temperature_of(method, **options):
    return make(method, temperature="learned", **options).objective.temperature


def test_methods_with_a_temperature_say_what_a_learned_one_can_be_told():
    assert "simclr" in WITH_ONE and "moco" in WITH_ONE and "kcl" not in WITH_ONE
    for name in WITH_ONE:
        options = options_of(name)
        known = METHODS[name].settings
        start = known.get("temperature_start", options["temperature"].default)
        assert options["temperature_start"].default == start
        minimum = known.get("temperature_minimum", 0.025)
        assert options["temperature_minimum"].default == minimum


@pytest.mark.parametrize("method, start", [("moco", 0.2), ("simclr", 0.5)])
def test_it_starts_where_the_method_s_stands(method, start):
    options = {"size": 20} if method == "moco" else {}
    learned = temperature_of(method, **options)
    assert float(learned) == pytest.approx(start) and learned.minimum == 0.025


def test_start_and_minimum_can_be_told():
    how = {"temperature_start": 0.07, "temperature_minimum": 0.01}
    learned = temperature_of("info_nce", **how)
    assert float(learned) == pytest.approx(0.07) and learned.minimum == 0.01
    mine = Method(objective="info_nce", settings={"temperature": "learned"} | how)
    assert make(mine).objective.temperature.minimum == 0.01
    assert make(mine, temperature=0.3).objective.temperature == 0.3
    assert make(mine, temperature_minimum=0.02).objective.temperature.minimum == 0.02


@pytest.mark.parametrize(
    "options, message",
    [
        (
            {"temperature_start": 0.3},
            "temperature_start is for a temperature that",
        ),
        (
            {"temperature": 0.2, "temperature_minimum": 0.1},
            "temperature_minimum is",
        ),
        (
            {"temperature": "learned", "temperature_start": 0.01},
            "starts at its minimum 0.025 or above: got 0.01",
        ),
        ({"temperature": "learned", "temperature_minimum": 0}, "minimum must be"),
        ({"temperature": "learned", "temperature_start": "warm"}, "got 'warm'"),
    ],
)
def test_what_cannot_be_is_answered(options, message):
    with pytest.raises(SettingError, match=message) as raised:
        make("info_nce", **options)
    assert "\n  temperature_minimum " in str(raised.value)


@pytest.mark.parametrize("minimum", [0.05, 0.01])
def test_a_solved_batch_drives_it_to_its_minimum_and_no_further(minimum):
    """Below 1/42 exponentials leave float32 where nothing is subtracted from them."""
    temperature = inv.objectives.LearnedTemperature(0.06, minimum=minimum)
    objective = inv.InfoNCE(temperature=temperature)
    z = torch.nn.functional.normalize(torch.randn(16, 8), dim=1)
    u, v = z.clone().requires_grad_(), z + 0.1 * torch.randn(16, 8)
    optimizer = torch.optim.SGD(objective.parameters(), lr=50.0)
    for _ in range(200):
        optimizer.zero_grad()
        loss = objective(u, v)
        loss.backward()
        optimizer.step()
    assert float(temperature) == pytest.approx(minimum)
    exact = inv.info_nce(u.double(), v.double(), temperature=minimum)
    torch.testing.assert_close(objective(u, v).double(), exact, rtol=1e-4, atol=1e-6)
    assert u.grad.isfinite().all()
    assert explain(objective, u, v)

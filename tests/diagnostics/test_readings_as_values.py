"""Readings as values: fields, labels, old files, notebooks, and the thresholds."""

import json
import math

import pytest
import torch

from invariance.diagnostics import (
    Diagnosis,
    Reading,
    collapse,
    diagnosis,
    dimensions,
    effective_rank,
    is_collapsed,
    is_saturated,
    mutual_information_bound,
    reachable_information,
    uses_few_directions,
)

OLD_AND_NEW = [
    ("uniformity", "uniformity", {}),
    (
        "gradient signal to noise, nt_xent, batches of 64",
        "gradient signal to noise",
        {"objective": "nt_xent", "batch_size": 64},
    ),
    ("information, batches of 16", "information", {"batch_size": 16}),
    ("information, pool of 12,800", "information", {"n_pool": 12_800}),
    (
        "augmentation kept, crop area",
        "augmentation kept",
        {"augmentation": "crop area"},
    ),
    # a comma alone says nothing: these are names
    ("information, sharpest temperature", "information, sharpest temperature", {}),
    ("augmentations kept, mean", "augmentations kept, mean", {}),
]


@pytest.mark.parametrize(("old", "name", "settings"), OLD_AND_NEW)
def test_a_name_of_an_older_file_becomes_fields_and_the_label_is_the_old_name(
    old, name, settings
):
    values = {"name": old, "of": "z", "value": 0.5, "meaning": "Half.", "unit": ""}
    reading = Reading.from_dict({**values, "ideal": None, "ceiling": 1.0})
    assert (reading.name, reading.settings, reading.label) == (name, settings, old)
    assert (reading.value, reading.ceiling, reading.meaning) == (0.5, 1.0, "Half.")


def test_a_reading_of_today_is_not_parsed():
    reading = Reading("information, pool of 3", "h", 1.0, "", objective="dcl")
    again = Diagnosis.from_dict(Diagnosis((reading,), {}, {}).as_dict())
    assert again.readings == (reading,)


def test_what_is_missing_or_unknown_in_a_file_is_no_error():
    reading = Reading.from_dict({"name": "spread", "value": None, "color": "red"})
    assert math.isnan(reading.value) and (reading.of, reading.meaning) == ("", "")


def test_a_diagnosis_survives_its_file():
    rows = torch.randn(2, 60, 8, generator=torch.Generator().manual_seed(0))
    result = diagnosis(rows, labels=torch.arange(60) % 3).plus(notes=("a note",))
    again = Diagnosis.from_dict(json.loads(json.dumps(result.as_dict())))
    assert again == result


def test_a_diagnosis_in_a_notebook_and_as_text():
    reading = Reading("x", "h", 0.25, "less <b> than", "nats", batch_size=4)
    result = Diagnosis((reading,), {}, {}, ("<i>",))
    page = result._repr_html_()
    assert "x, batches of 4" in page and "0.25 nats" in page
    assert "&lt;b&gt;" in page and "<b>" not in page and "<p>&lt;i&gt;</p>" in page
    assert str(result).splitlines() == [
        "x, batches of 4 (h): 0.25 nats. less <b> than",
        "Note: <i>",
    ]
    assert result["x, batches of 4", "h"] is reading


# ---------------------------------------------------------------- thresholds


def test_collapse_and_bound_decide_by_the_one_rule():
    g = torch.Generator().manual_seed(0)
    near = torch.ones(40, 9) + 0.05 * torch.randn(40, 9, generator=g)
    spread = torch.randn(40, 9, generator=g)
    for z in (near, spread):
        assert collapse(z).collapsed == is_collapsed(collapse(z).ratio)
        assert dimensions(z).collapsed == uses_few_directions(dimensions(z).used, 9)
    for noise in (0.1, 1.0, 10.0):
        v = spread + noise * torch.randn(40, 9, generator=g)
        bound = mutual_information_bound(spread, v, temperature=0.1)
        assert bound.saturated == is_saturated(
            bound.nats, bound.ceiling, bound.reachable
        )


def test_rows_on_a_line_are_collapsed_though_they_spread():
    z = torch.ones(10, 16) * torch.tensor([1.0, -1.0]).repeat(5)[:, None]
    assert collapse(z).ratio == pytest.approx(1)
    assert not is_collapsed(collapse(z).ratio)
    assert is_collapsed(collapse(z).ratio, effective_rank(z))


def test_a_bound_is_saturated_once_the_information_is_at_the_ceiling():
    """At I = log(n - 1) a critic that is right everywhere leaves exactly log 2."""
    for n in (8, 256, 4096):
        ceiling = math.log(n)
        for extra, saturated in ((-0.1, False), (0.1, True)):
            shared = math.log(n - 1) + extra
            nats = ceiling - math.log1p((n - 1) * math.exp(-shared))
            assert is_saturated(nats, ceiling) == saturated
    assert not is_saturated(0.1, math.log(2))  # of two rows log 2 is everything
    assert not is_saturated(99.0, None)


def test_a_partner_alone_shows_nothing():
    assert reachable_information(1, 0.1) == 0
    assert not is_saturated(0.0, 0.0)


def test_a_bound_is_saturated_by_what_its_temperature_allows():
    """The same share of it as of the ceiling; equal to the ceiling it is the same."""
    ceiling = math.log(128)
    edge = 1 - math.log(2) / ceiling
    for reachable in (0.5, 1.97, ceiling):
        assert is_saturated(1.001 * edge * reachable, ceiling, reachable)
        assert not is_saturated(0.999 * edge * reachable, ceiling, reachable)
    assert not is_saturated(1.41, ceiling, reachable_information(128, 0.5))

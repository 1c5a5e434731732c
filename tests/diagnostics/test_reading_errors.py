"""What the diagnostics say about input that cannot be read."""

import jaxtyping
import numpy as np
import pytest
import torch

from invariance.diagnostics import (
    alignment,
    collapse,
    contrastive_accuracy,
    effective_rank,
    effective_sample_size,
    energy_distance_to_uniform,
    mmd_to_uniform,
    mutual_information_bound,
    singular_spectrum,
    split_info_nce,
    tolerance,
    uniform_sphere_uniformity,
    uniformity,
    wasserstein_to_uniform,
)
from invariance.errors import DataError, SettingError, ShapeError

pytestmark = pytest.mark.usefixtures("unchecked")


@pytest.fixture
def unchecked(monkeypatch):
    """Shape annotations off, as for users: what speaks up is the library itself."""
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)


DISTANCES = [wasserstein_to_uniform, mmd_to_uniform, energy_distance_to_uniform]
ONE = [uniformity, effective_rank, singular_spectrum, *DISTANCES, collapse]
TWO = [
    alignment,
    contrastive_accuracy,
    lambda u, v: effective_sample_size(u, v, temperature=0.1),
    lambda u, v: mutual_information_bound(u, v, temperature=0.1),
    lambda u, v: split_info_nce(u, v, temperature=0.1),
]


@pytest.mark.parametrize("reading", ONE)
def test_one_set(reading):
    with pytest.raises(ShapeError, match=r"z needs one row per sample.*\(2, 3, 4\)"):
        reading(torch.zeros(2, 3, 4))
    with pytest.raises(ShapeError, match=r"needs one row per sample.*got \(3, 0\)"):
        reading(torch.zeros(3, 0))
    with pytest.raises(DataError, match=r"torch\.int64.*z\.float\(\)"):
        reading(torch.zeros(4, 2, dtype=torch.long))
    with pytest.raises(DataError, match=r"got ndarray.*torch\.as_tensor"):
        reading(np.zeros((4, 2)))
    z = torch.ones(8, 3)
    z[2, 0], z[5, 1] = float("nan"), float("inf")
    with pytest.raises(DataError, match=r"in 2 of 8 rows \(first: row 2\)"):
        reading(z)
    with pytest.raises(ShapeError, match=r"at least \d rows?: got \(0, 3\)"):
        reading(torch.zeros(0, 3))


@pytest.mark.parametrize("reading", [uniformity, *DISTANCES, collapse])
def test_one_row_has_no_pair(reading):
    with pytest.raises(ShapeError, match=r"at least 2 rows: got \(1, 3\)"):
        reading(torch.ones(1, 3))


@pytest.mark.parametrize("reading", TWO)
def test_two_views(reading):
    with pytest.raises(ShapeError, match=r"same width: got \(4, 3\) and \(5, 3\)"):
        reading(torch.ones(4, 3), torch.ones(5, 3))
    with pytest.raises(ShapeError, match=r"got \(4, 3\) and \(4, 2\)"):
        reading(torch.ones(4, 3), torch.ones(4, 2))
    with pytest.raises(DataError, match="v has NaN or infinity in 1 of 2 rows"):
        reading(torch.eye(2), torch.eye(2) / torch.tensor([[1.0], [0.0]]))


@pytest.mark.parametrize("reading", TWO[1:])
def test_one_row_has_no_negative(reading):
    with pytest.raises(ShapeError, match="u needs at least 2 rows"):
        reading(torch.ones(1, 3), torch.ones(1, 3))


@pytest.mark.parametrize("value", [0, -1.0, float("nan"), float("inf")])
def test_settings_above_zero(value):
    z = torch.eye(3)
    with pytest.raises(SettingError, match="t must be above 0"):
        uniformity(z, value)
    with pytest.raises(SettingError, match="t must be above 0"):
        uniform_sphere_uniformity(3, value)
    with pytest.raises(SettingError, match="alpha must be above 0"):
        alignment(z, z, value)
    with pytest.raises(SettingError, match="temperature must be above 0"):
        effective_sample_size(z, z, temperature=value)
    with pytest.raises(SettingError, match="temperature must be above 0"):
        mutual_information_bound(z, z, temperature=value)


def test_unknown_negatives():
    z = torch.eye(3)
    with pytest.raises(SettingError, match="Did you mean 'cross'"):
        effective_sample_size(z, z, temperature=1, negatives="crss")


def test_labels():
    z = torch.eye(3)
    with pytest.raises(ShapeError, match=r"one label per row, \(3,\): got \(2,\)"):
        tolerance(z, torch.tensor([0, 1]))
    with pytest.raises(DataError, match=r"integers: got torch\.float32.*long\(\)"):
        tolerance(z, torch.tensor([0.0, 1.0, 1.0]))
    with pytest.raises(DataError, match="No two of the 3 rows share a label"):
        tolerance(z, torch.tensor([0, 1, 2]))
    with pytest.raises(DataError, match="must be a torch tensor: got list"):
        tolerance(z, [0, 1, 2])


def test_spheres():
    with pytest.raises(ShapeError, match=r"at least 2 wide: got \(3, 1\)"):
        wasserstein_to_uniform(torch.ones(3, 1))
    with pytest.raises(SettingError, match="max_rows must be at least 2"):
        wasserstein_to_uniform(torch.eye(3), max_rows=1)
    with pytest.raises(ShapeError, match="at least 1: got 0"):
        uniform_sphere_uniformity(0)


def test_a_row_of_zeros_has_cosine_zero():
    z = torch.cat([torch.zeros(1, 2), torch.eye(2)])
    assert uniformity(z) == pytest.approx(-4)
    assert tolerance(z, torch.zeros(3, dtype=torch.long)) == pytest.approx(0)
    assert uniformity(torch.zeros(3, 2)) == pytest.approx(-4)
    assert effective_rank(torch.zeros(3, 2)) == collapse(torch.zeros(3, 2)).ratio == 0

"""The readings of a GPU's rows are those of the same rows on the CPU."""

import pytest
import torch

from invariance import diagnostics

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs CUDA")

READINGS = {
    "alignment": diagnostics.alignment,
    "contrastive_accuracy": diagnostics.contrastive_accuracy,
    "effective_sample_size": lambda u, v: diagnostics.effective_sample_size(
        u, v, temperature=0.1, negatives="all"
    ),
    "bound": lambda u, v: (
        diagnostics.mutual_information_bound(u, v, temperature=0.1).nats
    ),
    "uniformity": lambda u, v: diagnostics.uniformity(u),
    "effective_rank": lambda u, v: diagnostics.effective_rank(u),
    "wasserstein": lambda u, v: diagnostics.wasserstein_to_uniform(u, max_rows=100),
    "mmd": lambda u, v: diagnostics.mmd_to_uniform(u),
    "energy": lambda u, v: diagnostics.energy_distance_to_uniform(u),
    "split": lambda u, v: diagnostics.split_info_nce(u, v, temperature=0.1).loss,
    "collapse": lambda u, v: diagnostics.collapse(u).spread,
    "tolerance": lambda u, v: diagnostics.tolerance(
        u, torch.arange(len(u), device=v.device) % 5
    ),
}


@pytest.mark.parametrize("name", READINGS)
def test_cuda_reads_as_the_cpu(name):
    g = torch.Generator().manual_seed(0)
    u = torch.randn(300, 16, generator=g)
    v = u + torch.randn(300, 16, generator=g)
    reading = READINGS[name]
    assert reading(u.cuda(), v.cuda()) == pytest.approx(reading(u, v), abs=1e-4)

"""A GPU scores as the CPU does, and twice the same."""

import pytest
import torch

from invariance.evaluation import knn, linear_probe

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs CUDA")


@pytest.mark.parametrize("evaluate", [knn, linear_probe])
def test_cuda_scores_as_the_cpu(evaluate):
    g = torch.Generator().manual_seed(0)
    labels = torch.randint(5, (600,), generator=g)
    h = torch.randn(5, 16, generator=g)[labels] + torch.randn(600, 16, generator=g)
    data = h[:400], labels[:400], h[400:], labels[400:]
    there = [x.cuda() for x in data]
    score = evaluate(*there)
    assert score == evaluate(*there)
    assert score.accuracy == pytest.approx(evaluate(*data).accuracy, abs=0.011)

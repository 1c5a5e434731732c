"""A compiled encoder inside a captured step: runs repeat, and resume, to the bit."""

import numpy as np
import pytest
import torch
from tests.training.conftest import readings, small, stopped_after  # noqa: F401

from invariance.training import Machine, Optim, Train, train


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_compiled_runs_repeat_and_resume_to_the_bit(
    small,  # noqa: F811
    stopped_after,  # noqa: F811
    readings,  # noqa: F811
):
    images = np.random.default_rng(0).integers(0, 256, (160, 32, 32, 3), dtype=np.uint8)
    data = images, np.arange(160) % 4
    machine = Machine(device="cuda", compile=True)
    how = {"machine": machine, "optim": Optim(name="sgd"), "knn_every": 1}
    settings = small(encoder="resnet18", **how)
    first, second = (train(settings, data=data) for _ in range(2))
    folder = stopped_after(7, settings, data=data)
    resumed = train(Train(resume=str(folder), quiet=True), data=data)
    for run in (second, resumed):
        assert readings(run.folder) == readings(first.folder)
        weights = run.encoder().state_dict()
        for key, value in first.encoder().state_dict().items():
            assert torch.equal(value, weights[key])

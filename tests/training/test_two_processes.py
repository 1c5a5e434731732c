"""Two processes that share a batch train as one does, and say the same of it."""

import json
from functools import partial

import numpy as np
import pytest
import torch
from tests.processes import on_processes
from torch import nn

import invariance as inv

RUNS = {  # method: its options, and batches per step
    "simclr": ({}, 2),
    "pcl": ({"size": 32, "n_clusters": 3}, 1),  # twin, queue, bank and clusters
}


class Plain(nn.Module):
    """No batch norm, whose statistics would be each process's own."""

    def __init__(self):
        super().__init__()
        layers = nn.Conv2d(3, 8, 3, 2), nn.ReLU(), nn.Flatten(), nn.Linear(72, 8)
        self.layers = nn.Sequential(*layers)

    def forward(self, x):
        return self.layers(x)


def train(folder, devices, rank):
    """Every run, on one process or as one of several that torchrun has started."""
    images = np.random.default_rng(0).integers(0, 255, (80, 8, 8, 3), dtype=np.uint8)
    for method, (options, accumulate) in RUNS.items():
        torch.manual_seed(0)
        inv.train(
            inv.Train(
                epochs=2,
                batch_size=12,
                head="linear",
                width=6,
                method=method,
                name=method,
                options=options,
                evaluate=False,
                knn_every=1,
                log_every=1,
                quiet=True,
                optim=inv.Optim(name="sgd", accumulate=accumulate),
                ess=inv.Ess(target=0.5),  # moves the temperature after every step
                out=str(folder / f"{devices}"),
                machine=inv.Machine(device="cpu", devices=devices),
            ),
            data=(images, np.arange(80) % 5),
            encoder=Plain(),
        )


def test_the_curves_are_those_of_one_process(tmp_path):
    train(tmp_path, 1, 0)
    on_processes(2, partial(train, tmp_path, 2), tmp_path, torchrun=True)
    for method, n_steps in {"simclr": 6, "pcl": 12}.items():
        one, two = (read_curves(tmp_path / n / method) for n in "12")
        assert len(one) == len(two) == n_steps and "knn" in one[-1]
        for line, other in zip(one, two, strict=True):
            assert line == pytest.approx(other, rel=1e-4, abs=1e-5), method


def read_curves(run):
    """What is said of each step, but for the time it took."""
    lines = map(json.loads, (run / "metrics.jsonl").read_text().splitlines())
    return [{k: v for k, v in line.items() if "time" not in k} for line in lines]

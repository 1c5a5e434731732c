"""Two processes that share a batch train as one process does."""

import json
import subprocess
import sys

import pytest

SCRIPT = '''
import sys
import numpy as np
import torch
from torch import nn
import invariance as inv

class Plain(nn.Module):
    """No batch norm: each process would have its own statistics on a CPU."""
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Conv2d(3, 12, 3, 2), nn.ReLU(), nn.Flatten(),
                                    nn.Linear(12 * 49, 16))
    def forward(self, x):
        return self.layers(x)

if __name__ == "__main__":
    devices, method, accumulate = int(sys.argv[1]), sys.argv[2], int(sys.argv[3])
    images = np.random.default_rng(0).integers(0, 255, (80, 16, 16, 3), dtype=np.uint8)
    labels = np.arange(80) % 5
    torch.manual_seed(0)
    run = inv.train(
        inv.Train(
            epochs=2, batch_size=16, head="linear", width=8, method=method, name="run",
            evaluate=True, knn_every=1, log_every=1, quiet=True,
            optim=inv.Optim(name="sgd", accumulate=accumulate),
            out=f"{method}{accumulate}-{devices}",
            machine=inv.Machine(device="cpu", devices=devices)),
        data=(images, labels), encoder=Plain())
'''


@pytest.mark.parametrize("method, accumulate", [("simclr", 2)])
def test_the_losses_agree(method, accumulate, tmp_path, one_thread):
    (tmp_path / "script.py").write_text(SCRIPT)
    losses = []
    for devices in (1, 2):
        words = [str(devices), method, str(accumulate)]
        done = subprocess.run(
            [sys.executable, "script.py", *words],
            cwd=tmp_path,
            env=one_thread,
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr
        folder = tmp_path / f"{method}{accumulate}-{devices}"
        assert [path.name for path in folder.iterdir()] == ["run"]
        assert (folder / "run" / "encoder.safetensors").exists()
        lines = (folder / "run" / "metrics.jsonl").read_text().splitlines()
        losses.append([json.loads(line)["loss"] for line in lines])
    assert len(losses[0]) == 2 * (72 // 16 // accumulate)
    assert losses[1] == pytest.approx(losses[0], rel=1e-4)

"""The old run folders: where they are, how to open one, what is measured on it."""

import json
import math
import shutil
import zipfile
from pathlib import Path

import torch
from torch import nn

import invariance as inv

HERE = Path(__file__).parent
FINISHED = ("simclr", "vicreg", "ball", "tiny")
INTERRUPTED = ("moco", "la", "annulus", "tiny-stopped")
READINGS = ("alignment", "uniformity", "effective rank")


class SmallNetwork(nn.Sequential):
    """The encoder of most of them: 16 features, 1,400 weights."""

    def __init__(self):
        super().__init__(
            nn.Conv2d(3, 8, 3, stride=4, padding=1),
            nn.BatchNorm2d(8),
            nn.ReLU(),
            nn.Conv2d(8, 16, 3, stride=2, padding=1),
            nn.ReLU(),
            nn.AdaptiveAvgPool2d(1),
            nn.Flatten(),
        )


def network_of(name):
    """What inv.load needs to be given; the others name their encoder themselves."""
    return None if name.startswith("tiny") else SmallNetwork()


def unpack(name, out):
    """A copy of an old run that a test may change."""
    folder = Path(out) / name
    if (HERE / name).is_dir():
        shutil.copytree(HERE / name, folder)
    else:
        with zipfile.ZipFile(HERE / f"{name}.zip") as file:
            file.extractall(folder)
    return folder


def pictures():
    """Four pictures that no generator of random numbers had a part in."""
    places = torch.arange(4 * 3 * 32 * 32, dtype=torch.float64)
    waves = (torch.sin(0.013 * places) + torch.cos(0.0017 * places)) / 4 + 0.5
    return waves.float().reshape(4, 3, 32, 32)


def features(folder):
    """The first features of the pictures, by the encoder as it is loaded."""
    encoder = inv.load(folder, network=network_of(folder.name))
    with torch.no_grad():
        return encoder(pictures())[:, :6].tolist()


def knn(folder):
    """The score that inv.evaluate gives the trained encoder."""
    network = network_of(folder.name)
    (value,) = inv.evaluate(
        folder, protocols="knn", limit=128, network=network, device="cpu"
    ).values("knn")
    return value


def readings(folder):
    """What inv.diagnose reads of h, by name."""
    network = network_of(folder.name)
    diagnosis = inv.diagnose(folder, pool=300, network=network, device="cpu")
    return {r.name: r.value for r in diagnosis.readings if of_h(r)}


def of_h(reading):
    return reading.of == "h" and reading.name in READINGS


def resume(folder):
    """Let an interrupted run finish."""
    settings = inv.Train(resume=str(folder), quiet=True)
    inv.train(settings, encoder=network_of(folder.name))


def metrics(folder):
    """The rows of metrics.jsonl without the clock's; a row holds finite numbers."""
    lines = (folder / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    rows = [json.loads(line) for line in lines]
    assert all(math.isfinite(row["loss"]) for row in rows)
    return [{k: v for k, v in r.items() if not k.startswith("time/")} for r in rows]

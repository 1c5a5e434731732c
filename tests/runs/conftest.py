"""A run that took no training, and folders of images as people have them."""

import os
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

import invariance as inv
from invariance.encoders import build_encoder, standardize, write_encoder
from invariance.folder import to_yaml
from invariance.training import Train


def make_run(folder, name="tiny", image_size=16, channels=3, seed=0):
    """A finished run folder around an encoder with random weights."""
    folder.mkdir(parents=True)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        encoder = build_encoder(name, image_size=image_size, channels=channels)
        for parameter in encoder.parameters():  # so that no layer is idle
            parameter.data += 0.05 * torch.randn_like(parameter)
    encoder = standardize(encoder, [0.4] * channels, [0.25] * channels)
    write_encoder(encoder, folder / "encoder.safetensors")
    (folder / "config.yaml").write_text(to_yaml(Train(encoder=name)))
    return folder


@pytest.fixture(scope="session")
def run(tmp_path_factory):
    return make_run(tmp_path_factory.mktemp("runs") / "small")


@pytest.fixture(scope="session")
def other_run(tmp_path_factory):
    return make_run(tmp_path_factory.mktemp("runs") / "other", seed=1)


@pytest.fixture(scope="session")
def pixels():
    """40 different images of 16 x 16."""
    dice = np.random.default_rng(0)
    return dice.integers(0, 255, (40, 16, 16, 3), dtype=np.uint8)


@pytest.fixture
def photos(tmp_path, pixels):
    """Two classes of 10 images each, with odd names, and three broken files."""
    folder = tmp_path / "photos"
    names = [f"cat/{k}.png" for k in range(9)] + ['cat/a, "b"\nc.png']
    names += [f"dog/фото {k}.png" for k in range(9)] + ["dog/z.png"]
    for name, image in zip(names, pixels, strict=False):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(image).save(path)
    whole = (folder / "cat/0.png").read_bytes()
    (folder / "cat/cut.png").write_bytes(whole[: len(whole) // 2])
    (folder / "dog/empty.png").write_bytes(b"")
    (folder / "dog/words.jpg").write_text("not an image")
    return folder


@pytest.fixture(scope="session")
def one_thread():
    """The environment of a subprocess that takes one core and runs this source."""
    here = {"PYTHONPATH": str(Path(inv.__file__).parents[1])}
    return os.environ | here | {"OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore"}

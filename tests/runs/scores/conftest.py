"""One tiny run, made once, and copies of it to work on."""

import shutil
from pathlib import Path

import numpy as np
import pytest

from invariance.cli import main
from invariance.training import Train, train


def coloured(n, seed=0, size=16, n_classes=4):
    """Pictures whose bright corner is their class."""
    dice = np.random.default_rng(seed)
    labels = np.arange(n) % n_classes
    images = dice.integers(0, 120, (n, size, size, 3), dtype=np.uint8)
    half = size // 2
    for image, label in zip(images, labels, strict=True):
        rows, columns = divmod(int(label) % 4, 2)
        image[half * rows :, half * columns :] += 100
    return images, labels


@pytest.fixture(scope="session")
def pictures():
    """A maker of labelled pictures."""
    return coloured


@pytest.fixture(scope="session")
def first_run(tmp_path_factory):
    """A run of two seconds on a file of pictures; not to be written to."""
    folder = tmp_path_factory.mktemp("tiny")
    images, labels = coloured(240)
    np.savez(folder / "pictures.npz", images=images, labels=labels)
    return train(
        Train(
            data=str(folder / "pictures.npz"),
            epochs=3,
            batch_size=16,
            hidden=16,
            width=8,
            knn_every=1,
            quiet=True,
            out=str(folder / "runs"),
        )
    ).folder


@pytest.fixture
def run(first_run, tmp_path):
    """A copy of the tiny run."""
    return Path(shutil.copytree(first_run, tmp_path / "run"))


@pytest.fixture
def command(tmp_path, monkeypatch, capsys):
    """Run a command in an empty folder: exit code, what it said, what it complained."""
    monkeypatch.chdir(tmp_path)

    def call(*words):
        try:
            code = main([str(word) for word in words])
        except SystemExit as left:
            code = left.code
        said = capsys.readouterr()
        return code, said.out, said.err

    return call

"""The benchmarks' scripts, importable by name as they import each other."""

import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))


@pytest.fixture(scope="session")
def folder(tmp_path_factory):
    """train/ and test/ with two classes that a glance tells apart."""
    root, dice = tmp_path_factory.mktemp("images") / "set", np.random.default_rng(0)
    for part, n in (("train", 40), ("test", 10)):
        for label, name in enumerate(("dark", "light")):
            (root / part / name).mkdir(parents=True)
            for i in range(n):
                pixels = dice.integers(0, 120, (16, 16, 3), dtype=np.uint8)
                pixels += np.uint8(100 * label)
                Image.fromarray(pixels).save(root / part / name / f"{i:02}.png")
    return root

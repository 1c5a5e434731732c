from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image


def noise(k: int, side: int = 20) -> Image.Image:
    pixels = np.random.default_rng(k).integers(0, 256, (side, side + 4, 3), np.uint8)
    return Image.fromarray(pixels)


@pytest.fixture(name="picture")
def _picture() -> Callable[..., Image.Image]:
    return noise


@pytest.fixture
def fill(tmp_path: Path) -> Callable[..., Path]:
    """Write n small pictures into folders of a fresh folder."""

    def write(*folders: str, n: int = 5, suffix: str = ".png") -> Path:
        for f, folder in enumerate(folders or ("",)):
            (tmp_path / folder).mkdir(parents=True, exist_ok=True)
            for k in range(n):
                noise(100 * f + k).save(tmp_path / folder / f"{k:03}{suffix}")
        return tmp_path

    return write

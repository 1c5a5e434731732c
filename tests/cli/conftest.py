"""The command line, in this process and in one of its own."""

import os
import subprocess
import sys

import numpy as np
import pytest
from PIL import Image

from invariance.cli import main


@pytest.fixture
def command(tmp_path, monkeypatch, capsys):
    """Run a command in an empty folder: exit code, what it said, what it complained."""
    monkeypatch.chdir(tmp_path)

    def run(*words):
        try:
            code = main(list(words))
        except SystemExit as left:
            code = left.code
        said = capsys.readouterr()
        return code, said.out, said.err

    return run


@pytest.fixture
def python():
    """Run Python code in a process of its own; gives what it printed."""

    def run(code, *words):
        done = subprocess.run(
            [sys.executable, "-c", code, *words],
            capture_output=True,
            text=True,
            env=os.environ | {"OMP_NUM_THREADS": "1"},
        )
        return done.stdout + done.stderr

    return run


@pytest.fixture
def photos(tmp_path):
    """A folder as people have them: 60 good images and much else."""
    dice = np.random.default_rng(0)
    folder = tmp_path / "my photos"
    good = [f"holiday {i}.png" for i in range(20)]
    good += [f"отпуск/фото {i}.jpg" for i in range(20)]
    good += [f"休暇/写真{i}.png" for i in range(20)]
    for name in good:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        pixels = dice.integers(0, 255, (40, 36, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(path)
    whole = (folder / good[0]).read_bytes()
    for i in range(10):
        broken = whole[: 200 + 10 * i] if i % 2 else b"\x89PNG\r\n\x1a\n" + b"x" * 99
        (folder / f"broken {i}.png").write_bytes(broken)
    for i in range(5):
        (folder / f"notes {i}.txt").write_text("not an image")
    for i in range(3):
        (folder / f"empty {i}.jpg").write_bytes(b"")
    return folder

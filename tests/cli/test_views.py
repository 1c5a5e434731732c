"""``invariance views`` and ``inv.show_views``: sheets of what an encoder sees."""

import numpy as np
import pytest
from PIL import Image

import invariance as inv


def test_a_sheet_has_a_column_per_sample_and_a_line_per_view(tmp_path, command):
    path = tmp_path / "sheet.png"
    words = ("--samples", "5", "--epochs", "2", "-o", str(path))
    code, said, _ = command("views", "shapes", *words)
    assert code == 0 and str(path) in said
    width, height = Image.open(path).size
    assert width / height == pytest.approx(5 / (1 + 2 * 2), rel=0.02)


def test_the_seed_decides_what_is_drawn():
    sheets = [
        np.asarray(inv.show_views(inv.Train(limit=32, seed=seed), samples=3))
        for seed in (0, 0, 1)
    ]
    assert np.array_equal(sheets[0], sheets[1])
    assert not np.array_equal(sheets[0], sheets[2])


def test_other_samples_have_sheets_too():
    data = ["a dog in the snow", "a cat on a mat", "two birds", "an old tree"] * 8
    sheet = inv.show_views(inv.Train(method="simcse", batch_size=4), data=data)
    assert sheet.width > 100


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["-o", "sheet.gif"], "--out must end in .png or .jpg: got 'sheet.gif'."),
        (["-o", "no/sheet.png"], "There is no folder 'no' to write into."),
        (["--samples", "0"], "samples is a whole number, 1 or more: got 0."),
        (["--drop", "crp"], "Unknown operation 'crp'. Did you mean 'crop'?"),
    ],
)
def test_what_cannot_be_drawn_is_said(words, sentence, command, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code, _, complained = command("views", "shapes", *words)
    assert code == 2
    assert sentence in complained
    assert list(tmp_path.iterdir()) == []


def test_a_sheet_that_cannot_be_written_is_one_sentence(command, monkeypatch):
    def refuse(self, path, *rest, **more):
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(Image.Image, "save", refuse)
    code, _, complained = command("views", "shapes", "--samples", "2")
    assert code == 2
    assert "Could not write 'views.png': Permission denied. Choose" in complained

"""The page about samples of any kind runs as it stands, and what it says holds."""

import re
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[1] / "docs" / "any_samples.md"


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    """What the page's code leaves behind, run from top to bottom."""
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.S)
    names, runs = {}, []
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path_factory.mktemp("page"))
        for block in blocks:
            exec(compile(block, str(PAGE), "exec"), names)
            if names.get("run") not in (None, *runs):
                runs.append(names["run"])
        yield names, runs


def test_drawings_are_told_apart_better_than_before_training(page):
    """And far better than by their raw coordinates."""
    _, (_, drawings, _) = page
    raw, untrained, trained = (
        drawings.evaluation.values("retrieval", name, metric="map")[0]
        for name in ("raw coordinates", "untrained encoder", "trained encoder")
    )
    assert raw + 0.1 < untrained < trained - 0.05


def test_a_drawing_finds_its_like(page):
    names, _ = page
    classes = [hit.class_name for hit in names["found"].neighbors[0]]
    assert classes.count("triangle") >= 4


def test_rows_and_pairs_give_features(page):
    names, (rows, _, pairs) = page
    assert names["features"].shape == (1, 256)
    assert {"raw values", "trained encoder"} <= {
        row["features"] for row in rows.evaluation.rows
    }
    assert names["first"].input_shape == names["other"].input_shape == (5,)
    assert (pairs.folder / "other.safetensors").exists()

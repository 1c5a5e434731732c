"""What a benchmark cannot run is said in words, before anything is measured."""

import importlib

import pytest
import torch

import checks
from checks import piece_job, source_tree

BAD = {
    "bank": ["--device", "neither"],
    "clip_gpu": ["64:many"],
    "compare_trees": ["--new", "src"],
    "epochs": ["simclr:512:quickly"],
    "grad_cache": ["4096:512:replayed"],
    "kernels": ["--parts", "neither"],
    "loading": [],
    "small_batch_report": ["--lines", "nowhere.jsonl"],
    "threads": ["--against", "nowhere"],
}
NEED_CUDA = {
    "bank": ["--device", "cuda"],
    "epochs": [],
    "kernels": [],
    "predictions": ["--device", "cuda"],
    "shares": ["--device", "cuda"],
    "targets": [],
}


def refuse(script, words, monkeypatch, capsys):
    """What a script says as it ends."""
    module = importlib.import_module(script)
    monkeypatch.setattr("sys.argv", [script, *words])
    with pytest.raises(SystemExit) as end:
        module.main()
    assert end.value.code == 2
    return capsys.readouterr().err


@pytest.mark.parametrize("script", BAD)
def test_what_cannot_be_is_refused(script, monkeypatch, capsys):
    assert "error: " in refuse(script, BAD[script], monkeypatch, capsys)


@pytest.mark.parametrize("script", NEED_CUDA)
def test_a_missing_gpu_is_named(script, monkeypatch, capsys, tmp_path):
    pytest.importorskip("triton")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.chdir(tmp_path)
    said = refuse(script, NEED_CUDA[script], monkeypatch, capsys)
    assert "There is no CUDA device." in said and not list(tmp_path.iterdir())


def test_a_tree_is_one_that_python_would_import(tmp_path):
    (tmp_path / "invariance").mkdir()
    with pytest.raises(checks.ArgumentTypeError, match="no package 'invariance'"):
        source_tree(str(tmp_path))
    (tmp_path / "invariance" / "__init__.py").touch()
    assert source_tree(str(tmp_path)) == tmp_path


def test_jobs_in_pieces():
    for job in ("512", "4096:512", "131072:2048:called"):
        assert piece_job(job) == job
    for job in ("", "4096:", "x", "4096:512:captured:called"):
        with pytest.raises(checks.ArgumentTypeError, match="BATCH:PIECE"):
            piece_job(job)

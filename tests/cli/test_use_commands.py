"""``embed``, ``search``, ``export`` and ``list runs`` as a person meets them."""

import json

import numpy as np
import pytest
import torch
from PIL import Image

import invariance as inv
from invariance.encoders import Encoder, build_encoder, standardize, write_encoder

HELP = """
import sys
from invariance.cli import main
try:
    main(sys.argv[1:])
except SystemExit as left:
    print("left with", left.code)
heavy = [m for m in ("torch", "timm", "numpy", "PIL") if m in sys.modules]
print("heavy:", heavy)
"""


@pytest.fixture
def run(tmp_path):
    folder = tmp_path / "runs" / "mine"
    folder.mkdir(parents=True)
    torch.manual_seed(0)
    encoder = standardize(build_encoder("tiny", image_size=16), [0.5] * 3, [0.3] * 3)
    write_encoder(encoder, folder / "encoder.safetensors")
    (folder / "config.yaml").write_text("method: dcl\n")
    return "runs/mine"


@pytest.mark.parametrize("name", ["embed", "search", "export", "list", "pack"])
def test_help_imports_no_torch(name, python):
    said = python(HELP, name, "--help")
    assert "left with 0" in said and said.rstrip().endswith("heavy: []")


def test_pack_then_load_then_delete(tmp_path, photos, command, monkeypatch):
    monkeypatch.setenv("INVARIANCE_DATA", str(tmp_path / "kept"))
    size = ("--image-size", "16")
    code, said, complained = command("pack", str(photos), *size)
    assert code == 0, complained
    assert "images of 3x16x16, 0.1 MiB" in said and said.startswith("packed:")
    assert "unreadable images were left out: " in complained
    said = command("pack", str(photos), *size, "--quiet")[1]
    assert said.startswith("up to date:")
    notes = inv.data.load(photos, image_size=16).notes
    assert any("packed copy" in str(note) for note in notes)
    code, _, complained = command("pack", str(photos), *size, "--delete")
    assert code == 2 and "every size: leave --image-size out" in complained
    assert command("pack", str(photos), "--delete")[1].startswith("deleted:")
    assert "There is no packed copy" in command("pack", str(photos), "--delete")[1]
    code, _, complained = command("pack", "nowhere")
    assert code == 2 and "There is no folder 'nowhere'" in complained


def test_photos_with_a_broken_orientation_are_no_warning(
    photos, command, monkeypatch, tmp_path, recwarn
):
    monkeypatch.setenv("INVARIANCE_DATA", str(tmp_path / "kept"))
    cut_off = b"Exif\0\0MM\0*\0\0\0\x08\0\x05\x01\x12"
    Image.new("RGB", (20, 20)).save(photos / "odd.jpg", exif=cut_off)
    code, _, complained = command("pack", str(photos))
    assert code == 0 and "odd.jpg" not in complained  # it is read all the same
    assert not [warning for warning in recwarn if "PIL" in warning.filename]


def test_embed_then_search_then_export(run, photos, command):
    code, said, complained = command("embed", run, str(photos), "-o", "all.npz")
    assert code == 0, complained
    assert "embeddings: all.npz, 60 rows of 256 features" in said
    assert said.splitlines()[-1].startswith(
        "search it:  invariance search runs/mine all.npz"
    )
    assert "runs/mine is tiny: images of 3x16x16 in, 256 features out." in complained
    assert "each brought to 3x16x16, the input of the encoder" in complained
    assert "13 unreadable images were left out: " in complained
    assert "5 files without an image's ending left out (.txt)." in complained

    query = str(photos / "holiday 3.png")
    for gallery in ("all.npz", str(photos)):
        code, said, complained = command(
            *("search", run, gallery, "--query", query, query, "--k", "2"),
            *("--sheet", "sheet.png"),
        )
        assert code == 0, complained
        lines = said.splitlines()
        assert lines[0] == f"{query} in 60 images:" and lines[0] == lines[3]
        assert lines[1].split(maxsplit=2) == ["1", "1.000", query]
        assert lines[-1] == "contact sheet: sheet.png"
        with Image.open("sheet.png") as sheet:
            assert sheet.format == "PNG"
    code, said, _ = command("search", run, "all.npz", "-q", query, "--json", "--quiet")
    assert json.loads(said)["hits"][0]["name"] == "holiday 3.png"

    code, said, complained = command("export", run, "--to", "safetensors")
    assert code == 0, complained
    assert said.splitlines()[:2] == [
        "exported: mine.safetensors (safetensors)",
        "checked:  random inputs in batches of 1, 2, 7; largest difference 0 where "
        f"features are up to {said.split('up to ')[1].split()[0]}",
    ]
    encoder = inv.load("mine.safetensors")
    assert encoder.width == 256
    code, _, complained = command("export", run, "--to", "timm")
    assert code == 2 and "which timm cannot build" in complained


def test_embed_twice_is_refused_unless_asked_for(run, command, tmp_path):
    np.save(tmp_path / "a.npy", np.zeros((3, 16, 16, 3), np.uint8))
    words = ("embed", run, "a.npy", "--out", "a.csv", "--quiet")
    code, said, complained = command(*words)
    assert code == 0 and complained == "" and "a.csv, 3 rows" in said
    code, said, complained = command(*words)
    assert code == 2 and said == "" and "'a.csv' exists already" in complained
    assert command(*words, "--overwrite")[0] == 0


@pytest.mark.parametrize(
    "words, message",
    [
        (("embed", "runs/none", "shapes", "-o", "a.npz"), "There is no run or encoder"),
        (("embed", "runs/mine", "nothing/", "-o", "a.npz"), "There is no folder or"),
        (("embed", "runs/mine", "shapes", "-o", "a.h5"), "'a.h5' has the ending '.h5'"),
        (
            ("embed", "runs/mine", "shapes", "-o", "a.npz", "--workers", "-1"),
            "workers is 0 or more: got -1.",
        ),
        (
            ("embed", "runs/mine", "shapes", "-o", "a.npz", "--limit", "0"),
            "limit is 1 or more: got 0.",
        ),
        (("embed", "runs/mime", "shapes", "-o", "a.npz"), "mean 'runs/mine'?"),
        (("embed", "-o", "a.npz"), "embed needs a run and data"),
        (
            ("embed", "runs/mine", "--merge", "a.npz", "-o", "b.npz"),
            "--merge takes only parts and a file",
        ),
        (("embed", "--merge", "a.npz", "-o", "b.npz"), "no file of embeddings"),
        (("evaluate", "runs/mime"), "Did you mean 'runs/mine'?"),
        (("diagnose", "runs"), "There are runs inside: did you mean 'runs/mine'?"),
        (("search", "runs/mine", "shapes", "-q", "x.jpg"), "There is no query image"),
        (("search", "runs/mine", "shapes", "--query"), "at least one query image"),
        (("export", "runs/none", "--to", "onnx"), "There is no run or encoder file"),
        (("list", "runs", "optim.rl < 1"), "Did you mean 'optim.lr'?"),
        (("list", "encoders", "epochs < 1"), "and runs by an expression"),
    ],
)
def test_mistakes_end_in_one_sentence(words, message, run, command):
    code, said, complained = command(*words)
    assert code == 2 and said == ""
    assert message in complained and complained.count("\n") == 1


EMBED = ("embed", "runs/mine", "shapes", "-o")


@pytest.mark.parametrize(
    "words, message",
    [
        ((*EMBED, "a.txt"), "'a.txt' has the ending '.txt'"),
        ((*EMBED, "a.npz", "--max-bad-fraction", "2"), "a share from 0 to 1: got 2.0"),
        ((*EMBED, "a.npz", "--shard", "0/4"), "Shards are counted from 1"),
        ((*EMBED, "a.npz", "--shard", "1"), "such as 2/8: got '1'"),
        ((*EMBED, "a.csv", "--shard", "1/2"), "A .csv file cannot say which shard"),
        ((*EMBED, "a.npz", "--devices", "9999"), "devices is one process per GPU"),
        (("evaluate", "runs/mine", "--devices", "0"), "devices is 1 or more: got 0"),
        (("evaluate", "runs/mine", "--seeds", "0"), "seeds is 1 or more: got 0"),
        (("evaluate", "runs/mine", "--limit", "1"), "limit is 2 or more: got 1"),
        (("evaluate", "runs/mine", "--linear.l2", "-1"), "linear.l2 is 0 or more"),
    ],
)
def test_mistakes_are_met_before_torch_is_loaded(
    words, message, run, command, monkeypatch
):
    """A command that gets as far as loading it would say so."""
    monkeypatch.setattr("invariance.progress.tell_loading", None)
    code, said, complained = command(*words)
    assert code == 2 and said == ""
    assert message in complained and complained.count("\n") == 1


def test_interrupting_says_how_to_go_on(run, command, monkeypatch):
    def stop(encoder, samples):
        if len(samples) > 1:  # one blank sample is how an encoder is measured
            raise KeyboardInterrupt
        return encoder.network(samples)

    monkeypatch.setattr(Encoder, "forward", stop)
    code, _, complained = command("embed", run, "shapes", "-o", "a.npz", "--limit", "9")
    assert code == 130
    assert complained.splitlines()[-1] == (
        "invariance: interrupted; the same command continues where it stopped."
    )


def test_list_runs_by_an_expression(run, command):
    code, said, _ = command("list", "runs", "method == 'dcl' and finished")
    heads, line = (text.split() for text in said.splitlines())
    assert code == 0 and heads[:4] == ["run", "method", "data", "batch"]
    assert line[:3] == ["runs/mine", "dcl", "shapes"] and line[-1] == "finished"
    code, said, complained = command("list", "runs", "method == 'simclr'")
    assert (code, said) == (0, "")
    assert complained == "no run in runs has method == 'simclr'\n"
    code, said, complained = command("list", "runs", "--out", "nowhere")
    assert (code, said) == (0, "") and complained.startswith("no runs in nowhere:")

"""``invariance sweep``: a run per combination, going on after a stop, one page."""

import pytest

from invariance.folder import read_record

SMALL = ("shapes", "--limit", "64", "--batch-size", "32", "--epochs", "1", "--quiet")
SMALL += ("--no-evaluate", "--image-size", "16", "--knn-every", "0")
VARY = ("--vary", "method", "simclr", "dcl", "--vary", "seed", "0", "1")


@pytest.fixture(scope="module")
def swept(tmp_path_factory):
    from invariance.cli import main

    out = tmp_path_factory.mktemp("runs")
    assert main(["sweep", *SMALL, *VARY, "--out", str(out)]) == 0
    return out / "shapes-sweep"


def test_every_combination_is_a_run(swept):
    names = {"method_simclr-seed_0", "method_simclr-seed_1"}
    names |= {"method_dcl-seed_0", "method_dcl-seed_1"}
    assert {path.name for path in swept.iterdir() if path.is_dir()} == names
    settings = read_record(swept / "method_dcl-seed_1").config
    assert (settings["method"], settings["seed"]) == ("dcl", 1)


def test_one_page_compares_them(swept):
    page = (swept / "comparison.html").read_text()
    assert "method_dcl-seed_1" in page


def test_the_same_command_does_only_what_is_left(swept, command):
    (swept / "method_dcl-seed_0" / "encoder.safetensors").rename(swept / "kept")
    words = ("sweep", *SMALL, *VARY, "--out", str(swept.parent))
    code, said, _ = command(*words)
    assert code == 0
    assert said.count("finished before") == 3
    again = swept / "method_dcl-seed_0" / "encoder.safetensors"
    assert again.read_bytes() == (swept / "kept").read_bytes()
    (swept / "kept").unlink()


def test_other_settings_need_another_name(swept, command):
    words = [word if word != "64" else "96" for word in SMALL]
    code, _, complained = command("sweep", *words, *VARY, "--out", str(swept.parent))
    assert code == 2
    assert "was made with limit 64, but this sweep asks for 96" in complained


def test_a_run_that_fails_does_not_stop_the_others(tmp_path, command):
    words = ("sweep", *SMALL, "--vary", "optim.lr", "1e30", "0.001")
    code, said, complained = command(*words, "--out", str(tmp_path))
    assert code == 2
    assert "1 run of 2 finished." in said
    assert "failed: lr_1e30: " in complained


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["shapes"], "--vary needs a setting and two values or more"),
        (["--vary", "seed", "1"], "two values or more"),
        (["--vary", "epochs", "0", "1"], "epochs"),
        (["--vary", "method", "simclr", "simcrl"], "Did you mean 'simclr'?"),
        (["--vary", "seed", "0", "1", "--vary", "seed", "2", "3"], "seed varies twice"),
    ],
)
def test_mistakes_are_told_before_anything_is_trained(
    words, sentence, command, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    code, _, complained = command("sweep", *words)
    assert code == 2
    assert sentence in complained
    assert list(tmp_path.iterdir()) == []

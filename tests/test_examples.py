"""Scripts that pages show run as they stand, at a small size."""

import runpy
from pathlib import Path

import torch

import invariance as inv

EXAMPLES = Path(__file__).parents[1] / "examples"


def test_word2vec_learns_the_pointwise_mutual_information(tmp_path, capsys):
    script = EXAMPLES / "word2vec.py"
    assert len(script.read_text().splitlines()) <= 80
    names = runpy.run_path(str(script))
    joint = names["make_corpus"](n_words=20, n_topics=3)
    assert abs(float(joint.sum()) - 1) < 1e-5
    torch.testing.assert_close(joint, joint.T)
    scores = names["learn"](joint, steps=500, batch=256)
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 11 and lines[0].startswith("I(word; context) = ")
    pmi = names["read_pmi"](joint)
    assert names["correlate"](scores, pmi, joint) > 0.9
    assert abs(names["correlate"](torch.randn(20, 20), pmi, joint)) < 0.5
    moved = names["correlate"](scores + torch.randn(20, 1), pmi, joint)
    assert abs(moved - names["correlate"](scores, pmi, joint)) < 1e-4
    names["draw"](scores, joint, str(tmp_path / "figure.png"))
    assert (tmp_path / "figure.png").stat().st_size > 5000


def test_masked_tokens_compares_rows_of_words(tmp_path):
    names = runpy.run_path(str(EXAMPLES / "masked_tokens.py"))
    words = " ".join(names["WORDS"].values()).split()
    assert len({*words}) == len(words)
    kind = inv.data.Text.fit([f"the {a} {b}" for a in words for b in words])
    encoder = inv.encoders.build_encoder("text_tiny", kind=kind)
    rows = names["read_rows"](encoder, words)
    assert len(rows) > 25  # frequent words are one token
    alike, unlike = names["compare"](rows)
    assert abs(alike - unlike) < 0.1  # nothing was trained
    names["draw"](rows, str(tmp_path / "figure.png"))
    assert (tmp_path / "figure.png").stat().st_size > 5000

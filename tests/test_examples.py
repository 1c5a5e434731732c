"""Every example runs as it stands, at a small size, and does what it says.

A file of ``examples`` called ``name.py`` is checked by ``check_name`` below; a file
without a check fails.
"""

import math
import re
import runpy
from pathlib import Path

import pytest
import torch
from tests.processes import on_processes

import invariance as inv

EXAMPLES = Path(__file__).parents[1] / "examples"
SCRIPTS = sorted(EXAMPLES.glob("*.py"))


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.stem)
def test_an_example_does_what_it_says(script, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = runpy.run_path(str(script))
    globals()[f"check_{script.stem}"](names, tmp_path)


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.stem)
def test_an_example_is_short_and_says_how_to_run_it(script):
    text = script.read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 80
    names = runpy.run_path(str(script))
    assert f"examples/{script.name}" in names["__doc__"]
    assert not re.search(r"\._[a-z]", text)  # public names only


def is_share(value):
    return 0 <= value <= 1


def write_photos(folder, n=60):
    """A few image files in class folders: scored far sooner than all of shapes."""
    (folder / "photos").mkdir()
    names = runpy.run_path(str(EXAMPLES / "photo_search.py"))
    return str(names["write_photos"](folder / "photos", n))


def check_plain_pytorch(names, folder):
    loss, before, after = names["main"](n=96, epochs=5, batch_size=32)
    assert 0 < loss < math.log(2 * 32 - 1)  # better than chance
    assert is_share(before) and is_share(after)


def check_moco(names, folder):
    loss, before, after = names["main"](n=96, epochs=5, batch_size=32, size=64)
    assert 0 < loss < math.log(64 + 1)  # better than chance
    assert is_share(before) and is_share(after)


def check_torchvision_views(names, folder):
    images = names["write_images"](folder, 40)
    assert {p.name for p in images.iterdir()} == {*inv.data.SHAPE_CLASSES}
    sizes = {"size": 16, "epochs": 5, "batch_size": 20, "workers": 0}
    loss, before, after = names["main"](folder=images, **sizes)
    assert 0 < loss < math.log(2 * 20 - 1)  # better than chance
    assert is_share(before) and is_share(after)


def check_lightning_module(names, folder):
    before, after = names["main"](n=512, epochs=5, batch_size=64)
    assert before < 0.02 and after > 0.5


def check_ddp(names, folder):
    def work(rank):
        return names["main"](n=256, steps=20, batch_size=64)

    loss, recall = work(0)
    assert loss < 0.7 * math.log(64) and recall > 0.2
    for answer in on_processes(2, work, folder, torchrun=True):
        assert answer == pytest.approx((loss, recall), abs=0.005)


def check_own_objective(names, folder):
    u, v = torch.randn(2, 16, 8)
    little = names["bounded_nce"](u, v, q=1e-4)  # without a bound it is InfoNCE
    known = inv.info_nce(u, v, temperature=0.1, symmetric=False)
    assert float(little) == pytest.approx(float(known), rel=1e-2)
    recall = names["main"](n=1024, steps=150)
    assert recall["bounded_nce"] > recall["InfoNCE"] + 0.1


def check_own_negatives(names, folder):
    film_of = torch.tensor([0, 0, 1])
    queue = names["OtherFilms"](4, 2, film_of)
    queue.remember(torch.eye(2), torch.tensor([0, 2]))  # one of each film
    counts = queue.negative(torch.eye(2), torch.tensor([0, 1]), scales=[0.0]).exp()
    assert counts.tolist() == [[1, 1]]  # the other film's alone
    scores = names["main"](films=20, frames=10, steps=100)
    assert scores["OtherFilms"] > scores["Queue"] > scores["untrained"]


def check_own_encoder(names, folder):
    run, encoder = names["main"](data=write_photos(folder), epochs=1, width=16)
    assert len(run.evaluation.values("knn")) == 1
    assert (run.folder / "report.html").exists()
    images = inv.data.shapes(4)[0]
    trained = inv.embed(encoder, images).features
    assert trained.shape == (4, 16)
    weight = encoder.state_dict()  # those of the run, not of a new network
    assert any(not torch.equal(weight[k], x) for k, x in fresh_weights(names, weight))


def fresh_weights(names, like):
    torch.manual_seed(0)
    new = names["PatchNet"](16).state_dict()
    return [(k, x) for k in like for name, x in new.items() if k.endswith(name)]


def check_own_method(names, folder):
    runs = names["main"](data=write_photos(folder), epochs=1, batch_size=16)
    assert runs.keys() == {"mine", "moco", "simclr"}
    assert len({run.metrics[-1]["loss"] for run in runs.values()}) == 3
    assert inv.load(runs["mine"]).width == inv.load(runs["moco"]).width


def check_fine_tune_timm(names, folder):
    sizes = {"image_size": 32, "epochs": 1, "batch_size": 16}
    how = {"data": write_photos(folder), "encoder": "test_resnet", "pretrained": False}
    run, rows = names["main"](**how, **sizes)
    assert is_share(*run.evaluation.values("knn", "untrained encoder"))
    kept = inv.read_embeddings(run.folder / "features.parquet")
    assert len(kept) == 60
    torch.testing.assert_close(kept.features, rows.features)


def check_clip(names, folder):
    photos = write_photos(folder)
    files = sorted(Path(photos).rglob("*.png"))
    lines = [f"{p.parent.name}/{p.name},a {p.parent.name}" for p in files]
    table = "\n".join(["image,caption", *lines])
    Path(photos, "captions.csv").write_text(table)
    sizes = {"epochs": 1, "batch_size": 16, "sentences": ("a circle", "a star")}
    run = names["main"](data=photos, **sizes)
    assert (folder / "clip_found.png").stat().st_size > 1000
    images = torch.rand(3, 3, 32, 32)
    named = names["name_images"](run, images, ["circle", "star"])
    assert len(named) == 3 and {*named} <= {"circle", "star"}


def check_information(names, folder):
    estimates = names["main"](n=1000, steps=100)
    for name in ("ksg", "gaussian"):
        assert estimates[name].nats == pytest.approx(2, abs=0.4)
    bound = estimates["info_nce"]
    assert bound.lower_bound and 0.5 < bound.nats < 2.3
    assert not estimates["smile"].lower_bound


def check_photo_search(names, folder):
    before, after = names["main"](n=60, epochs=1, k=3)
    assert is_share(before) and is_share(after)
    (sheet,) = folder.glob("runs/*/found.png")
    assert sheet.stat().st_size > 1000
    found = [("a/1.png", "a"), ("a/2.png", "a"), ("b/3.png", "b")]  # the first: itself
    hits = [inv.Hit(k, p, 0.9, class_name=c, path=p) for k, (p, c) in enumerate(found)]
    result = inv.SearchResult((inv.Hits("a/1.png", tuple(hits)),), len(hits))
    assert names["count_hits"](result) == 0.5


def check_word2vec(names, folder):
    joint = names["make_corpus"](n_words=20, n_topics=3)
    assert abs(float(joint.sum()) - 1) < 1e-5
    torch.testing.assert_close(joint, joint.T)
    scores = names["learn"](joint, steps=500, batch=256)
    pmi = names["read_pmi"](joint)
    assert names["correlate"](scores, pmi, joint) > 0.9
    assert abs(names["correlate"](torch.randn(20, 20), pmi, joint)) < 0.5
    moved = names["correlate"](scores + torch.randn(20, 1), pmi, joint)
    assert abs(moved - names["correlate"](scores, pmi, joint)) < 1e-4
    names["draw"](scores, joint, str(folder / "figure.png"))
    assert (folder / "figure.png").stat().st_size > 5000


def check_masked_tokens(names, folder):
    words = " ".join(names["WORDS"].values()).split()
    assert len({*words}) == len(words)
    kind = inv.data.Text.fit([f"the {a} {b}" for a in words for b in words])
    encoder = inv.encoders.build_encoder("text_tiny", kind=kind)
    rows = names["read_rows"](encoder, words)
    assert len(rows) > 25  # frequent words are one token
    alike, unlike = names["compare"](rows)
    assert abs(alike - unlike) < 0.1  # nothing was trained
    names["draw"](rows, str(folder / "figure.png"))
    assert (folder / "figure.png").stat().st_size > 5000

"""Images and captions through every door: train, resume, score, search, load."""

import csv
import json

import pytest
import torch
from PIL import Image
from safetensors.torch import load_file, save_file

import invariance as inv
from invariance.cli import main
from invariance.data import load
from invariance.encoders import Towers, load_towers
from invariance.errors import DataError, SettingError
from invariance.training import Train, train


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A short run on the generated set."""
    settings = Train(
        data="captioned_shapes",
        method="clip",
        limit=1024,
        epochs=6,
        batch_size=64,
        knn_every=0,
        evaluate=False,
        quiet=True,
        out=str(tmp_path_factory.mktemp("runs")),
    )
    return train(settings)


def test_it_names_combinations_that_it_has_never_seen(run):
    """Of 80 names; chance is 1.25 %, and the untrained towers are near it."""
    scores = inv.evaluate(run, protocols=("zero_shot", "pairs"))
    (accuracy,), (before,) = (
        scores.values("zero_shot", features)
        for features in ("trained encoder", "untrained encoder")
    )
    assert accuracy > 0.1 > before
    (near,) = scores.values("zero_shot", metric="top5")
    assert near > 0.4
    for way in ("image to caption recall@10", "caption to image recall@10"):
        (recall,), (chance,) = (
            scores.values("pairs", features, metric=way)
            for features in ("trained encoder", "chance")
        )
        assert recall > 5 * chance
    mine = inv.evaluate(
        run, protocols="zero_shot", settings={"zero_shot": {"templates": ["the {}"]}}
    )
    assert {row["settings"].get("templates") for row in mine.rows} == {"the {}"}


def test_images_are_found_by_a_sentence(run, tmp_path, capsys):
    sheet = tmp_path / "sheet.png"
    found = inv.search(run, text=["a green cross", "a pink ring"], k=20, limit=600)
    assert [hits.query for hits in found] == ["a green cross", "a pink ring"]
    images = load("captioned_shapes", split="all", n=600, captions=True)
    names = images.other.class_names
    for hits, color in zip(found, ("green", "pink"), strict=True):
        shown = [names[images.other.labels[int(hit.name)]] for hit in hits]
        assert sum(name.startswith(color) for name in shown) > 15
    words = ["search", str(run.folder), "--text", "a red circle", "--limit", "60"]
    assert main([*words, "--k", "3", "--sheet", str(sheet)]) == 0
    assert "a red circle in 60 images" in capsys.readouterr().out
    assert Image.open(sheet).size[0] > 300


def test_what_cannot_be_searched_is_answered(run, tmp_path):
    with pytest.raises(SettingError, match="not both at once"):
        inv.search(run, "captioned_shapes", Image.new("RGB", (8, 8)), text="a star")
    with pytest.raises(SettingError, match="cannot be read: an empty sentence"):
        inv.search(run, "captioned_shapes", text="  ")
    with pytest.raises(SettingError, match="this one has no text tower"):
        inv.search(run.folder / "encoder.safetensors", "shapes", text="a star")
    with pytest.raises(SettingError, match="Name at least one query image"):
        inv.search(run, "captioned_shapes")


def test_both_towers_are_kept(run, tmp_path):
    text, image = inv.load(run.folder, side="other"), inv.load(run.folder)
    tokens = text.kind.read("a small red circle")[None]
    towers = load_towers(run.folder)
    assert isinstance(towers, Towers)
    assert text(tokens).equal(towers.other(tokens))
    rows = towers.encode_other(["a small red circle"])
    assert rows.norm(dim=1).item() == pytest.approx(1)
    features = image(torch.rand(2, 3, 32, 32))
    assert towers.project(features).shape == (2, rows.shape[1])
    for name in ("encoder", "other"):
        file = tmp_path / f"{name}.safetensors"
        assert inv.export(run.folder / file.name, "safetensors", file).difference == 0


@pytest.mark.parametrize("about", ["[]", "null", '{"first": {}, "other": {}}', "{"])
def test_heads_that_say_something_else_are_refused(run, tmp_path, about):
    for name in ("encoder", "other", "heads"):
        file = f"{name}.safetensors"
        (tmp_path / file).write_bytes((run.folder / file).read_bytes())
    save_file({}, tmp_path / "heads.safetensors", metadata={"invariance": about})
    with pytest.raises(DataError, match=r"heads.safetensors is damaged"):
        load_towers(tmp_path)


def test_the_report_shows_captions(run):
    settings = Train(
        data="captioned_shapes",
        method="siglip",
        limit=64,
        epochs=1,
        batch_size=32,
        quiet=True,
        name="shown",
        out=str(run.folder.parent),
    )
    page = (train(settings).folder / "report.html").read_text()
    grid = page.split('class="grid-of-neighbors captions"')[1].split("</ul>")[0]
    assert grid.count('class="query"') == 10
    assert grid.count('class="thumb"') == 100
    assert "Zero-shot" in page or "zero-shot" in page
    assert "caption to image recall@5" in page


@pytest.mark.parametrize("changes", [{}, {"micro_batch": 10}, {"storage": "streamed"}])
def test_stopping_changes_nothing(changes, small, stopped_after, readings):
    """Captions are drawn anew in each epoch, and the same when it goes on."""
    settings = small(
        data="captioned_shapes", method="clip", limit=64, hidden=None, **changes
    )
    whole = train(settings).folder
    folder = stopped_after(3, settings)
    train(Train(resume=str(folder), quiet=True))
    assert readings(folder) == readings(whole)
    for name in ("encoder", "other", "heads"):
        ours, theirs = (load_file(f / f"{name}.safetensors") for f in (folder, whole))
        assert all(ours[k].equal(theirs[k]) for k in theirs)


def test_killed_and_resumed(survive_a_kill):
    survive_a_kill(
        *("captioned_shapes", "--method", "clip", "--limit", "96", "--epochs", "2"),
        *("--batch-size", "16", "--no-evaluate", "--knn-every", "0"),
        step=5,
        networks=("encoder", "other"),
    )


@pytest.fixture
def photos(tmp_path):
    """Colored squares with captions, without labels."""
    folder = tmp_path / "photos"
    folder.mkdir()
    colors = {"red": (200, 0, 0), "green": (0, 200, 0), "blue": (0, 0, 200)}
    rows = [("file", "says")]
    for k in range(60):
        word, color = list(colors.items())[k % 3]
        Image.new("RGB", (16, 16), color).save(folder / f"{k}.png")
        rows += [(f"{k}.png", f"a {word} square"), (f"{k}.png", f"{word} all over")]
    with (tmp_path / "words.csv").open("w", newline="") as file:
        csv.writer(file).writerows(rows)
    return folder, tmp_path / "words.csv"


def test_a_folder_of_ones_own(photos, small, capsys):
    folder, table = photos
    settings = small(
        data=str(folder),
        method="clip",
        captions=str(table),
        text_column="says",
        hidden=None,
        evaluate=True,
        epochs=1,
    )
    run = train(settings)
    rows = [json.loads(x) for x in (run.folder / "evaluation.jsonl").open()]
    assert {row["protocol"] for row in rows} == {"pairs"}  # there are no labels
    again = inv.evaluate(run, protocols="pairs")
    assert again.values("pairs") == [
        row["value"]
        for row in rows
        if (row["features"], row["metric"]) == ("trained encoder", rows[0]["metric"])
    ]
    dry = train(small(data=str(folder), method="clip", captions=str(table),
                      text_column="says", hidden=None, dry_run=True))  # fmt: skip
    assert dry.sample_shapes == ((16, 3, 32, 32), (16, 2, 16))
    with pytest.raises(SettingError, match="captions is for methods of images and"):
        train(small(data=str(folder), captions=str(table)))
    with pytest.raises(DataError, match=r"has no captions\.csv"):
        train(small(data=str(folder), method="clip", hidden=None))
    with pytest.raises(DataError, match="learns from pairs"):
        train(small(data="shapes", method="clip", hidden=None))

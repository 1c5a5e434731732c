"""The pictures of a run: whatever the images are like, the report can show them."""

import dataclasses
import json

import numpy as np
import pytest
import torch
from PIL import Image
from threadpoolctl import threadpool_info, threadpool_limits

from invariance.data import Resident
from invariance.devices import run_beside
from invariance.encoders import build_encoder
from invariance.evaluation import clustering
from invariance.training import Train, make_plan

# a run writes its pictures at its end; here without the run
from invariance.training._gallery_writer import MOST, begin_gallery, one_blas_thread
from invariance.views import ViewSet


def images(n, channels=3, size=12, seed=0):
    draw = np.random.default_rng(seed)
    return draw.integers(0, 256, (n, size, size, channels), dtype=np.uint8)


@pytest.fixture
def written(tmp_path):
    """Write the gallery of an untrained run; what gallery.json says, and the plan."""

    def write(data, encoder=None, name="run", **settings):
        asked = {"batch_size": 2, "hidden": 8, "width": 4} | settings
        plan = make_plan(Train(**asked), data=data)
        folder = tmp_path / name
        folder.mkdir()
        problem = begin_gallery(plan, encoder or plan.untrained, folder, "cpu")()
        assert problem is None
        return json.loads((folder / "gallery/gallery.json").read_text()), folder, plan

    return write


def sheet_of(folder):
    return np.asarray(Image.open(folder / "gallery/thumbnails.jpg").convert("RGB"))


@pytest.mark.parametrize("n", [3, 4, 12, 40])
def test_any_number_of_images(written, n):
    about, _, plan = written(images(n))
    n = len(plan.source)
    assert about["count"] == n and about["source"] == "train"
    assert about["labels"] is None and about["class_names"] == []
    for key in ("names", "clusters", "map", "neighbours", "scores"):
        assert len(about[key]) == n
    assert {len(row) for row in about["neighbours"]} == {min(10, n - 1)}
    assert np.isfinite(about["map"]).all()


def test_labelled_images_come_from_the_test_part(written):
    labels = np.arange(120) % 3
    about, _, plan = written((images(120), labels))
    assert about["source"] == "test" and about["count"] == len(plan.test)
    assert about["labels"] == plan.test.labels.tolist()
    assert max(about["clusters"]) < 3


def test_neighbours_are_the_nearest_by_cosine(written):
    about, _, plan = written(images(30))
    pixels = plan.source.samples.float() / 255
    h = torch.nn.functional.normalize(plan.untrained.eval()(pixels).detach())
    cosines = (h @ h.T).fill_diagonal_(-2)
    best = cosines.topk(10)
    assert torch.allclose(torch.tensor(about["scores"]), best.values, atol=1e-3)
    for i, row in enumerate(about["neighbours"]):
        assert i not in row and len(set(row)) == 10


class Flat(torch.nn.Module):
    def forward(self, x):
        return x.flatten(1)


@pytest.mark.parametrize("channels", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("shape", [(12, 12), (9, 14)])
def test_any_number_of_channels_and_any_shape(tmp_path, channels, shape):
    pixels = torch.arange(6, dtype=torch.uint8).view(6, 1, 1, 1) * 40
    source = Resident(pixels.expand(6, channels, *shape).clone())
    plan = dataclasses.replace(
        make_plan(Train(batch_size=2), data=images(6)),
        source=source,
        views=ViewSet([[lambda x: x], [lambda x: 3 * x - 1]]),
    )
    assert begin_gallery(plan, Flat(), tmp_path, "cpu")() is None
    about = json.loads((tmp_path / "gallery/gallery.json").read_text())
    sheet, size = sheet_of(tmp_path), about["size"]
    assert size == max(shape)
    for i in range(6):
        left, top = i % about["columns"] * size, i // about["columns"] * size
        middle = sheet[top + size // 2, left + size // 2].astype(int)
        assert np.abs(middle - 40 * i).max() <= 6


def test_large_images_become_small(written):
    about, folder, plan = written(images(4, size=100))
    assert about["size"] == 64
    assert sheet_of(folder).shape == (64, len(plan.source) * 64, 3)
    assert Image.open(folder / "gallery/views.png").height == 3 * 100 - 4


def test_of_many_images_some_are_chosen_evenly(written, monkeypatch):
    assert MOST == 2000
    monkeypatch.setattr("invariance.training._gallery_writer.MOST", 60)
    about, folder, plan = written(images(200))
    n = len(plan.source)
    assert about["count"] == 60 and about["of"] == n and about["columns"] == 50
    rows = [int(name.split()[1]) for name in about["names"]]
    assert rows[0] == 0 and rows[-1] == n - 1
    assert np.ptp(np.diff(rows)) <= 1
    assert sheet_of(folder).shape[:2] == (2 * 12, 50 * 12)


def test_the_same_encoder_makes_the_same_gallery(written):
    one, first, _ = written(images(40), name="one")
    two, second, _ = written(images(40), name="two")
    assert one == two and (sheet_of(first) == sheet_of(second)).all()


def test_the_map_leaves_the_threads_of_others_alone(tmp_path):
    def threads():
        kinds = [x for x in threadpool_info() if x["user_api"] == "blas"]
        return [x["num_threads"] for x in kinds]

    plan = make_plan(Train(batch_size=2), data=images(40))
    clustering(torch.eye(4), torch.arange(4) % 2)  # loads what it needs
    with threadpool_limits(3, user_api="blas"):
        before = threads()
        with one_blas_thread():
            write = begin_gallery(plan, plan.untrained, tmp_path, "cpu")
            beside = run_beside(lambda: clustering(torch.eye(4), torch.arange(4) % 2))
            assert set(threads()) == {1}
            write(), beside()
            assert set(threads()) == {1}
        assert threads() == before and set(before) == {3}


def test_features_that_are_all_alike(written):
    encoder = build_encoder("tiny", image_size=12)
    for weight in encoder.parameters():
        weight.data.zero_()
    about, _, _ = written(images(12), encoder=encoder)
    assert np.ptp(about["map"]) == 0
    assert np.isfinite(about["scores"]).all()


def test_views_of_every_size_are_shown(written):
    _, folder, plan = written(images(4, size=24), views="multi_crop")
    picture = Image.open(folder / "gallery/views.png")
    rows, columns = 1 + len(plan.views), len(plan.source)
    assert picture.size == (columns * 100 - 4, rows * 100 - 4)


def test_files_are_called_by_their_paths(written, tmp_path):
    name = "<img src=x onerror=alert(1)>.png"
    place = tmp_path / "pictures"
    place.mkdir()
    for k in range(30):
        own = f"{k}{name}"  # enough that some are trained on
        Image.fromarray(images(30)[k]).save(place / own)
    about, _, _ = written(str(place), image_size=12)
    assert len(about["names"]) > 9 and all(own.endswith(name) for own in about["names"])


class Broken(torch.nn.Module):
    def forward(self, x):
        return x.flatten(1) * float("nan")


def test_features_that_are_no_numbers_are_said(tmp_path):
    plan = make_plan(Train(batch_size=2), data=images(6))
    said = begin_gallery(plan, Broken(), tmp_path, "cpu")()
    assert "not finite" in said and not (tmp_path / "gallery").exists()


def test_a_place_that_cannot_be_written_is_said(tmp_path):
    plan = make_plan(Train(batch_size=2), data=images(6))
    (tmp_path / "gallery").write_text("in the way")
    assert "no pictures" in begin_gallery(plan, plan.untrained, tmp_path, "cpu")()

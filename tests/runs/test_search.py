"""The nearest images, against a plain ranking of all of them."""

import re

import numpy as np
import pytest
import torch
from PIL import Image
from torch.nn.functional import cosine_similarity

import invariance as inv
from invariance.encoders import Encoder
from invariance.errors import DataError, SettingError

TILE = 128  # pixels of an image in a contact sheet


def rank(rows, pixels, k):
    """Numbers and scores of the rows most like images of four gray pixels."""
    encoder = Encoder(torch.nn.Flatten(), input_shape=(1, 2, 2))
    gallery = inv.Embeddings(rows, tuple(map(str, range(len(rows)))))
    queries = [Image.fromarray(p.reshape(2, 2)) for p in np.uint8(pixels)]
    result = inv.search(encoder, gallery, queries, k=k)
    names = torch.tensor([[int(hit.name) for hit in hits] for hits in result])
    return names, torch.tensor([[hit.score for hit in hits] for hits in result])


def test_a_long_gallery_is_ranked_as_a_whole():
    """Of 20,000 rows, which are gone through in blocks of 8,192."""
    rows = torch.randn(20_000, 4, generator=torch.Generator().manual_seed(0))
    pixels = torch.tensor([[1, 2, 3, 4], [200, 0, 9, 1], [0, 0, 0, 255]])
    names, scores = rank(rows, pixels, k=12)
    every = cosine_similarity(pixels[:, None].float(), rows[None], dim=2)
    assert torch.equal(names, every.topk(12).indices)
    assert torch.allclose(scores, every.topk(12).values, atol=1e-6)


def test_of_equal_rows_the_earlier_comes_first():
    names, _ = rank(torch.ones(20_000, 4), [[9, 9, 9, 9]], k=3)
    assert names.tolist() == [[0, 1, 2]]


def test_no_cosine_is_above_1():
    """Rounding makes some products of equal unit rows a little more than 1."""
    pixels = torch.randint(1, 256, (64, 4), generator=torch.Generator().manual_seed(0))
    unit = torch.nn.functional.normalize(pixels.float())
    assert (unit @ unit.T).max() > 1
    _, scores = rank(pixels.float(), pixels, k=1)
    assert scores.max() == 1


def test_rows_that_are_no_numbers_come_last():
    rows = torch.tensor([[float("nan"), 1.0, 1.0, 1.0], [-1.0, -1.0, -1.0, -1.0]])
    assert rank(rows, [[9, 9, 9, 9]], k=2)[0].tolist() == [[1, 0]]


@pytest.fixture
def query(photos):
    return photos / "dog/z.png"


def test_a_picture_of_the_gallery_finds_itself(run, photos, query):
    found = inv.search(run, photos, query, k=4)
    assert found.n_gallery == 20
    (one,) = found.neighbors
    first = one.hits[0]
    assert (first.name, first.class_name, first.rank) == ("dog/z.png", "dog", 1)
    assert first.score == pytest.approx(1, abs=1e-5)
    assert first.path == str(query)
    scores = [hit.score for hit in one.hits]
    assert scores == sorted(scores, reverse=True) and len(scores) == 4
    assert "3 unreadable images were left out" in found.notes[0]


def test_an_array_of_one_image_is_a_query(run, photos, query):
    pixels = np.array(Image.open(query))
    by_file = inv.search(run, photos, query, k=3).neighbors[0]
    ways = [pixels, torch.from_numpy(pixels).permute(2, 0, 1).float() / 255]
    for found in inv.search(run, photos, ways, k=3):
        assert [h.name for h in found] == [h.name for h in by_file]
    with pytest.raises(DataError, match=r"such as images\[0\], or a list"):
        inv.search(run, photos, pixels[None])


def test_it_ranks_as_the_features_do(run, photos, query):
    value = inv.embed(run, photos)
    mine = value.features[value.names.index("dog/z.png")]
    order = cosine_similarity(mine[None], value.features).argsort(descending=True)
    hits = inv.search(run, photos, query, k=20).neighbors[0].hits
    assert [hit.name for hit in hits] == [value.names[i] for i in order]


@pytest.mark.parametrize("ending", [".npz", ".parquet", ".csv", "value"])
def test_embeddings_made_before_give_the_same(ending, run, photos, query, tmp_path):
    direct = inv.search(run, photos, [query, photos / "cat/1.png"], k=5)
    if ending == "value":
        gallery = inv.embed(run, photos)
    else:
        gallery = inv.write_embeddings(run, photos, tmp_path / f"g{ending}").path
    again = inv.search(run, gallery, [query, photos / "cat/1.png"], k=5)
    assert len(again.neighbors) == 2
    for a, b in zip(direct.neighbors, again.neighbors, strict=True):
        assert [h.name for h in a.hits] == [h.name for h in b.hits]
        assert [h.class_name for h in a.hits] == [h.class_name for h in b.hits]
        assert [h.score for h in a.hits] == pytest.approx([h.score for h in b.hits])


def test_embeddings_of_another_encoder_are_refused(
    run, other_run, photos, query, tmp_path
):
    path = inv.write_embeddings(other_run, photos, tmp_path / "g.npz").path
    for gallery in (path, inv.embed(other_run, photos)):
        with pytest.raises(DataError, match="was made with another encoder"):
            inv.search(run, gallery, query)


def test_more_than_there_are_gives_all(run, photos, query):
    found = inv.search(run, photos, query, k=50)
    assert len(found.neighbors[0].hits) == 20
    assert found.notes[-1] == (
        "The gallery has 20 images, fewer than k = 50: all are shown."
    )


@pytest.mark.parametrize(
    "change, kind, message",
    [
        ({"query": "gone.png"}, DataError, "There is no query image 'gone.png'"),
        ({"query": "words.png"}, DataError, "'words.png' cannot be read as an image"),
        ({"query": "."}, DataError, "cannot be read as an image (a folder)"),
        ({"query": []}, SettingError, "Name at least one query image"),
        ({"query": 1}, DataError, "A query is an image file or a Pillow image"),
        ({"k": 0}, SettingError, "k is 1 or more: got 0"),
        ({"sheet": "a.pdf"}, SettingError, "The contact sheet is a .png file"),
        ({"sheet": "no/a.png"}, SettingError, "There is no folder 'no'"),
        ({"sheet": "/proc/a.png"}, DataError, "No such file or directory. Choose"),
        ({"batch_size": 0}, SettingError, "batch_size is 1 or more: got 0"),
        ({"data": "other.npz"}, DataError, "expected an array called 'images'"),
        ({"data": "other.csv"}, DataError, "is not a file of embeddings"),
        ({"data": "a.txt"}, DataError, "or a table, but images are expected"),
    ],
)
def test_mistakes(change, kind, message, run, photos, query, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "words.png").write_text("words")
    (tmp_path / "a.txt").write_text("one\ntwo\n")
    (tmp_path / "other.csv").write_text("a,b\n1,2\n")
    np.savez(tmp_path / "other.npz", nothing=np.zeros(3))
    given = {"data": photos, "query": query} | change
    with pytest.raises(kind, match=re.escape(message)):
        inv.search(run, given.pop("data"), given.pop("query"), **given)


def tile(sheet, column, row=0):
    """The middle of a tile of a contact sheet."""
    x = 20 + column * 140 + (12 if column else 0) + TILE // 2
    return sheet.getpixel((x, 20 + row * 172 + TILE // 2))


@pytest.mark.parametrize("kind", ["folder", "array", "file"])
def test_the_sheet_shows_the_query_and_what_was_found(kind, run, tmp_path):
    colors = [(255, 0, 0), (0, 255, 0), (0, 0, 255), (250, 250, 0)]
    images = (
        np.zeros((4, 16, 16, 3), np.uint8) + np.array(colors, np.uint8)[:, None, None]
    )
    folder = tmp_path / "colors"
    folder.mkdir()
    for k, image in enumerate(images):
        Image.fromarray(image).save(folder / f"{k}.png")
    np.save(tmp_path / "colors.npy", images)
    data = folder if kind == "folder" else tmp_path / "colors.npy"
    if kind == "file":
        data = inv.write_embeddings(run, data, tmp_path / "g.npz").path
    path = tmp_path / "sheet.png"
    found = inv.search(run, data, folder / "2.png", k=3, sheet=path)
    with Image.open(path) as sheet:
        assert tile(sheet, 0) == colors[2] and tile(sheet, 1) == colors[2]
        hits = [int(hit.name.split(".")[0]) for hit in found.neighbors[0].hits]
        assert [tile(sheet, k) for k in (1, 2, 3)] == [colors[k] for k in hits]


def test_images_that_are_gone_are_gray_and_counted(run, photos, query, tmp_path):
    path = inv.write_embeddings(run, photos, tmp_path / "g.npz").path
    alone = tmp_path / "alone.png"
    query.rename(alone)
    found = inv.search(run, path, alone, k=2, sheet=tmp_path / "s.png")
    assert found.notes == (
        "1 of the images found cannot be shown in the sheet: they are gone, or "
        "nothing says where to find them.",
    )
    with Image.open(tmp_path / "s.png") as sheet:
        assert tile(sheet, 1) == (0xE3, 0xE6, 0xEA)


def test_queries_of_any_kind_and_mode(run, photos, tmp_path):
    gray = Image.new("L", (50, 30), 90)
    gray.save(tmp_path / "gray.png")
    clear = Image.new("RGBA", (20, 90), (9, 9, 9, 0))
    clear.save(tmp_path / "clear.webp")
    found = inv.search(
        run,
        photos,
        [tmp_path / "gray.png", tmp_path / "clear.webp", gray],
        k=1,
        sheet=tmp_path / "s.png",
    )
    assert len(found.neighbors) == 3
    assert found.neighbors[0].hits == found.neighbors[2].hits


def test_a_result_is_shown_as_lines_and_as_a_table(run, tmp_path):
    folder = tmp_path / "<odd>"
    folder.mkdir()
    Image.new("RGB", (16, 16), (9, 99, 9)).save(folder / "a&b.png")
    result = inv.search(run, folder, folder / "a&b.png", k=2)
    assert isinstance(result, inv.SearchResult) and len(result) == 1
    (hits,) = result
    assert [hit.name for hit in hits] == ["a&b.png"] and len(hits) == 1
    path = folder / "a&b.png"
    assert repr(result).splitlines() == [
        f"{path} in 1 image:",
        f"   1   1.000  {path}",
        "The gallery has 1 image, fewer than k = 2: all are shown.",
    ]
    assert repr(hits).splitlines()[0] == f"{path}:"
    page = result._repr_html_()
    assert "&lt;odd&gt;/a&amp;b.png" in page and "<odd>" not in page


def test_a_value_knows_where_its_images_are(run, photos, query, tmp_path):
    value = inv.embed(run, photos)
    found = inv.search(run, value, query, k=1, sheet=tmp_path / "s.png")
    assert found.neighbors[0].hits[0].path == str(photos.resolve() / "dog/z.png")
    assert found.notes == ()

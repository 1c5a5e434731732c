"""HEIC, the photos of an iPhone: read where pillow-heif is, else counted."""

import io
import tarfile

import numpy as np
import pillow_heif
import pytest
from PIL import Image

from invariance.data import load, open_image
from invariance.errors import DataError

ORIENTATION = 0x0112


def corner(turned: int | None = None) -> Image.Image:
    """White at the top left, wider than high; perhaps with an orientation."""
    pixels = np.zeros((32, 48, 3), np.uint8)
    pixels[:16, :24] = 255
    image = Image.fromarray(pixels)
    if turned:
        image.getexif()[ORIENTATION] = turned
    return image


def write_heic(path, image):
    pillow_heif.from_pillow(image).save(path, quality=90)


@pytest.fixture
def without_heic(monkeypatch):
    """As where the library is not installed and nobody has told Pillow of HEIC."""
    monkeypatch.setattr("invariance.data._decode.can_read_heic", lambda: False)
    monkeypatch.setattr("invariance.data._folder.can_read_heic", lambda: False)
    Image.init()
    monkeypatch.setattr(Image, "ID", [name for name in Image.ID if name != "HEIF"])


@pytest.mark.parametrize("name", ["a.heic", "a.HEIC", "a.heif", "really_heic.jpg"])
def test_photos_are_read_whatever_they_are_called(tmp_path, name, picture):
    write_heic(tmp_path / "x.heic", corner())
    (tmp_path / "x.heic").rename(tmp_path / name)
    picture(1).save(tmp_path / "b.png")
    source = load(str(tmp_path), image_size=32)
    assert sorted(source.paths) == sorted([name, "b.png"]) and not source.unreadable
    photo = source.samples[source.paths.index(name)].float().mean(0)
    assert photo[4, 4] > 200 and photo[-4, -4] < 50


@pytest.mark.parametrize("turned", [3, 6, 8])
def test_photos_are_turned_upright_as_a_jpeg_is(tmp_path, turned):
    image = corner(turned)
    pillow_heif.register_heif_opener()
    image.save(tmp_path / "a.heic", exif=image.getexif().tobytes())
    image.save(tmp_path / "a.jpg", exif=image.getexif(), quality=95)
    heic, jpeg = (open_image(tmp_path / f"a.{s}").convert("L") for s in ("heic", "jpg"))
    assert heic.size == jpeg.size
    difference = np.asarray(heic).astype(int) - np.asarray(jpeg)
    assert np.abs(difference).mean() < 8


def test_without_the_library_they_are_counted(tmp_path, picture, without_heic):
    for k in range(3):
        write_heic(tmp_path / f"{k}.heic", corner())
        picture(k).save(tmp_path / f"{k}.png")
    source = load(str(tmp_path))
    assert len(source) == 3
    advice = '3 HEIC photos left out: pip install "invariance[heic]" to read them.'
    assert advice in map(str, source.notes)


def test_without_the_library_nothing_but_photos_is_an_error(tmp_path, without_heic):
    write_heic(tmp_path / "a.heic", corner())
    with pytest.raises(DataError, match=r'holds no images.*"invariance\[heic\]"'):
        load(str(tmp_path))


def test_without_the_library_a_photo_called_jpg_is_named(
    tmp_path, picture, without_heic
):
    write_heic(tmp_path / "x.heic", corner())
    (tmp_path / "x.heic").rename(tmp_path / "x.jpg")
    for k in range(9):
        picture(k).save(tmp_path / f"{k}.png")
    assert "a HEIC photo: pip install" in load(str(tmp_path)).unreadable["x.jpg"]


def test_photos_in_shards(tmp_path):
    with tarfile.open(tmp_path / "a.tar", "w") as shard:
        for k in range(4):
            write_heic(tmp_path / "x.heic", corner())
            shard.add(tmp_path / "x.heic", f"{k}.heic")
    source = load(str(tmp_path / "a.tar"))
    assert len(source) == 4 and source.samples[0].float().mean() > 20


@pytest.mark.skipif(
    "AVIF" not in Image.registered_extensions().values(), reason="no AVIF in Pillow"
)
def test_avif_is_turned_upright(tmp_path):
    file = io.BytesIO()
    corner().save(file, "AVIF", exif=corner(6).getexif())
    file.seek(0)
    assert open_image(file).size == (32, 48)

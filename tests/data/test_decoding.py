from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from invariance.data import crop_square, open_image

RED = (255, 0, 0)


def halves(left: tuple[int, ...], right: tuple[int, ...], mode: str) -> Image.Image:
    image = Image.new(mode, (16, 16), left)
    image.paste(right, (8, 0, 16, 16))
    return image


def read(image: Image.Image, path: Path, channels: int = 3, size: int = 16, **save):
    image.save(path, **save)
    return crop_square(open_image(path, size), size, channels).int()


@pytest.mark.parametrize("suffix", ["png", "bmp", "gif", "tiff", "ppm"])
def test_lossless_formats_keep_every_pixel(tmp_path, suffix):
    x = read(halves(RED, (0, 0, 255), "RGB"), tmp_path / f"a.{suffix}")
    assert x[:, 3, 3].tolist() == [255, 0, 0] and x[:, 3, 12].tolist() == [0, 0, 255]


@pytest.mark.parametrize("suffix", ["jpg", "webp"])
def test_lossy_formats_keep_the_colors(tmp_path, suffix):
    x = read(halves(RED, (0, 0, 255), "RGB"), tmp_path / f"a.{suffix}", quality=95)
    assert (x[:, 3, 3] - torch.tensor(RED)).abs().max() < 20


def test_gray_becomes_three_equal_channels_or_one(tmp_path):
    image = Image.new("L", (16, 16), 77)
    assert read(image, tmp_path / "a.png").unique().tolist() == [77]
    assert read(image, tmp_path / "a.png", channels=1).shape == (1, 16, 16)


@pytest.mark.parametrize("mode", ["RGBA", "LA"])
def test_transparent_pixels_are_white(tmp_path, mode):
    dark = (10,) * (len(mode) - 1)
    x = read(halves((*dark, 0), (*dark, 255), mode), tmp_path / "a.png")
    assert x[:, 3, 3].tolist() == [255] * 3 and x[:, 3, 12].tolist() == [10] * 3


def test_half_transparent_is_half_white(tmp_path):
    x = read(Image.new("RGBA", (16, 16), (0, 0, 0, 128)), tmp_path / "a.png")
    assert x[0, 0, 0].item() == pytest.approx(127, abs=1)


def test_palette_with_a_transparent_entry(tmp_path):
    image = halves(RED, (0, 0, 255), "RGB").quantize(4)
    first = image.getpixel((0, 0))
    x = read(image, tmp_path / "a.png", transparency=first)
    assert x[:, 3, 3].tolist() == [255] * 3 and x[2, 3, 12] > 200


def test_palette_without_transparency(tmp_path):
    x = read(halves(RED, (0, 0, 255), "RGB").quantize(4), tmp_path / "a.png")
    assert x[:, 3, 3].tolist() == [255, 0, 0]


def test_one_bit(tmp_path):
    x = read(halves((0,), (1,), "1"), tmp_path / "a.png", channels=1)
    assert x[0, 3, 3] == 0 and x[0, 3, 12] == 255


@pytest.mark.parametrize("suffix", ["png", "tiff"])
def test_sixteen_bits_are_scaled_over_their_whole_range(tmp_path, suffix):
    wide = np.full((16, 16), 32896, np.uint16)  # 128 * 257
    wide[:, 8:] = 65535
    x = read(Image.fromarray(wide), tmp_path / f"a.{suffix}", channels=1)
    assert x[0, 3, 3] == 128 and x[0, 3, 12] == 255


@pytest.mark.parametrize(("scale", "top"), [(1.0, 255), (200.0, 200)])
def test_floats(tmp_path, scale, top):
    real = np.zeros((16, 16), np.float32)
    real[:, 8:] = scale
    x = read(Image.fromarray(real), tmp_path / "a.tiff", channels=1)
    assert x[0, 3, 3] == 0 and x[0, 3, 12] == top


def test_cmyk(tmp_path):
    x = read(Image.new("CMYK", (16, 16), (0, 255, 255, 0)), tmp_path / "a.jpg")
    assert x[0, 8, 8] > 200 and x[1, 8, 8] < 60


def test_the_first_frame_of_an_animation(tmp_path):
    frames = [Image.new("RGB", (16, 16), c) for c in (RED, (0, 255, 0))]
    path = tmp_path / "a.gif"
    frames[0].save(path, save_all=True, append_images=frames[1:])
    assert crop_square(open_image(path), 16, 3)[:, 0, 0].tolist() == [255, 0, 0]


def test_exif_orientation_is_obeyed(tmp_path):
    exif = Image.Exif()
    exif[0x0112] = 6  # to be turned a quarter clockwise: left becomes top
    image = halves(RED, (0, 0, 255), "RGB")
    x = read(image, tmp_path / "a.jpg", exif=exif, quality=95)
    assert x[0, 3, 8] > 200 and x[2, 12, 8] > 200
    assert x[0, 12, 8] < 60


def test_nonsense_exif_is_ignored(tmp_path):
    path = tmp_path / "a.jpg"
    Image.new("RGB", (16, 16), RED).save(path, exif=b"Exif\x00\x00II*\x00garbage")
    assert crop_square(open_image(path, 16), 16, 3).shape == (3, 16, 16)


def test_the_centre_of_a_wide_picture_is_kept():
    image = Image.new("RGB", (48, 16), RED)
    image.paste((0, 255, 0), (16, 0, 32, 16))
    assert crop_square(image, 16, 3)[:, :, [0, 15]].float().mean((1, 2)).tolist() == [
        0,
        255,
        0,
    ]


@pytest.mark.parametrize("size", [8, 64])
def test_resizing_is_antialiased_both_ways(size):
    board = np.indices((32, 32)).sum(0) % 2 * 255
    x = crop_square(Image.fromarray(board.astype(np.uint8)), size, 1)
    assert x.shape == (1, size, size)
    if size == 8:
        assert (x.float() - 127.5).abs().max() < 8


def test_a_large_jpeg_is_decoded_small_and_alike(tmp_path):
    big = Image.fromarray(
        np.linspace(0, 255, 512 * 512).reshape(512, 512).astype(np.uint8)
    )
    x = read(big, tmp_path / "a.jpg", channels=1, size=16)
    assert (x - crop_square(big, 16, 1).int()).abs().max() <= 3

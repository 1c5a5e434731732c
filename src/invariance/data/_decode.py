"""One file or array in, one square uint8 image out, whatever the image was.

* turned upright as its EXIF orientation says; the first frame of an animation;
* transparent pixels on white; palettes, CMYK and the like as RGB;
* 16 bits to 8 by v * 255 / 65535, the whole range, not the image's own;
* the shorter side resized to ``size`` (bilinear, antialiased), the center cut out.
"""

import contextlib
from pathlib import Path
from typing import IO, TYPE_CHECKING

import numpy as np
from jaxtyping import UInt8
from PIL import Image, ImageOps

if TYPE_CHECKING:
    import torch

WIDE = ("I", "I;16", "I;16L", "I;16B", "I;16N")
TRANSPARENT = ("RGBA", "LA", "PA", "RGBa", "La")


def open_image(path: Path | IO[bytes], size: int | None = None) -> Image.Image:
    """The image in a file, upright; raises whatever Pillow raises if it is broken.

    A JPEG far larger than ``size`` is decoded at 1/2, 1/4 or 1/8 of its size.
    """
    with Image.open(path) as image:
        short = min(image.size)
        if size is not None and short >= 4 * size:
            factor = 2 * size
            image.draft(
                None, (image.width * factor // short, image.height * factor // short)
            )
        # a JPEG without either has no orientation, so it is not asked for one
        if image.format != "JPEG" or {"exif", "xmp"} & image.info.keys():
            with contextlib.suppress(KeyError, TypeError, SyntaxError, ValueError):
                ImageOps.exif_transpose(image, in_place=True)  # bad EXIF is no harm
        image.load()
        return image


def crop_square(image: Image.Image, size: int, channels: int) -> "torch.Tensor":
    """The center of an image, ``size`` on each side, gray (1) or RGB (3)."""
    import torch  # not by those who only decode

    return torch.from_numpy(crop_pixels(image, size, channels))


def crop_pixels(
    image: Image.Image, size: int, channels: int
) -> UInt8[np.ndarray, "c h w"]:
    """The same as an array."""
    image = to_8_bits(image)
    if image.mode in TRANSPARENT or "transparency" in image.info:
        image = image.convert("RGBA")
        image = Image.alpha_composite(Image.new("RGBA", image.size, "white"), image)
    mode = "L" if channels == 1 else "RGB"
    image = image if image.mode == mode else image.convert(mode)
    side = min(image.size)
    left, top = (image.width - side) // 2, (image.height - side) // 2
    if image.size != (side, side):
        image = image.crop((left, top, left + side, top + side))
    if side != size:
        image = image.resize((size, size), Image.Resampling.BILINEAR)
    pixels = np.array(image).reshape(size, size, channels)
    return np.ascontiguousarray(pixels.transpose(2, 0, 1))


def to_8_bits(image: Image.Image) -> Image.Image:
    """Wide integers and floats as gray bytes; everything else as it is."""
    if image.mode in WIDE:
        wide = np.asarray(image).astype(np.float64).clip(0, 65535)
        return Image.fromarray(np.rint(wide * 255 / 65535).astype(np.uint8))
    if image.mode == "F":
        real = np.nan_to_num(np.asarray(image).astype(np.float64))
        real = real * 255 if real.max() <= 1 else real
        return Image.fromarray(np.rint(real.clip(0, 255)).astype(np.uint8))
    return image


def to_pillow(pixels: UInt8[np.ndarray, "h w c"]) -> Image.Image:
    """Bytes as an image of Pillow: 1 channel gray, 3 RGB, 4 RGB and alpha."""
    return Image.fromarray(pixels[:, :, 0] if pixels.shape[2] == 1 else pixels)


def shorter_side(path: Path) -> int:
    """From the file's header alone; raises when it is not an image."""
    with Image.open(path) as image:
        return min(image.size)

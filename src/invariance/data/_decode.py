"""One file or array in, one square uint8 image out, whatever the image was.

* turned upright as its EXIF orientation says; the first frame of an animation;
* transparent pixels on white; palettes, CMYK and the like as RGB;
* 16 bits to 8 by v * 255 / 65535, the whole range, not the image's own;
* the shorter side resized to ``size`` (bilinear, antialiased), the center cut out.

HEIC, the photos of an iPhone, are read where pillow-heif is installed, whatever the
file is called.
"""

import contextlib
import functools
import importlib.util
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import UInt8
from PIL import Image, ImageOps, UnidentifiedImageError

from ..errors import DataError
from ..words import count

if TYPE_CHECKING:
    import torch

WIDE = ("I", "I;16", "I;16L", "I;16B", "I;16N")
GRAY = ("L", "1", "F", *WIDE)
HEIC = (".heic", ".heif", ".hif")
HEIC_BRANDS = (b"heic", b"heix", b"heim", b"heis", b"hevc", b"hevx", b"mif1", b"msf1")
HEIC_ADVICE = 'pip install "invariance[heic]"'
CHANNELS = (1, 3, 4)
UNCLEAR = 2.0  # the largest float: more than 1, and nearly black if 255 were white
ROWS_AT_ONCE = 1024
TRANSPARENT = ("RGBA", "LA", "PA", "RGBa", "La")


def open_image(path: Path | BytesIO, size: int | None = None) -> Image.Image:
    """The image in a file, upright; raises whatever Pillow raises if it is broken.

    A JPEG far larger than ``size`` is decoded at 1/2, 1/4 or 1/8 of its size.
    """
    with open_any(path) as image:
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


def open_any(path: Path | BytesIO) -> Image.Image:
    """The image in a file, its header read; HEIC where that can be read."""
    try:
        return Image.open(path)
    except UnidentifiedImageError:
        if not is_heic(path):
            raise
    if not can_read_heic():
        raise DataError(f"a HEIC photo: {HEIC_ADVICE} to read it")
    import pillow_heif

    pillow_heif.register_heif_opener()  # from now on Pillow knows them
    return Image.open(path)


def is_heic(path: Path | BytesIO) -> bool:
    """Whether a file begins as those of an iPhone, whatever it is called."""
    if isinstance(path, BytesIO):
        start = path.getvalue()[:12]
    else:
        with path.open("rb") as file:
            start = file.read(12)
    return start[4:8] == b"ftyp" and start[8:12] in HEIC_BRANDS


@functools.cache
def can_read_heic() -> bool:
    """Whether the library that reads HEIC is installed."""
    return importlib.util.find_spec("pillow_heif") is not None


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


def shorter_side(path: Path | BytesIO) -> int:
    """From the file's header alone; raises when it is not an image."""
    return read_header(path)[1]


def read_header(path: Path | BytesIO) -> tuple[str, int]:
    """Pillow's mode and the shorter side; raises when it is not an image."""
    with open_any(path) as image:
        return image.mode, min(image.size)


def is_gray(mode: str) -> bool:
    """Whether an image of this mode has brightness alone.

    >>> is_gray("I;16"), is_gray("RGB"), is_gray("LA")
    (True, False, False)
    """
    return mode in GRAY


def find_layout(
    images: Any, name: str, *, counted: bool = False
) -> tuple[np.ndarray, bool]:
    """The array, and whether its channels come before height and width.

    Three axes are those of gray images. What may as well be one image is refused,
    unless something else has ``counted`` the images, such as labels.
    """
    tensor = hasattr(images, "detach")
    array = to_array(images)
    shape = tuple(getattr(array, "shape", ()))
    if len(shape) == 3 or (len(shape) == 4 and {shape[1], shape[3]} & {*CHANNELS}):
        if 0 in shape:
            raise DataError(
                f"{name} is empty, of shape {shape}: give at least one image."
            )
        if len(shape) == 3:
            refuse_single(shape, name, counted=counted)
            return array, False
        both = shape[1] in CHANNELS and shape[3] in CHANNELS
        return array, tensor if both else shape[1] in CHANNELS
    raise DataError(
        f"{name} has shape {shape}: images come as (n, height, width), "
        "(n, height, width, channels) or (n, channels, height, width), "
        "with 1, 3 or 4 channels."
        + " Give a single gray image as images[None]."
        * (len(shape) == 2)
    )


def to_array(values: Any) -> Any:
    """A tensor as an array; of bfloat16, which NumPy does not have, as float32."""
    if not hasattr(values, "detach"):
        return values
    values = values.detach().cpu()
    return (values.float() if "bfloat16" in str(values.dtype) else values).numpy()


def refuse_single(shape: tuple[int, ...], name: str, *, counted: bool) -> None:
    """Raise for three axes that may be those of one image with its channels.

    >>> refuse_single((100, 28, 28), "x", counted=False)
    >>> refuse_single((3, 28, 28), "x", counted=False)
    Traceback (most recent call last):
    invariance.errors.DataError: x has shape (3, 28, 28), which may be a single image \
of 3 channels or 3 gray images: give a single image as images[None], 3 gray images as \
images[:, None].
    """
    first, middle, last = shape
    if first in (3, 4) and not counted:
        raise DataError(
            f"{name} has shape {shape}, which may be a single image of {first} "
            f"channels or {first} gray images: give a single image as images[None], "
            f"{first} gray images as images[:, None]."
        )
    if first > 1 and last in CHANNELS and middle != last and not counted:
        raise DataError(
            f"{name} has shape {shape}, that of a single image with "
            f"{count(last, 'channel')}: give it as images[None]."
        )


def find_factor(array: np.ndarray, name: str) -> float:
    """What stored values are multiplied by to become 0..255."""
    kind = array.dtype
    if kind in (np.uint8, np.bool_, np.uint16):
        return {"uint8": 1.0, "bool": 255.0, "uint16": 255 / 65535}[kind.name]
    if kind.kind not in "iuf":
        raise DataError(f"{name} holds {kind} values: expected uint8 or float images.")
    low, high = np.inf, -np.inf
    for start in range(0, len(array), ROWS_AT_ONCE):
        rows = array[start : start + ROWS_AT_ONCE]
        if kind.kind == "f" and not np.isfinite(rows).all():
            raise DataError(
                f"{name} holds NaN or infinite values: expected uint8, or floats from "
                "0 to 1."
            )
        low, high = np.minimum(low, rows.min()), np.maximum(high, rows.max())
    if not (low >= 0 and high <= 255):
        raise DataError(
            f"{name} holds {kind} values from {low:g} to {high:g}: expected uint8, or "
            "floats from 0 to 1 (undo any normalization)."
        )
    if kind.kind == "f" and 1 < high <= UNCLEAR:
        raise DataError(
            f"{name} holds floats up to {high:g}, a range that is neither 0 to 1 nor "
            "0 to 255: clip them to 1, or multiply them by 255."
        )
    return 255.0 if kind.kind == "f" and high <= 1 else 1.0


def to_bytes(
    row: np.ndarray, *, channels_first: bool, factor: float
) -> UInt8[np.ndarray, "h w c"]:
    """One image of an array as bytes, in the size and channels that it has."""
    if row.ndim == 2:
        row = row[:, :, None]
    elif channels_first:
        row = row.transpose(1, 2, 0)
    if row.dtype != np.uint8:
        row = np.rint(row.astype(np.float64) * factor).astype(np.uint8)
    return np.ascontiguousarray(row)


def to_image(image: Any, name: str = "An item of the data set") -> Image.Image:
    """Whatever a data set calls an image, as Pillow's."""
    if isinstance(image, Image.Image):
        return image
    if not hasattr(image, "shape"):
        raise DataError(
            f"{name} is {type(image).__name__}: expected a Pillow "
            "image, a tensor or an array, alone or with a label after it. Rows of "
            "numbers come as one array, numpy.array(rows)."
        )
    if len(image.shape) not in (2, 3):
        raise DataError(
            f"{name} has shape {tuple(image.shape)}: expected one image, (height, "
            "width) or with 1, 3 or 4 channels first or last. Rows of numbers come as "
            "one array, numpy.stack(rows)."
        )
    array, channels_first = find_layout(image[None], name)
    factor = find_factor(array, name)
    row = to_bytes(np.array(array[0]), channels_first=channels_first, factor=factor)
    return to_pillow(row)

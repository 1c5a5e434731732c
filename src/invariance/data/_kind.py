"""What a sample is: an image, a vector, or a kind of your own.

Everything above this room that depends on what a sample is asks its kind: how one is
read, how several make a batch, what an encoder takes, what the simplest features are,
and how a person is shown one. A batch of any kind is one tensor, with a row per
sample. A kind of your own is one class, handed over with the samples::

    inv.train(inv.Train(...), data=inv.data.Samples(recordings, Recording(length=400)))
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
import PIL.Image
import PIL.ImageDraw
import torch
from jaxtyping import Float, Shaped, UInt8
from torch import Tensor

from ..errors import DataError, SettingError, choose
from ._decode import crop_square, to_image

Shown = PIL.Image.Image | str
PLOT = 64  # pixels of a drawn vector
MOST_BARS = 32


class Kind(ABC):
    """One kind of sample: how it is read, put together, encoded and shown.

    Args:
        shape: of one sample's tensor.
    """

    name: ClassVar[str]
    """What it is called in encoder files."""
    word: ClassVar[str] = "sample"
    """What one is called in sentences; an s makes it several."""
    baseline: ClassVar[str] = "raw values"
    """What its ``plain`` features are called in tables of scores."""
    dtype: torch.dtype = torch.float32
    """Of one sample's tensor."""
    encoder: str = "mlp"
    """The encoder's name where nobody chooses one."""
    views: str = "noise"
    """The recipe of the views where neither method nor user chooses one."""
    shape: tuple[int, ...]

    def __init__(self, shape: Sequence[int]) -> None:
        self.shape = tuple(shape)

    @abstractmethod
    def read(self, raw: Any) -> Shaped[Tensor, "..."]:
        """One sample's tensor from what a file, a list or a data set holds.

        Raises if it cannot be read: the sample is then left out, with that reason.
        """

    def collate(
        self, samples: Sequence[Shaped[Tensor, "..."]]
    ) -> Shaped[Tensor, "n ..."]:
        """Samples as one batch, a row for each."""
        return torch.stack([*samples])

    def prepare(
        self, batch: Shaped[Tensor, "n ..."], dtype: torch.dtype = torch.float32
    ) -> Shaped[Tensor, "n ..."]:
        """A batch as an encoder of that precision takes it."""
        return batch.to(dtype) if batch.is_floating_point() else batch

    def plain(self, batch: Shaped[Tensor, "n ..."]) -> Float[Tensor, "n e"]:
        """The features of the simplest baseline: all numbers of a sample."""
        return self.prepare(batch).flatten(1).float()

    def show(self, sample: Shaped[Tensor, "..."]) -> Shown:
        """One sample, or one view of it, as a person may see it."""
        return ", ".join(f"{value:.3g}" for value in sample.flatten()[:8].tolist())

    def describe(self) -> dict[str, Any]:
        """The name and what ``__init__`` takes, as JSON has it; see ``kind_of``."""
        return {"name": self.name, "shape": list(self.shape)}

    @property
    def seen(self) -> "Kind":
        """What views give of it and an encoder takes; mostly itself."""
        return self

    @property
    def n_bytes(self) -> int:
        """Of one sample's tensor."""
        return math.prod(self.shape) * self.dtype.itemsize

    @property
    def shape_words(self) -> str:
        """The shape in sentences: 3x32x32."""
        return "x".join(map(str, self.shape))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Kind) and self.describe() == other.describe()

    def __hash__(self) -> int:
        return hash((self.name, self.shape))

    def __repr__(self) -> str:
        return f"{type(self).__name__}(shape={self.shape})"


class Image(Kind):
    """A square image of bytes; an encoder takes it in [0, 1].

    >>> Image((1, 2, 2)).plain(torch.full((1, 1, 2, 2), 255, dtype=torch.uint8))
    tensor([[1., 1., 1., 1.]])
    """

    name = word = "image"
    baseline = "raw pixels"
    dtype = torch.uint8
    views = "simclr"

    @property
    def encoder(self) -> str:  # type: ignore[override]
        """A small network for small images."""
        return "tiny" if self.shape[-1] <= 64 else "resnet18"

    def read(self, raw: Any) -> UInt8[Tensor, "c h w"]:
        """Pillow's image, an array or a tensor, cut to the square."""
        return crop_square(to_image(raw), self.shape[1], self.shape[0])

    def prepare(
        self, batch: Shaped[Tensor, "n ..."], dtype: torch.dtype = torch.float32
    ) -> Float[Tensor, "n ..."]:
        """Bytes in [0, 1]; floats are there already."""
        values = batch.to(dtype)
        return values / 255 if batch.dtype == torch.uint8 else values

    def show(self, sample: Shaped[Tensor, "c h w"]) -> PIL.Image.Image:
        """Gray, or the first three of its channels."""
        channels = sample[:3] if len(sample) >= 3 else sample[:1].expand(3, -1, -1)
        pixels = as_bytes(channels).permute(1, 2, 0).contiguous().numpy()
        return PIL.Image.fromarray(pixels)


class Vector(Kind):
    """A row of numbers.

    Args:
        shape: (width,).
        spread: the standard deviation of each number over the data, which noise is
            measured by.

    >>> kind = Vector((2,), spread=(1.0, 5.0))
    >>> kind.read([3, 4]), kind_of(kind.describe()) == kind
    (tensor([3., 4.]), True)
    """

    name = "vector"
    word = "row"

    def __init__(self, shape: Sequence[int], spread: Sequence[float] = ()) -> None:
        super().__init__(shape)
        self.spread = tuple(spread) or (1.0,) * self.shape[0]

    def read(self, raw: Any) -> Float[Tensor, " d"]:
        """Any row of finite numbers."""
        row = torch.tensor(np.asarray(raw, dtype=np.float32))
        if row.shape != self.shape:
            raise DataError(f"{tuple(row.shape)} numbers instead of {self.shape}")
        if not row.isfinite().all():
            raise DataError("some numbers are NaN or infinite")
        return row

    def show(self, sample: Float[Tensor, " d"]) -> PIL.Image.Image:
        """A bar per number, up or down by its spreads; of many, the first few."""
        heights = sample.cpu() / torch.tensor(self.spread).clamp_min(1e-12)
        n = min(len(heights), MOST_BARS)
        picture = PIL.Image.new("RGB", (PLOT, PLOT), "white")
        draw, middle = PIL.ImageDraw.Draw(picture), PLOT // 2
        draw.line((0, middle, PLOT, middle), fill="lightgray")
        for k, height in enumerate(heights[:n].clamp(-3, 3).tolist()):
            end = middle - round(height / 3 * (middle - 2))
            box = (k * PLOT // n, min(middle, end), (k + 1) * PLOT // n - 1)
            draw.rectangle((*box, max(middle, end)), fill="steelblue")
        return picture

    def describe(self) -> dict[str, Any]:
        """The spreads too."""
        return {**super().describe(), "spread": list(self.spread)}


KINDS: dict[str, type[Kind]] = {"image": Image, "vector": Vector}
"""Kinds by the name that an encoder file has; one of your own may be added."""


def kind_of(description: Mapping[str, Any]) -> Kind:
    """The kind that ``Kind.describe`` described.

    >>> kind_of({"name": "image", "shape": [3, 32, 32]})
    Image(shape=(3, 32, 32))
    """
    settings = dict(description)
    name = settings.pop("name", "")
    if name not in KINDS:
        raise SettingError(
            f"{name!r} is a kind of sample of somebody's own: add its class to "
            f"inv.data.KINDS as {name!r}, or give inv.data.Samples(items, kind) as "
            "data."
        )
    return choose(KINDS, name, "kind of sample")(**settings)


def as_bytes(image: Shaped[Tensor, "c h w"]) -> UInt8[Tensor, "c h w"]:
    """Floats in [0, 1] as bytes; others, as after a normalization, from end to end."""
    if image.dtype == torch.uint8:
        return image
    image = image.float().nan_to_num(0, 0, 0)
    low, high = image.min(), image.max()
    if low < -0.01 or high > 1.01:
        image = (image - low) / (high - low)
    return (255 * image).round().clamp(0, 255).to(torch.uint8)

"""What a sample is: an image, a vector, a sequence, or a kind of your own.

Everything above this room that depends on what a sample is asks its kind: how one is
read, how several make a batch, what an encoder takes, what the simplest features are,
and how a person is shown one. A batch of any kind is one tensor, with a row per
sample. A kind of your own is one class, handed over with the samples::

    inv.train(inv.Train(...), data=inv.data.Samples(recordings, Recording(length=400)))
"""

import json
import math
from abc import ABC, abstractmethod
from collections import abc
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import PIL.Image
import PIL.ImageDraw
import torch
from jaxtyping import Float, Shaped, UInt8
from torch import Tensor
from torch.nn.functional import adaptive_avg_pool1d

from ..errors import DataError, SettingError
from ..words import count
from ._decode import crop_square, open_image, to_image
from ._load_request import explain_unreadable
from ._recordings import open_recordings

Shape = abc.Sequence[int]
Names = abc.Sequence[str]
Shown = PIL.Image.Image | str
PLOT = 64  # pixels of a drawn vector
MOST_BARS = 32
MOST_LINES = 4  # channels of a drawn window
MOST_STEPS = 512  # of time in the plain features of a window
COLORS = ("steelblue", "darkorange", "seagreen", "firebrick")


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
    measured: ClassVar[bool] = True
    """Whether its numbers are measurements, which an encoder standardizes; numbers that
    name something, as the nodes of an edge, are none."""
    encoder: str = "mlp"
    """The encoder's name where nobody chooses one."""
    views: str = "noise"
    """The recipe of the views where neither method nor user chooses one."""
    also: ClassVar[tuple[str, ...]] = ()
    """Kinds whose methods take its samples, too."""
    shape: tuple[int, ...]

    def __init__(self, shape: Shape) -> None:
        self.shape = tuple(shape)

    @abstractmethod
    def read(self, raw: Any) -> Shaped[Tensor, "..."]:
        """One sample's tensor from what a file, a list or a data set holds.

        Raises if it cannot be read: the sample is then left out, with that reason.
        """

    def explain_unread(self, raw: Any) -> str:
        """What ``read`` ignores in a raw sample, in words; empty for most."""
        return ""

    def word_for(self, name: str) -> str:
        """What is called by a name in sentences: a sample."""
        return self.word

    def collate(
        self, samples: abc.Sequence[Shaped[Tensor, "..."]]
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

    def open(self, query: Any) -> tuple[str, Any]:
        """What a query of ``search`` is called, and what ``read`` takes of it."""
        return str(query) if isinstance(query, str) else "query", query

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

    def open(self, query: Any) -> tuple[str, PIL.Image.Image]:
        """An image file, or an image of Pillow's, upright, or an array of one."""
        if isinstance(query, PIL.Image.Image):
            return getattr(query, "filename", "") or "query", query
        if isinstance(query, Tensor | np.ndarray) and query.ndim in (2, 3):
            return "query", to_image(query, "The query")
        if not isinstance(query, str | Path):
            raise DataError(
                "A query is an image file or a Pillow image, an array of one image, "
                "such as images[0], or a list of them: got "
                f"{type(query).__name__} ({query!r:.60})."
            )
        path = Path(query).expanduser()
        if not path.exists():
            raise DataError(f"There is no query image {str(query)!r}: check the path.")
        try:
            return str(query), open_image(path)
        except Exception as cause:
            what = "a folder" if path.is_dir() else explain_unreadable(cause)
            raise DataError(
                f"The query {str(query)!r} cannot be read as an image ({what})."
            ) from None

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

    >>> from invariance.data import kind_of
    >>> kind = Vector((2,), spread=(1.0, 5.0))
    >>> kind.read([3, 4]), kind_of(kind.describe()) == kind
    (tensor([3., 4.]), True)
    """

    name = "vector"
    word = "row"
    also = ("row",)

    def __init__(self, shape: Shape, spread: abc.Sequence[float] = ()) -> None:
        super().__init__(shape)
        self.spread = tuple(spread) or (1.0,) * self.shape[0]

    @property
    def shape_words(self) -> str:
        """How many numbers there are."""
        return count(self.shape[0], "number")

    def read(self, raw: Any) -> Float[Tensor, " d"]:
        """Any row of finite numbers."""
        row = torch.tensor(np.asarray(raw, dtype=np.float32))
        if row.shape != self.shape:
            raise DataError(f"{tuple(row.shape)} numbers instead of {self.shape}")
        if not row.isfinite().all():
            raise DataError("some numbers are NaN or infinite")
        return row

    def open(self, query: Any) -> tuple[str, Any]:
        """A row of numbers, a text of one in JSON, or an .npy file with one."""
        if not isinstance(query, str | Path):
            return "query", query
        try:
            if str(query).lstrip().startswith("["):
                return str(query), json.loads(str(query))
            return str(query), np.load(Path(query).expanduser(), allow_pickle=False)
        except (OSError, ValueError) as cause:
            raise DataError(
                f"The query {str(query)!r} cannot be read as a row of numbers "
                f"({explain_unreadable(cause)}): save one with numpy.save, or write it "
                "as [0.5, 2, ...]."
            ) from None

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


class Unknown(Kind):
    """A kind of somebody's own, known by its description: it cannot be read."""

    def __init__(self, description: Mapping[str, Any], dtype: torch.dtype) -> None:
        super().__init__(description.get("shape", ()))
        self.description, self.dtype = dict(description), dtype

    @property
    def name(self) -> str:  # type: ignore[override]
        """As in the file."""
        return str(self.description.get("name"))

    def read(self, raw: Any) -> Tensor:
        """Raise: only the class itself could read one."""
        raise SettingError(
            f"{self.name!r} is a custom kind of sample: add its class to "
            f"inv.data.KINDS as {self.name!r}, or give inv.data.Samples(items, kind) "
            "as data."
        )

    def describe(self) -> dict[str, Any]:
        """The description that it was made from."""
        return self.description


class Sequence(Kind):
    """A window of values in time, of one channel or several.

    Args:
        shape: (channels, length).
        stride: values from one window of a recording to the next; None: a window.
        rate: values per second, where that is known.
        channel_names: one per channel, where they have any.
        time_column: of a table, the column with the times, where that was told.
        spread: the standard deviation of each channel, which noise is measured by.

    >>> from invariance.data import kind_of
    >>> kind = Sequence((2, 3))
    >>> kind.read([[1, 5], [2, 6], [3, 7]]), kind_of(kind.describe()) == kind
    (tensor([[1., 2., 3.],
            [5., 6., 7.]]), True)
    """

    name = "sequence"
    word = "window"
    baseline = "values and statistics"

    def __init__(
        self,
        shape: Shape,
        stride: int | None = None,
        rate: int | None = None,
        channel_names: Names = (),
        time_column: str | None = None,
        spread: abc.Sequence[float] = (),
    ) -> None:
        super().__init__(shape)
        self.spread = tuple(spread) or (1.0,) * self.shape[0]
        self.stride, self.rate = stride or self.shape[1], rate
        self.channel_names, self.time_column = tuple(channel_names), time_column

    def word_for(self, name: str) -> str:
        """A window is called by its recording and where in it it begins.

        >>> kind = Sequence((1, 9))
        >>> kind.word_for("a.wav"), kind.word_for("a.wav@9")
        ('recording', 'window')
        """
        return self.word if "@" in name else "recording"

    @property
    def encoder(self) -> str:  # type: ignore[override]
        """Long patches for audio, short ones for other series."""
        return "cpc_audio" if self.rate else "cpc_small"

    def read(self, raw: Any) -> Float[Tensor, "c t"]:
        """Finite values, (time,) or (time, channels); of more the last are taken."""
        values = torch.tensor(np.asarray(raw, dtype=np.float32))
        values = values[:, None] if values.ndim == 1 else values
        channels, length = self.shape
        if values.ndim != 2 or values.shape[1] != channels or len(values) < length:
            raise DataError(
                f"{tuple(values.shape)} values, (time, channels), instead of {length} "
                f"or more of {count(channels, 'channel')}"
            )
        values = values[-length:].T.contiguous()
        if not values.isfinite().all():
            bad = int((~values.isfinite()).sum())
            are = "is" if bad == 1 else "are"
            raise DataError(f"{bad} of its values {are} NaN or infinite")
        return values

    def check_rate(self, rate: int | None) -> None:
        """Refuse a recording of another sampling rate."""
        if rate and self.rate and rate != self.rate:
            raise DataError(
                f"{rate:,} values per second, and {self.rate:,} are needed: resample "
                "it first"
            )

    def open(self, query: Any) -> tuple[str, Any]:
        """Values in time, or a file with one recording, of which the end is taken."""
        if not isinstance(query, str | Path):
            return "query", query
        path = Path(query).expanduser()
        try:
            recording, *others = open_recordings(path, path.name, self.time_column)
            if others:
                raise DataError(f"{1 + len(others)} recordings, but a query is one")
            self.check_rate(recording.rate)
            first = max(recording.length - self.shape[1], 0)
            return str(query), recording.read(first, recording.length)
        except (DataError, OSError, ValueError) as cause:
            raise DataError(
                f"The query {str(query)!r} cannot be read as a recording "
                f"({explain_unreadable(cause)})."
            ) from None

    def plain(self, batch: Shaped[Tensor, "n ..."]) -> Float[Tensor, "n e"]:
        """All values, of long windows their means over short stretches; and per channel
        the mean, the spread and the spread of steps.
        """
        values = batch.float()
        steps = values.diff(dim=2)
        statistics = [values.mean(2), values.std(2), steps.std(2)]
        coarse = adaptive_avg_pool1d(values, min(values.shape[2], MOST_STEPS))
        return torch.cat([coarse.flatten(1), *statistics], 1)

    def show(self, sample: Float[Tensor, "c t"]) -> PIL.Image.Image:
        """A line per channel, each from its least to its greatest value."""
        width = 2 * PLOT
        picture = PIL.Image.new("RGB", (width, width), "white")
        draw = PIL.ImageDraw.Draw(picture)
        lines = adaptive_avg_pool1d(
            sample[:MOST_LINES].float().cpu(), min(sample.shape[1], width)
        )
        low, high = lines.aminmax(dim=1, keepdim=True)
        lines = (lines - low) / (high - low).clamp_min(1e-12)
        band = width / len(lines)
        for k, line in enumerate(lines):
            heights = (band * (k + 1) - 2 - line * (band - 4)).tolist()
            step = (width - 1) / max(len(heights) - 1, 1)
            points = [(i * step, height) for i, height in enumerate(heights)]
            draw.line(points, fill=COLORS[k % len(COLORS)])
        return picture

    def describe(self) -> dict[str, Any]:
        """How windows were cut, too."""
        return {
            **super().describe(),
            "stride": self.stride,
            "rate": self.rate,
            "channel_names": list(self.channel_names),
            "time_column": self.time_column,
            "spread": list(self.spread),
        }


def as_bytes(image: Shaped[Tensor, "c h w"]) -> UInt8[Tensor, "c h w"]:
    """Floats in [0, 1] as bytes; others, as after a normalization, from end to end."""
    if image.dtype == torch.uint8:
        return image
    image = image.float().nan_to_num(0, 0, 0)
    low, high = image.min(), image.max()
    if low < -0.01 or high > 1.01:
        image = (image - low) / (high - low)
    return (255 * image).round().clamp(0, 255).to(torch.uint8)

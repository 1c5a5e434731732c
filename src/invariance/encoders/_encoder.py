r"""An encoder is any network, plus the width of its features.

$$f:\ (n, \ldots) \to (n, e),\qquad e = \texttt{encoder.width}$$

Feature maps (n e h w) are averaged over places; anything else than (n e) or (n e h w)
is an error. One blank sample is run through the network to find the width, after which
the network is exactly what it was.
"""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from jaxtyping import Float, Shaped
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from ..data import Image, Kind
from ..errors import NotFiniteError, SettingError, ShapeError

LEAST, MOST = -1.0, 2.0  # pixels; resizing may overshoot 0 and 1 by a little


class Encoder(nn.Module):
    """A network whose output width is known: samples in, (n e) rows out.

    Args:
        network: any module whose output is (n e) or (n e h w).
        name: what to call it in messages and reports; the class name if left out.
        input_shape: the shape of one sample, without the batch axis.
        kind: what a sample is, see ``invariance.data.Kind``; it has the shape then.
            Without one, samples of three axes are images, and others not further known.

    >>> network = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU())
    >>> encoder = Encoder(network, input_shape=(3, 32, 32))
    >>> encoder.width, encoder(torch.zeros(5, 3, 32, 32)).shape
    (8, torch.Size([5, 8]))

    Samples need not be images:

    >>> Encoder(nn.Linear(2, 16), input_shape=(2,))
    Encoder(
      Linear, (2,) -> 16
      (network): Linear(in_features=2, out_features=16, bias=True)
    )
    """

    def __init__(
        self,
        network: nn.Module,
        *,
        name: str = "",
        input_shape: tuple[int, ...] = (3, 32, 32),
        kind: Kind | None = None,
    ):
        super().__init__()
        if not isinstance(network, nn.Module):
            raise SettingError(
                "An encoder is made from a torch.nn.Module that maps samples to rows: "
                f"got {network!r}. By name, invariance.encoders.build_encoder makes "
                "one; a function can be the forward of a Module."
            )
        self.network = network
        self.name = name or type(network).__name__
        self.input_shape = tuple(input_shape) if kind is None else kind.shape
        if kind is None and len(self.input_shape) == 3:
            kind = Image(self.input_shape)
        self.kind = kind
        self.width: int = self._measure()

    def forward(self, samples: Shaped[Tensor, "n ..."]) -> Float[Tensor, "n e"]:
        """One row of features per sample."""
        features = self.network(samples)
        if isinstance(features, Tensor) and features.ndim == 4:
            features = features.mean((2, 3))
        if not isinstance(features, Tensor) or features.ndim != 2:
            raise ShapeError(
                f"{self.name} needs to give (n e) features, or (n e h w) maps to be "
                f"averaged over places: got {describe_output(features)}. Wrap it in a "
                "module that picks or pools one row per sample."
            )
        if features.shape[0] != samples.shape[0]:  # len() would stop an export
            raise ShapeError(
                f"{self.name} needs to give one row per sample: got {len(features)} "
                f"rows for {len(samples)} samples."
            )
        return features

    def feature_map(
        self, images: Float[Tensor, "n k H W"], stage: int | None = None
    ) -> Float[Tensor, "n c h w"]:
        """What it says of every place of an image, at the end of one of its stages.

        Args:
            images: As for ``forward``.
            stage: Which map: -1 is the last one, -2 that of the stage before, and so
                on; None is -2 where there are several.

        >>> network = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU())
        >>> encoder = Encoder(network, input_shape=(3, 16, 16))
        >>> encoder.feature_map(torch.zeros(5, 3, 16, 16)).shape
        torch.Size([5, 8, 14, 14])
        """
        from ._feature_map import find_stage, run_stages  # which know encoders

        _, maps = run_stages(self, images)
        return maps[find_stage(self, maps, stage)]

    def extra_repr(self) -> str:
        """Name and shapes, for print(encoder)."""
        return f"{self.name}, {self.input_shape} -> {self.width}"

    def _measure(self) -> int:
        blank = self.blank()
        try:
            with leave_undisturbed(self.network), torch.no_grad():
                return self(blank).shape[1]
        except ShapeError:
            raise
        except (RuntimeError, ValueError, AssertionError, TypeError) as cause:
            raise ShapeError(
                f"{self.name} could not take a batch of shape {tuple(blank.shape)}: "
                f"{cause}. Check channels and image_size, or choose another network."
            ) from cause

    def blank(self) -> Shaped[Tensor, "1 ..."]:
        """One sample of zeros, as the network takes it and where it is."""
        first = next(self.parameters(), torch.empty(0))
        dtype = first.dtype if first.dtype.is_floating_point else torch.float32
        if self.kind is None:
            return torch.zeros(1, *self.input_shape, dtype=dtype, device=first.device)
        kept = self.kind.dtype
        zeros = torch.zeros(1, *self.input_shape, dtype=kept, device=first.device)
        return self.kind.prepare(zeros, dtype)


class Standardize(nn.Module):
    """(x - mean) / std of every channel, as the first layer of an encoder.

    Inside the encoder, so that whoever loads it hands over images in [0, 1], or other
    samples as they come, and need remember nothing else.

    Args:
        mean: of each entry of a sample's first axis: an image's channels.
        std: likewise.
        axes: of one sample.
        images: whether samples are images in [0, 1], and nothing else will do.
    """

    mean: Tensor
    std: Tensor
    has_looked = False
    """Whether pixels of a batch have been looked at."""

    def __init__(
        self,
        mean: list[float],
        std: list[float],
        *,
        axes: int = 3,
        images: bool = True,
    ) -> None:
        super().__init__()
        self.images, shape = images, (-1, *[1] * (axes - 1))
        self.register_buffer("mean", torch.tensor(mean).view(shape))
        self.register_buffer("std", torch.tensor(std).view(shape))

    def forward(self, samples: Float[Tensor, "n ..."]) -> Float[Tensor, "n ..."]:
        """Standardized samples."""
        if not torch.jit.is_tracing():  # which would take the shape for a tensor
            self._check(samples) if self.images else self._check_shape(samples)
        return (samples - self.mean) / self.std

    def _check_shape(self, samples: Tensor) -> None:
        if samples.ndim != self.mean.ndim + 1 or samples.shape[1] != len(self.mean):
            more = ", ..." if self.mean.ndim > 1 else ""
            raise ShapeError(
                f"This encoder takes samples of shape (n, {len(self.mean)}{more}): got "
                f"{tuple(samples.shape)}. One sample alone needs [None]."
            )

    def _check(self, images: Any) -> None:
        """Raise on the usual mistakes, which would give wrong features or none."""
        if not isinstance(images, Tensor):
            raise ShapeError(
                f"An encoder takes a tensor of images, not {type(images).__name__}: "
                "use torch.from_numpy or torch.stack."
            )
        channels = len(self.mean)
        if images.ndim != 4 or images.shape[1] != channels:
            raise ShapeError(
                f"An encoder takes images of shape (n, {channels}, height, width): got "
                f"{tuple(images.shape)}. One image needs [None], and channels that "
                "come last .permute(0, 3, 1, 2)."
            )
        if not images.dtype.is_floating_point:
            raise ShapeError(
                f"An encoder takes floats in [0, 1], not {images.dtype}: divide pixels "
                "by 255."
            )
        if self._may_look(images):
            low, high = (float(end) for end in images.detach().aminmax())
            if math.isnan(low):
                raise NotFiniteError("An encoder takes floats in [0, 1]: some are NaN.")
            if low < LEAST or high > MOST:
                raise ShapeError(
                    f"An encoder takes floats in [0, 1]: got {low:.4g} to {high:.4g}. "
                    "Divide pixels of 0 to 255 by 255, and leave out Normalize: the "
                    "encoder standardizes images itself."
                )

    def _may_look(self, images: Tensor) -> bool:
        """Whether to look at pixels: not in training, whose views are made here.

        An accelerator would wait for it, so there it is done once per encoder; a graph
        that is being compiled or exported has no values yet.
        """
        if self.training or not images.numel() or torch.compiler.is_compiling():
            return False
        first, self.has_looked = not self.has_looked, True
        return first or images.device.type == "cpu"


def standardize(encoder: Encoder, mean: list[float], std: list[float]) -> Encoder:
    """The same encoder for samples whose channels have this mean and spread.

    Channels are the first axis of a sample; images are in [0, 1].

    >>> encoder = Encoder(nn.Identity(), input_shape=(1, 2, 2))
    >>> encoder = standardize(encoder, [0.5], [2.0])
    >>> encoder(torch.ones(1, 1, 2, 2))
    tensor([[0.2500]])
    """
    # a constant channel has no spread to divide by
    least = 1e-4 if (images := isinstance(encoder.kind, Image)) else 1e-12
    layer = Standardize(
        list(mean),
        [s if s > least else 1.0 for s in std],
        axes=len(encoder.input_shape),
        images=images,
    )
    network = nn.Sequential(layer, encoder.network)
    shape = encoder.input_shape
    return Encoder(network, name=encoder.name, input_shape=shape, kind=encoder.kind)


def split_encoder(encoder: Encoder) -> tuple[Standardize | None, nn.Module]:
    """The layer that standardizes, if there is one, and the network behind it."""
    network = encoder.network
    if isinstance(network, nn.Sequential) and len(network) == 2:
        first, second = network
        if isinstance(first, Standardize):
            return first, second
    return None, network


@contextmanager
def leave_undisturbed(network: nn.Module) -> Iterator[None]:
    """Evaluation mode for a while; modes, buffers and random state come back."""
    modes = {module: module.training for module in network.modules()}
    buffers = [(b, b.clone()) for b in network.buffers() if not is_lazy(b)]
    network.eval()
    try:
        with torch.random.fork_rng(devices=[]):
            yield
    finally:
        for module, training in modes.items():
            module.training = training
        with torch.no_grad():
            for buffer, before in buffers:
                buffer.copy_(before)


def describe_output(output: object) -> str:
    """What a network returned, for a message."""
    if isinstance(output, Tensor):
        return f"a tensor of shape {tuple(output.shape)}"
    return f"a {type(output).__name__}"

r"""Random numbers that are a function of their keys, not of a moving state.

$$x_{ij} = \mathrm{mix}\big(\mathrm{mix}(\text{sample}_i\,\varphi) + j\,\varphi +
\mathrm{key}(\text{seed}, \text{epoch}, \text{view}, \text{stream})\big) \bmod 2^{64}$$

A row belongs to one sample and never sees its neighbors, so a batch may be shuffled,
split over workers or devices, or started again in the middle of an epoch, and each
image meets the same augmentation. `mix` is the finalizer of the splitmix64 generator,
an exact integer map: a CPU and a GPU give the same bits.

What depends on seed and epoch is one number, `epoch_key`. It can live on the device, so
that a captured step draws new numbers when that number is replaced.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from ..errors import ShapeError
from ..randomness import GOLDEN, as_signed, mix, mix_int, shift

# Each kind of number has its own key, so a coin says nothing about a uniform.
UNIFORM, NORMAL, PERMUTATION, COIN, CHILD = range(1, 6)


@dataclass(frozen=True, eq=False)
class Draws:
    """A source of random numbers, one row per sample, keyed by the sample's id.

    Methods are pure: asked twice, they give the same answer. An operation that needs
    several numbers asks for them at once, or takes a `substream`.

    >>> draws = Draws(seed=0, epoch=3, samples=torch.tensor([7, 8, 9]), view=1)
    >>> draws.uniform(2).shape
    torch.Size([3, 2])
    >>> alone = Draws(seed=0, epoch=3, samples=torch.tensor([9]), view=1)
    >>> bool((draws.uniform(2)[2] == alone.uniform(2)[0]).all())
    True
    """

    seed: int
    epoch: int
    samples: Int[Tensor, "..."]  # one id per image
    view: int
    stream: int = 0
    hashed: Int[Tensor, " n"] | None = field(default=None, repr=False)
    key: Int[Tensor, ""] | None = field(default=None, repr=False)  # of seed and epoch

    def __post_init__(self) -> None:
        if self.samples.ndim != 1 or self.samples.is_floating_point():
            raise ShapeError(
                "samples needs one whole number per image: got "
                f"{self.samples.dtype} of shape {tuple(self.samples.shape)}."
            )
        if self.hashed is None:  # once for all streams of these samples
            hashed = mix(self.samples.long() * as_signed(GOLDEN))
            object.__setattr__(self, "hashed", hashed)

    @classmethod
    def from_key(cls, key: Int[Tensor, ""], samples: Tensor, view: int) -> "Draws":
        """The source whose seed and epoch are known by their `epoch_key` alone."""
        return cls(0, 0, samples, view, key=key)

    def substream(self, i: int) -> "Draws":
        """An independent source for the i-th part of an operation or a list."""
        return replace(self, stream=child_stream(self.stream, i))

    def rows(self, index: Int[Tensor, " k"] | slice) -> "Draws":
        """The same source for some of the samples."""
        hashed = None if self.hashed is None else self.hashed[index]
        return replace(self, samples=self.samples[index], hashed=hashed)

    def to(self, device: torch.device | str) -> "Draws":
        """The same source with its numbers made on another device."""
        if self.samples.device == torch.device(device):
            return self
        samples = self.samples.to(device, non_blocking=True)
        key = None if self.key is None else self.key.to(device, non_blocking=True)
        return replace(self, samples=samples, hashed=None, key=key)

    def uniform(self, k: int) -> Float[Tensor, "n {k}"]:
        """Multiples of 2^-24 in [0, 1)."""
        return (shift(self._words(k, UNIFORM), 40)).float() * 2.0**-24

    def normal(self, k: int) -> Float[Tensor, "n {k}"]:
        """Standard normals (Box-Muller, two per word).

        Logarithm and cosine are taken in float64 and rounded once, so that devices
        agree although their mathematical functions differ in the last bit.
        """
        words = self._words((k + 1) // 2, NORMAL)
        high = (shift(words, 32) + 1).double() * 2.0**-32
        angle = (words & 0xFFFFFFFF).double() * (2 * math.pi * 2.0**-32)
        radius = high.log().mul_(-2).sqrt_()
        pair = torch.cat([radius * angle.cos(), radius * angle.sin()], 1)
        return pair[:, :k].float()

    def image_noise(self, shape: Sequence[int]) -> Float[Tensor, "n ..."]:
        """Standard normals, one array of `shape` per sample."""
        return self.normal(math.prod(shape)).reshape(len(self.samples), *shape)

    def permutation(self, k: int) -> Int[Tensor, "n {k}"]:
        """The numbers 0 to k - 1 in each sample's own order."""
        return self._words(k, PERMUTATION).argsort(1)

    def coin(self, p: float | int) -> Bool[Tensor, " n"]:
        """True with probability p."""
        return shift(self._words(1, COIN)[:, 0], 40).float() * 2.0**-24 < p

    def _words(self, k: int, kind: int) -> Int[Tensor, "n {k}"]:
        parts = (self.view, self.stream, kind)
        if self.key is None:
            key: int | Tensor = as_signed(
                _fold(epoch_key(self.seed, self.epoch), *parts)
            )
        else:
            key = self.key
            for part in parts:
                key = mix((key ^ as_signed(part)) + as_signed(GOLDEN))
        assert self.hashed is not None
        counters = torch.arange(1, k + 1, device=self.samples.device)
        return mix(self.hashed[:, None] + (counters * as_signed(GOLDEN) + key))


def epoch_key(seed: int, epoch: int) -> int:
    """All that draws depend on beside sample, view and stream, as one 64-bit word."""
    return _fold(0, seed, epoch)


def child_stream(stream: int, i: int) -> int:
    """The number of a stream's i-th substream."""
    return mix_int(stream + CHILD + GOLDEN * (i + 1))


def _fold(key: int, *parts: int) -> int:
    for part in parts:
        key = mix_int((key ^ part) + GOLDEN)
    return key

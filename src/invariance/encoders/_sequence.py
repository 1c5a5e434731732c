r"""Encoders of sequences: a code per patch of time, and a context of all codes so far.

$$z_l = g(x_{sl+1},\dots,x_{sl+s}),\qquad c_l = h(z_1,\dots,z_l)$$

g is a stack of convolutions whose kernels are as long as their strides, so that a code
sees its own s values of time and no others. What a context predicts ahead it has
therefore never seen: no value belongs to both. (The encoder of the CPC paper has longer
kernels: its neighboring codes share values, and one step ahead is partly known.) Where
a window is not a multiple of s, its first values are left out, not its last.

h is a GRU or a stack of causal convolutions. The features of a window are its last
context, or the mean of its contexts.

    cpc_small   patches of 8,   GRU,                  the last context
    cpc_conv    patches of 8,   causal convolutions,  the last context
    cpc_audio   patches of 160, GRU,                  the mean of contexts
"""

from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise
from math import prod
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.functional import pad

from ..errors import SettingError, ShapeError, choose
from ._encoder import Encoder

Codes = Float[Tensor, "n l e"]
Contexts = Float[Tensor, "n l w"]


class Recurrent(nn.Module):
    """A context of all codes so far: a GRU."""

    def __init__(self, latent: int, width: int) -> None:
        super().__init__()
        self.gru = nn.GRU(latent, width, batch_first=True)

    def forward(self, codes: Codes) -> Contexts:
        """One context per code."""
        contexts: Tensor = self.gru(codes)[0]
        return contexts


class Causal(nn.Module):
    """A context of the last 31 codes: convolutions that look back only.

    Four layers of kernel 3, dilated 1, 2, 4 and 8, each added to what it was given.
    """

    def __init__(self, latent: int, width: int) -> None:
        super().__init__()
        self.first = nn.Linear(latent, width)
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(4))
        self.layers = nn.ModuleList(
            nn.Conv1d(width, width, 3, dilation=2**k) for k in range(4)
        )
        self.last = nn.LayerNorm(width)

    def forward(self, codes: Codes) -> Contexts:
        """One context per code."""
        x = self.first(codes)
        for k, (norm, layer) in enumerate(zip(self.norms, self.layers, strict=True)):
            past = pad(norm(x).transpose(1, 2), (2 ** (k + 1), 0))
            x = x + torch.relu(layer(past)).transpose(1, 2)
        contexts: Tensor = self.last(x)
        return contexts


CONTEXTS = {"gru": Recurrent, "conv": Causal}
SUMMARIES = {"last": 0, "mean": 1}


class Predictive(nn.Module):
    """Codes of patches and contexts of codes; one row of context per window.

    Args:
        channels: of the sequences.
        strides: of the convolutions, one each; their product is the length of a patch.
            One of 1 comes first where channels are to be mixed before times are.
        latent: width of a code.
        width: of a context, and so of the features.
        context: "gru" or "conv".
        summary: which row stands for a window, its "last" context or their "mean".

    >>> network = Predictive(channels=3)
    >>> codes, contexts = network.unroll(torch.zeros(2, 3, 64))
    >>> codes.shape, contexts.shape, network(torch.zeros(2, 3, 64)).shape
    (torch.Size([2, 8, 64]), torch.Size([2, 8, 128]), torch.Size([2, 128]))
    """

    def __init__(
        self,
        *,
        channels: int = 1,
        strides: Sequence[int] = (1, 4, 2),
        latent: int = 64,
        width: int = 128,
        context: str = "gru",
        summary: str = "last",
    ) -> None:
        super().__init__()
        if min(channels, latent, width, *strides) < 1:
            raise SettingError(
                "channels, strides, latent and width need to be 1 or more: got "
                f"{channels}, {tuple(strides)}, {latent} and {width}."
            )
        choose(SUMMARIES, summary, "summary of contexts")
        self.patch, self.latent, self.summary = prod(strides), latent, summary
        widths = [channels, *[latent] * len(strides)]
        self.convolutions = nn.ModuleList(
            nn.Conv1d(before, after, stride, stride)
            for (before, after), stride in zip(pairwise(widths), strides, strict=True)
        )
        # over the channels of one place: nothing passes between times or samples
        self.norms = nn.ModuleList(nn.LayerNorm(latent) for _ in strides)
        self.last = nn.Linear(latent, latent)
        self.context = choose(CONTEXTS, context, "context")(latent, width)

    def unroll(self, windows: Float[Tensor, "n c t"]) -> tuple[Codes, Contexts]:
        """The code of every patch, and the context of all codes up to it."""
        x = windows[..., windows.shape[-1] % self.patch :]
        for layer, norm in zip(self.convolutions, self.norms, strict=True):
            x = torch.relu(norm(layer(x).transpose(1, 2))).transpose(1, 2)
        codes = self.last(x.transpose(1, 2))
        return codes, self.context(codes)

    def forward(self, windows: Float[Tensor, "n c t"]) -> Float[Tensor, "n w"]:
        """The context that stands for each window."""
        if windows.shape[-1] < self.patch:
            raise ShapeError(
                f"A window needs at least the {self.patch} values of one patch: got "
                f"{windows.shape[-1]}. Use a longer --window, or an encoder of shorter "
                "patches."
            )
        contexts = self.unroll(windows)[1]
        return contexts[:, -1] if self.summary == "last" else contexts.mean(1)


SEQUENCE_ENCODERS: dict[str, Callable[..., nn.Module]] = {
    "cpc_small": Predictive,
    "cpc_conv": partial(Predictive, context="conv"),
    "cpc_audio": partial(
        Predictive, strides=(5, 4, 2, 2, 2), latent=128, width=256, summary="mean"
    ),
}


def can_unroll(encoder: object) -> bool:
    """Whether an encoder has a code and a context for every patch of time."""
    return isinstance(encoder, Encoder) and callable(
        getattr(_layers(encoder)[-1], "unroll", None)
    )


def _layers(encoder: Encoder) -> list[nn.Module]:
    """The network, behind what standardizes its windows."""
    network = encoder.network
    return list(network) if isinstance(network, nn.Sequential) else [network]


class Unrolled(nn.Module):
    """What an encoder makes of every patch: codes and contexts, side by side.

    >>> encoder = Encoder(Predictive(channels=2), input_shape=(2, 64))
    >>> unrolled = Unrolled(encoder)
    >>> unrolled.measure(encoder.input_shape)
    (8, 64)
    >>> unrolled(torch.zeros(3, 2, 64)).shape
    torch.Size([3, 8, 192])
    """

    def __init__(self, encoder: Encoder) -> None:
        super().__init__()
        if not can_unroll(encoder):
            raise SettingError(
                "Predicting ahead needs an encoder with a code for every patch of "
                f"time, and {encoder.name} has none: use "
                f"{', '.join(SEQUENCE_ENCODERS)}, or a module with a method "
                "unroll(windows) that gives codes and contexts, (n, l, e) and "
                "(n, l, w)."
            )
        self.layers = nn.ModuleList(_layers(encoder))

    def measure(self, shape: tuple[int, ...]) -> tuple[int, int]:
        """How many patches a window of this shape has, and how wide their codes are."""
        first: Any = next(self.parameters(), torch.empty(0))
        blank = torch.zeros(1, *shape, device=first.device, dtype=first.dtype)
        with torch.no_grad():
            _, n_patches, latent = self.split(blank)[0].shape
        return n_patches, latent

    def split(self, windows: Float[Tensor, "n c t"]) -> tuple[Codes, Contexts]:
        """Codes and contexts."""
        network: Any = self.layers[-1]
        for layer in self.layers[:-1]:
            windows = layer(windows)
        codes, contexts = network.unroll(windows)
        return codes, contexts

    def forward(self, windows: Float[Tensor, "n c t"]) -> Float[Tensor, "n l f"]:
        """Codes and contexts in one tensor, a row per patch."""
        return torch.cat(self.split(windows), 2)

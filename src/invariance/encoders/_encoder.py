r"""An encoder is any network, plus the width of what it says about one sample.

$$f:\ (n, c, h, w) \to (n, e),\qquad e = \texttt{encoder.width}$$

A network that ends in feature maps (n e h w) is averaged over places; anything else
than (n e) or (n e h w) is refused in words. The width is found by one forward of one
blank sample, after which the network is exactly what it was.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from ..errors import ShapeError


class Encoder(nn.Module):
    """A network whose output width is known: samples in, (n e) rows out.

    Args:
        network: any module whose output is (n e) or (n e h w).
        name: what to call it in messages and reports; the class name if left out.
        input_shape: the shape of one sample, without the batch axis.

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
    ):
        super().__init__()
        self.network = network
        self.name = name or type(network).__name__
        self.input_shape = tuple(input_shape)
        self.width: int = self._measure()

    def forward(self, samples: Float[Tensor, "n ..."]) -> Float[Tensor, "n e"]:
        """One row of features a sample."""
        features = self.network(samples)
        if isinstance(features, Tensor) and features.ndim == 4:
            features = features.mean((2, 3))
        if not isinstance(features, Tensor) or features.ndim != 2:
            raise ShapeError(
                f"{self.name} needs to give (n e) features, or (n e h w) maps to be "
                f"averaged over places: got {in_words(features)}. Wrap it in a module "
                "that picks or pools one row a sample."
            )
        if features.shape[0] != samples.shape[0]:  # len() would stop an export
            raise ShapeError(
                f"{self.name} needs to give one row a sample: got {len(features)} rows "
                f"for {len(samples)} samples."
            )
        return features

    def extra_repr(self) -> str:
        """Name and shapes, for print(encoder)."""
        return f"{self.name}, {self.input_shape} -> {self.width}"

    def _measure(self) -> int:
        first = next(self.parameters(), torch.empty(0))
        dtype = first.dtype if first.dtype.is_floating_point else torch.float32
        blank = torch.zeros(1, *self.input_shape, dtype=dtype, device=first.device)
        try:
            with undisturbed(self.network), torch.no_grad():
                return self(blank).shape[1]
        except ShapeError:
            raise
        except (RuntimeError, ValueError, AssertionError, TypeError) as cause:
            raise ShapeError(
                f"{self.name} could not take a batch of shape {tuple(blank.shape)}: "
                f"{cause}. Check channels and image_size, or choose another network."
            ) from cause


@contextmanager
def undisturbed(network: nn.Module) -> Iterator[None]:
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


def in_words(output: object) -> str:
    """What a network gave, for a message."""
    if isinstance(output, Tensor):
        return f"a tensor of shape {tuple(output.shape)}"
    return f"a {type(output).__name__}"

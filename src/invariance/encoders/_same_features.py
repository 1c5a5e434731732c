r"""Whether what was read back from a file gives the features of the original.

$$\max_{n}\max_{x \in [0,1]^{n\times c\times s\times s}} |f(x) - f'(x)|
\le 10^{-4}\max|f(x)|,\qquad n \in \{1, 2, 7\}$$
"""

from collections.abc import Callable

import torch
from torch import Tensor

from ..data import Image
from ..errors import InvarianceError, NotFiniteError
from ._encoder import Encoder

BATCHES = (1, 2, 7)
TOLERANCE = 1e-4  # of the largest feature


@torch.no_grad()
def compare_features(
    encoder: Encoder, network: Callable[[Tensor], Tensor], to: str
) -> tuple[float, float]:
    """The largest difference of any feature, and the largest feature."""
    generator = torch.Generator().manual_seed(0)
    difference = largest = 0.0
    for n in BATCHES:
        samples = draw_samples(encoder, n, generator)
        ours = encoder(samples)
        try:
            theirs = network(samples)
        except Exception as cause:
            first_line = (str(cause).strip().splitlines() or [type(cause).__name__])[0]
            raise InvarianceError(
                f"{encoder.name} as {to} fails on a batch of {n}: "
                f"{first_line.rstrip('.:')}. Nothing was written."
            ) from None
        if theirs.shape != ours.shape:
            raise InvarianceError(
                f"{encoder.name} as {to} gives features of shape "
                f"{tuple(theirs.shape)} where the original gives {tuple(ours.shape)}: "
                "nothing was written."
            )
        if not bool(ours.isfinite().all()):
            raise NotFiniteError(
                f"The features of {encoder.name} are not finite: it has diverged, and "
                "nothing was written."
            )
        apart = (ours - theirs).abs().nan_to_num(torch.inf)
        difference = max(difference, apart.max().item())
        largest = max(largest, ours.abs().max().item())
    if difference > TOLERANCE * largest:
        raise InvarianceError(
            f"{encoder.name} as {to} differs from the original by {difference:.3g}, "
            f"where features are up to {largest:.3g}: nothing was written."
        )
    return difference, largest


def draw_samples(encoder: Encoder, n: int, generator: torch.Generator) -> Tensor:
    """Random samples, as the encoder takes them."""
    shape, kind = (n, *encoder.input_shape), encoder.kind
    if not encoder.blank().is_floating_point():
        most = getattr(kind, "vocabulary", 2)
        return torch.randint(0, most, shape, generator=generator)
    if kind is None or isinstance(kind, Image):
        return torch.rand(shape, generator=generator)
    return torch.randn(shape, generator=generator)

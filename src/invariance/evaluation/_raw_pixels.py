"""Raw pixels: the features an encoder has to beat."""

import torch
from jaxtyping import Float, UInt8
from torch import Tensor

from ..errors import DataError, ShapeError


def raw_pixels(images: UInt8[Tensor, "n c h w"]) -> Float[Tensor, "n f"]:
    """Each image as one row of its pixels, 0 to 1, for ``knn`` and ``linear_probe``.

    >>> import torch
    >>> raw_pixels(torch.full((2, 1, 1, 3), 255, dtype=torch.uint8))
    tensor([[1., 1., 1.],
            [1., 1., 1.]])
    """
    if images.dtype != torch.uint8:
        raise DataError(
            f"images must be uint8, 0 to 255: got {images.dtype}. "
            "For images in 0 to 1 that are already floating, images.flatten(1) is all."
        )
    if images.ndim != 4:
        raise ShapeError(f"images must be (n, c, h, w): got {tuple(images.shape)}.")
    return images.flatten(1).float() / 255

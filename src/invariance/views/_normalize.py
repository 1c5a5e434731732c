r"""Channels shifted and scaled: $x \leftarrow (x - \text{mean}) / \text{std}$."""

from dataclasses import dataclass

from jaxtyping import Float
from torch import Tensor

from ..errors import SettingError, ShapeError
from ._draws import Draws
from ._operation import Number, Operation, Shape, numbers


@dataclass(frozen=True)
class Normalize(Operation):
    """The same mean and standard deviation for every image, one number a channel.

    >>> import torch
    >>> from invariance.views import Normalize
    >>> half = torch.full((1, 3, 1, 1), 0.75)
    >>> Normalize((0.5, 0.5, 0.5), (0.25, 0.25, 0.25)).apply(half).flatten().tolist()
    [1.0, 1.0, 1.0]
    """

    mean: tuple[Number, ...]
    std: tuple[Number, ...]

    def __post_init__(self) -> None:
        if len(self.mean) != len(self.std) or not all(s > 0 for s in self.std):
            raise SettingError(
                "Normalize needs a mean and a std above 0 for each channel: got "
                f"mean={self.mean}, std={self.std}."
            )

    def draw(self, draws: Draws, shape: Shape) -> None:
        """Nothing is random here."""

    def apply(
        self, images: Float[Tensor, "n c h w"], parameters: None = None
    ) -> Float[Tensor, "n c h w"]:
        """The images normalised."""
        if images.shape[1] != len(self.mean):
            raise ShapeError(
                f"Normalize has {len(self.mean)} channels, the images have "
                f"{images.shape[1]}: give mean and std one number for each channel."
            )
        scale = numbers([1 / s for s in self.std], images)
        shift = numbers(
            [-m / s for m, s in zip(self.mean, self.std, strict=True)], images
        )
        return (images * scale.view(-1, 1, 1)).add_(shift.view(-1, 1, 1))

"""Critics by name."""

import inspect
from collections.abc import Callable

from ..errors import SettingError, choose
from ._additive import Additive
from ._bilinear import Bilinear
from ._concatenated import Concatenated
from ._cosine import Cosine
from ._critic import Critic
from ._separable import Separable

CRITICS: dict[str, Callable[..., Critic]] = {
    "bilinear": Bilinear,
    "separable": Separable,
    "concatenated": Concatenated,
    "additive": Additive,
    "cosine": Cosine,
}


def build_critic(
    name: str,
    x_width: int,
    y_width: int,
    *,
    width: int | None = None,
    depth: int | None = None,
    embed: int | None = None,
    spectral_norm: bool = False,
) -> Critic:
    """A critic of ``CRITICS`` for variables of these widths.

    Settings that a critic does not have are refused; None leaves its own default.

    >>> import torch
    >>> build_critic("bilinear", 3, 2)(torch.zeros(4, 3), torch.zeros(5, 2)).shape
    torch.Size([4, 5])
    """
    make = choose(CRITICS, name, "critic")
    sizes = {"width": width, "depth": depth, "embed": embed}
    given = {key: size for key, size in sizes.items() if size is not None}
    if bad := [f"{key}={size}" for key, size in given.items() if size < 1]:
        raise SettingError(f"Sizes of a critic are 1 or more, got {', '.join(bad)}.")
    known = inspect.signature(make).parameters
    if bad := [key for key in given if key not in known]:
        raise SettingError(f"The {name} critic has no such setting: {', '.join(bad)}.")
    return make(x_width, y_width, spectral_norm=spectral_norm, **given)

r"""Independent blocks side by side: information adds up.

$$I\big([X_1,\dots,X_b];[Y_1,\dots,Y_b]\big) = \sum_k I(X_k;Y_k)$$
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from ..errors import SettingError
from ._pairs import Pairs


def blocks(parts: Sequence[Pairs]) -> Pairs:
    """The columns of all ``parts``, which are independent of each other.

    >>> from invariance.data import correlated_gaussian, uniform_noise
    >>> whole = blocks([correlated_gaussian(2, nats=1), uniform_noise(noise=0.25)])
    >>> round(whole.nats, 4)
    1.9431
    """
    if not parts:
        raise SettingError("blocks needs at least one pair of variables.")
    x_widths, y_widths = [p.x_width for p in parts], [p.y_width for p in parts]

    def draw(n: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        drawn = [p.draw(n, generator) for p in parts]
        return torch.cat([x for x, _ in drawn], 1), torch.cat([y for _, y in drawn], 1)

    def ratio(x: Tensor, y: Tensor) -> Tensor:
        columns = zip(parts, x.split(x_widths, 1), y.split(y_widths, 1), strict=True)
        return torch.stack([p.ratio(a, b) for p, a, b in columns]).sum(0)

    return Pairs(
        " + ".join(p.name for p in parts),
        sum(p.nats for p in parts),
        sum(x_widths),
        sum(y_widths),
        draw,
        ratio,
    )

r"""Images of a pair under invertible maps: harder to estimate, the same information.

$$I(f(X);g(Y)) = I(X;Y)\quad\text{for invertible } f, g$$

Each map comes with its inverse, so that the exact critic of the image is known too.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from ..errors import SettingError, choose
from ._samplers import Pairs

Map = Callable[[Tensor], Tensor]


@dataclass(frozen=True)
class Invertible:
    """An invertible map of rows, and its inverse."""

    forward: Map
    inverse: Map
    name: str = "mapped"


def power(exponent: float) -> Invertible:
    """sign(x) |x|^p, column by column."""

    def of(p: float) -> Map:
        return lambda x: x.sign() * x.abs().pow(p)

    return Invertible(of(exponent), of(1 / exponent), f"power {exponent:g}")


def spiral(speed: float | int = 1 / 3, skew: Tensor | None = None) -> Invertible:
    r"""Turn rows the further, the longer they are.

    $$x \mapsto \exp\big(v\,|x|^2 A\big)\,x$$

    v is the ``speed`` and A an antisymmetric matrix, so that exp turns; without
    ``skew`` it turns the plane of the first two columns. The length stays, so turning
    back undoes it; volumes stay too.
    """
    if skew is not None and not torch.equal(skew, -skew.T):
        raise SettingError("A spiral's matrix must be antisymmetric: A = -A^T.")

    def turn(x: Tensor, sign: float) -> Tensor:
        if x.shape[1] < 2:
            raise SettingError("A spiral turns a plane: it needs two columns or more.")
        angle = sign * speed * x.square().sum(1)
        if skew is not None:
            if len(skew) != x.shape[1]:
                raise SettingError(
                    f"The spiral's matrix turns {len(skew)} columns, got {x.shape[1]}."
                )
            turns = torch.matrix_exp(angle[:, None, None] * skew.to(x))
            return (turns @ x[:, :, None]).squeeze(2)
        a, b = x[:, 0], x[:, 1]
        cos, sin = angle.cos(), angle.sin()
        plane = torch.stack([a * cos - b * sin, a * sin + b * cos], 1)
        return torch.cat([plane, x[:, 2:]], 1)

    name = f"spiral {speed:.2f}"
    return Invertible(lambda x: turn(x, 1.0), lambda x: turn(x, -1.0), name)


def swiss_roll() -> Invertible:
    """One column rolled up in a plane, 1.5 to 4.5 half turns from the middle."""

    def forward(x: Tensor) -> Tensor:
        if x.shape[1] != 1:
            raise SettingError("A swiss roll is made of one column.")
        t = 1.5 * math.pi * (1 + 2 * torch.special.ndtr(x))
        return torch.cat([t * t.cos(), t * t.sin()], 1) / 21

    def inverse(z: Tensor) -> Tensor:
        t = 21 * z.square().sum(1, keepdim=True).sqrt()
        inside = (t / (1.5 * math.pi) - 1) / 2
        return torch.special.ndtri(inside.clamp(1e-300, 1 - 1e-16))

    return Invertible(forward, inverse, "swiss_roll")


IMAGES: dict[str, Callable[[], Invertible]] = {
    "cubic": lambda: power(3.0),
    "half_cube": lambda: power(1.5),
    "asinh": lambda: Invertible(torch.asinh, torch.sinh),
    "spiral": spiral,
    "swiss_roll": swiss_roll,
}


def image(
    pairs: Pairs, x: str | Invertible | None = None, y: str | Invertible | None = None
) -> Pairs:
    """``pairs`` after invertible maps of x, of y, or of both.

    Args:
        pairs: The variables before.
        x: A name of ``IMAGES`` or an ``Invertible``; None leaves x as it is.
        y: The same for y.

    >>> from invariance.estimators import correlated_gaussian
    >>> print(image(correlated_gaussian(20, nats=4), y="cubic"))
    gaussian 20x20, rho=0.574, y cubic
    """
    same = Invertible(lambda z: z, lambda z: z)
    f, g = (_find_map(m) if m is not None else same for m in (x, y))

    def draw(n: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        a, b = pairs.draw(n, generator)
        return f.forward(a), g.forward(b)

    def ratio(a: Tensor, b: Tensor) -> Tensor:
        return pairs.ratio(f.inverse(a), g.inverse(b))

    words = [_word(m, side) for m, side in ((x, "x"), (y, "y")) if m is not None]
    probe = torch.zeros(1, pairs.x_width).double(), torch.zeros(1, pairs.y_width)
    return replace(
        pairs,
        name=", ".join([pairs.name, *words]),
        x_width=f.forward(probe[0]).shape[1],
        y_width=g.forward(probe[1].double()).shape[1],
        draw=draw,
        ratio=ratio,
    )


def _find_map(m: str | Invertible) -> Invertible:
    return choose(IMAGES, m, "image")() if isinstance(m, str) else m


def _word(m: str | Invertible, side: str) -> str:
    return f"{side} {m if isinstance(m, str) else m.name}"

r"""Critics that are trained, and their catalog.

All of them map a row of x and a row of y to one number; they differ in what all n m
pairs cost and in how much information their scores can show.
"""

import inspect
import math
from abc import abstractmethod
from collections.abc import Callable
from functools import partial

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.functional import normalize
from torch.nn.utils import parametrizations

from ..errors import SettingError, choose
from ._critic import Critic, linear, mlp, score_in_chunks


def add_lone_terms(
    f: Float[Tensor, "n d"],
    a: Float[Tensor, "n 1"],
    h: Float[Tensor, "m d"],
    b: Float[Tensor, "m 1"],
) -> tuple[Float[Tensor, "n e"], Float[Tensor, "m e"]]:
    """Rows [f, a, 1] and [h, 1, b], whose inner products are f.h + a + b."""
    ones_a, ones_b = torch.ones_like(a), torch.ones_like(b)
    return torch.cat([f, a, ones_a], 1), torch.cat([h, ones_b, b], 1)


class Bilinear(Critic):
    r"""A matrix between the rows, with linear terms; starts at zero.

    $$g(x,y) = x^\top W y + a^\top x + b^\top y + c$$

    Exact up to squares for Gaussian variables under InfoNCE, with nothing to tune.
    """

    def __init__(
        self, x_width: int, y_width: int, *, spectral_norm: bool = False
    ) -> None:
        super().__init__()
        self.cross = nn.Linear(y_width, x_width, bias=False)
        self.of_x, self.of_y = nn.Linear(x_width, 1), nn.Linear(y_width, 1, bias=False)
        for layer in (self.cross, self.of_x, self.of_y):
            nn.init.zeros_(layer.weight)
        if spectral_norm:  # the gain of a zero matrix is not defined
            nn.init.normal_(self.cross.weight, std=0.01)
            parametrizations.spectral_norm(self.cross)

    def rows(self, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        return add_lone_terms(x, self.of_x(x), self.cross(y), self.of_y(y))


class Separable(Critic):
    r"""Two perceptrons that meet in an inner product.

    $$g(x,y) = f(x)\cdot h(y) + a(x) + b(y)$$

    n + m forward passes give all n m scores, so many candidates cost little. The terms
    of one variable are what bounds without a free c(x) need for normalization.

    Settings:
        width (1 or more): Of the critic's hidden layers.
        depth (1 or more): How many hidden layers the critic has.
        embed (1 or more): Numbers in which the critic's two sides meet.
    """

    def __init__(
        self,
        x_width: int,
        y_width: int,
        *,
        width: int = 128,
        depth: int = 2,
        embed: int = 32,
        spectral_norm: bool = False,
    ) -> None:
        super().__init__()
        net = partial(mlp, width=width, depth=depth, spectral_norm=spectral_norm)
        self.of_x, self.of_y = net(x_width, embed + 1), net(y_width, embed + 1)

    def rows(self, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        f, h = self.of_x(x), self.of_y(y)
        return add_lone_terms(f[:, :-1], f[:, -1:], h[:, :-1], h[:, -1:])


class Joint(Critic):
    """A network of A x + B y: a number for each pair, from a sum of two rows.

    A x and B y are computed once per row. The network runs over a bounded number of
    pairs at a time, so that n m rows never exist at once.
    """

    def __init__(
        self, x_width: int, y_width: int, width: int, *, spectral_norm: bool
    ) -> None:
        super().__init__()
        self.of_x = linear(x_width, width, spectral_norm=spectral_norm)
        self.of_y = linear(y_width, width, spectral_norm=spectral_norm)

    @abstractmethod
    def join(self, total: Float[Tensor, "*n w"]) -> Float[Tensor, "*n 1"]:
        """The numbers of pairs, from the sums of their rows."""

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        return score_in_chunks(self._block, self.of_x(x), self.of_y(y))

    def _block(self, a: Tensor, b: Tensor) -> Tensor:
        return torch.squeeze(self.join(a[:, None] + b[None]), 2)

    def score_pairs(self, x: Tensor, y: Tensor) -> Tensor:
        return torch.squeeze(self.join(self.of_x(x) + self.of_y(y)), 1)


class Concatenated(Joint):
    r"""One perceptron that sees both rows at once.

    $$g(x,y) = \mathrm{MLP}([x, y])$$

    The sharpest critic and the most expensive one, as every pair is a forward pass;
    hence smaller by default.

    Settings:
        width (1 or more): Of the critic's hidden layers.
        depth (1 or more): How many hidden layers the critic has.
    """

    def __init__(
        self,
        x_width: int,
        y_width: int,
        *,
        width: int = 64,
        depth: int = 2,
        spectral_norm: bool = False,
    ) -> None:
        super().__init__(x_width, y_width, width, spectral_norm=spectral_norm)
        rest = mlp(
            width, 1, width=width, depth=max(0, depth - 1), spectral_norm=spectral_norm
        )
        self.of_both = nn.Sequential(nn.ReLU(), rest)

    def join(self, total: Tensor) -> Tensor:
        return self.of_both(total)


class Additive(Joint):
    r"""One hidden layer of tanh units over both rows, as in additive attention.

    $$g(x,y) = w^\top\tanh(Ax + By + c) + d$$

    |g - d| <= ||w||_1: bounded, so it cannot show arbitrarily much information.
    """

    def __init__(
        self,
        x_width: int,
        y_width: int,
        *,
        width: int = 128,
        spectral_norm: bool = False,
    ) -> None:
        super().__init__(x_width, y_width, width, spectral_norm=spectral_norm)
        self.weigh = linear(width, 1, spectral_norm=spectral_norm)

    def join(self, total: Tensor) -> Tensor:
        return self.weigh(torch.tanh(total))


class Cosine(Critic):
    r"""The cosine of two embeddings over a learned temperature, as encoders use it.

    $$g(x,y) = \cos\big(f(x), h(y)\big)/\tau,\qquad \tau = e^{-p}$$

    |g| <= 1/tau, so at a given temperature InfoNCE-type values stay below about 2/tau
    and no other bound reaches further: for much information take an unbounded critic.
    """

    LARGEST_SCALE = 100.0

    def __init__(
        self,
        x_width: int,
        y_width: int,
        *,
        width: int = 128,
        depth: int = 2,
        embed: int = 32,
        temperature: float | int = 0.2,
        spectral_norm: bool = False,
    ) -> None:
        super().__init__()
        net = partial(mlp, width=width, depth=depth, spectral_norm=spectral_norm)
        self.of_x, self.of_y = net(x_width, embed), net(y_width, embed)
        self.log_scale = nn.Parameter(torch.tensor(-math.log(temperature)))

    def scale(self) -> Tensor:
        """1/temperature, at most 100."""
        return self.log_scale.exp().clamp(max=self.LARGEST_SCALE)

    def rows(self, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        return self.scale() * normalize(self.of_x(x)), normalize(self.of_y(y))


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

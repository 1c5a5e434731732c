"""Critics with nothing to train: exact ones, Gaussian ones, and frames for others."""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from ._critic import Critic, score_in_chunks

STRONGEST = 1 - 1e-7
LONGEST = 3.0


class Exact(Critic):
    r"""The exact critic of a known distribution, for tests.

    $$g(x,y) = \log\frac{p(x,y)}{p(x)p(y)} + c$$

    Wraps a function of paired rows, such as ``Pairs.log_ratio``. No bound can do better
    with any other critic.
    """

    def __init__(
        self, log_ratio: Callable[[Tensor, Tensor], Tensor], offset: float | int = 0.0
    ) -> None:
        super().__init__()
        self.log_ratio, self.offset = log_ratio, offset

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        return score_in_chunks(self._block, x, y)

    def _block(self, x: Tensor, y: Tensor) -> Tensor:
        flat = self.score_pairs(x.repeat_interleave(len(y), 0), y.repeat(len(x), 1))
        return flat.view(len(x), len(y))

    def score_pairs(self, x: Tensor, y: Tensor) -> Tensor:
        dtype = torch.promote_types(x.dtype, torch.float32)
        return self.log_ratio(x, y).to(dtype) + self.offset


class Gaussian(Critic):
    r"""The critic of a Gaussian with the correlations of the data.

    $$g(x,y) = \sum_k\Big[\frac{\rho_k\,a_k b_k}{1-\rho_k^2}
    - \frac{\rho_k^2\,(a_k^2+b_k^2)}{2(1-\rho_k^2)} - \tfrac12\log(1-\rho_k^2)\Big]$$

    with canonical variates a = A^T x, b = B^T y; ``gaussian_critic`` fits them. On
    columns made normal it is the exact critic of a Gaussian copula; ``Residual`` adds a
    network that learns what it misses.
    """

    def __init__(
        self, x_mean: Tensor, y_mean: Tensor, x_map: Tensor, y_map: Tensor, rho: Tensor
    ) -> None:
        super().__init__()
        self.x_mean, self.y_mean = nn.Buffer(x_mean), nn.Buffer(y_mean)
        self.x_map, self.y_map, self.rho = map(nn.Buffer, (x_map, y_map, rho))

    def _terms(self, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        a = (x - self.x_mean) @ self.x_map
        b = (y - self.y_mean) @ self.y_map
        left = 1 - self.rho.square()
        lone = self.rho.square() / (2 * left)
        return a * (self.rho / left), b, -(a * a) @ lone, -(b * b) @ lone

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        a, b, of_x, of_y = self._terms(x, y)
        return a @ b.T + of_x[:, None] + of_y + self.nats()

    def score_pairs(self, x: Tensor, y: Tensor) -> Tensor:
        a, b, of_x, of_y = self._terms(x, y)
        return (a * b).sum(1) + of_x + of_y + self.nats()

    def nats(self) -> Tensor:
        """The information of the fitted Gaussian."""
        return -torch.log1p(-self.rho.square()).sum() / 2


class Residual(Critic):
    """A fixed critic, as far as it is trusted, plus one that learns what is left."""

    def __init__(self, base: Critic, learned: Critic) -> None:
        super().__init__()
        self.base, self.learned = base.requires_grad_(False), learned
        self.trust = nn.Buffer(torch.ones(()))
        """What the scores of the base are multiplied by: 1, or less if it overfits."""

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        return self.trust * self.base(x, y) + self.learned(x, y)

    def score_pairs(self, x: Tensor, y: Tensor) -> Tensor:
        base, learned = self.base.score_pairs(x, y), self.learned.score_pairs(x, y)
        return self.trust * base + learned


class Symmetric(Critic):
    r"""A critic made to score both ways alike, for rows of one kind.

    $$g_s(x,y) = \tfrac12\big(g(x,y) + g(y,x)\big)$$

    Two views that one encoder has seen may change places: neither is the question.

    >>> from invariance.critics import build_critic
    >>> critic = Symmetric(build_critic("separable", 3, 3))
    >>> x, y = torch.randn(2, 4, 3)
    >>> bool(torch.allclose(critic(x, y), critic(y, x).T, atol=1e-6))
    True
    """

    def __init__(self, critic: Critic) -> None:
        super().__init__()
        self.critic = critic

    def rows(self, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor] | None:
        forth, back = self.critic.rows(x, y), self.critic.rows(y, x)
        if forth is None or back is None:
            return None
        (of_x, of_y), (y_first, x_second) = forth, back
        return torch.cat([of_x, x_second], 1) / 2, torch.cat([of_y, y_first], 1)

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        return (self.critic(x, y) + self.critic(y, x).T) / 2

    def score_pairs(self, x: Tensor, y: Tensor) -> Tensor:
        return (self.critic.score_pairs(x, y) + self.critic.score_pairs(y, x)) / 2


class Lift(nn.Module):
    r"""Rows with their squared length as one more column.

    $$z \mapsto [z,\, r] \text{ or } [z,\, r,\, r z],\qquad
    r = (|z|^2 - m) / s$$

    m and s are mean and spread of the squared length over the rows it is made from; r
    is cut at +-3. What turns or scales a row by its length (spirals, heavy tails shared
    by columns) is a curved function of all columns at once, hard to learn from few
    rows; of [z, r] it is a simple one, and nearly linear in [z, r, r z].
    """

    def __init__(self, z: Tensor, *, products: bool = False) -> None:
        super().__init__()
        square = z.square().sum(1)
        self.mean, self.spread = nn.Buffer(square.mean()), nn.Buffer(square.std())
        self.products = products

    def forward(self, z: Tensor) -> Tensor:
        square = z.square().sum(1, keepdim=True)
        r = (square - self.mean) / self.spread.clamp(min=1e-6)
        r = r.clamp(-LONGEST, LONGEST)
        return torch.cat([z, r, z * r] if self.products else [z, r], 1)


class Lifted(Critic):
    """A critic of lifted rows."""

    def __init__(self, critic: Critic, x_lift: Lift, y_lift: Lift) -> None:
        super().__init__()
        self.critic, self.x_lift, self.y_lift = critic, x_lift, y_lift

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        return self.critic(self.x_lift(x), self.y_lift(y))

    def score_pairs(self, x: Tensor, y: Tensor) -> Tensor:
        return self.critic.score_pairs(self.x_lift(x), self.y_lift(y))


def gaussian_critic(x: Tensor, y: Tensor) -> Gaussian:
    """Fit to paired rows: canonical correlations, shrunk by what n rows make up.

    Directions in which x or y hardly vary (below 1e-6 of the largest) are left out, and
    so are correlations no larger than chance makes them.
    """
    a, x_mean, x_white = _whiten(x.double())
    b, y_mean, y_white = _whiten(y.double())
    n = len(x)
    left, rho, right = torch.linalg.svd(a.T @ b / n, full_matrices=False)
    # rho^2 of independent columns is about dx dy / n in sum: the adjusted R^2 of each
    width = a.shape[1] + b.shape[1] - 1
    shrunk = 1 - (1 - rho.square()) * (n - 1) / max(1, n - 1 - width / 2)
    rho = shrunk.clamp(min=0).sqrt().clamp(max=STRONGEST)
    keep = rho > 0
    parts = (
        x_mean,
        y_mean,
        x_white @ left[:, keep],
        y_white @ right.T[:, keep],
        rho[keep],
    )
    return Gaussian(*(part.to(x.dtype) for part in parts))


def lifted_gaussian_critic(x: Tensor, y: Tensor) -> Lifted:
    """The Gaussian critic of columns, length, and columns times length.

    For many columns, whose lengths differ little: in few, products with the length are
    far from normal, and the critic claims too much.
    """
    lifts = Lift(x, products=True), Lift(y, products=True)
    return Lifted(gaussian_critic(lifts[0](x), lifts[1](y)), *lifts)


def _whiten(z: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    mean = z.mean(0)
    values, vectors = torch.linalg.eigh((z - mean).T @ (z - mean) / len(z))
    keep = values > 1e-12 * values[-1].clamp(min=1e-300)
    white = vectors[:, keep] / values[keep].sqrt()
    return (z - mean) @ white, mean, white

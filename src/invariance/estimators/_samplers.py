r"""Samplers of two variables whose mutual information is known exactly.

$$I(X;Y) = E_{p(x,y)}\Big[\log\frac{p(x,y)}{p(x)\,p(y)}\Big]$$

A ``Pairs`` is a sampler, the exact number of nats, and the logarithm inside the
expectation (the best critic there is), which is what estimators are tested against.

``image`` makes a pair harder to estimate by invertible maps f and g, with the same
information: I(f(X);g(Y)) = I(X;Y). Each map comes with its inverse, so that the exact
critic of the image is known too.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import torch
from jaxtyping import Float
from torch import Generator, Tensor

from ..errors import SettingError, choose

Draw = Callable[[int, Generator], tuple[Tensor, Tensor]]
Ratio = Callable[[Tensor, Tensor], Tensor]
Map = Callable[[Tensor], Tensor]
SCHEDULE = (2.0, 4.0, 6.0, 8.0, 10.0)
"""The nats of the published comparisons, one after the other."""


@dataclass(frozen=True)
class Pairs:
    """A joint distribution of two variables, with its exact mutual information."""

    name: str
    """What it is, with its parameters."""
    nats: float
    """Exact mutual information."""
    x_width: int
    """Columns of x."""
    y_width: int
    """Columns of y."""
    draw: Draw
    """Draws n independent rows of both in float64, from a generator."""
    ratio: Ratio
    """log p(x,y)/p(x)p(y) of paired rows."""

    def sample(
        self, n: int, *, generator: Generator, dtype: torch.dtype = torch.float32
    ) -> tuple[Float[Tensor, "n dx"], Float[Tensor, "n dy"]]:
        """``n`` independent pairs.

        >>> import torch
        >>> from invariance.estimators import correlated_gaussian
        >>> pairs = correlated_gaussian(3, nats=1.0)
        >>> x, y = pairs.sample(5, generator=torch.Generator().manual_seed(0))
        >>> x.shape, y.dtype
        (torch.Size([5, 3]), torch.float32)
        """
        if n < 1:
            raise SettingError(f"n must be at least 1, got {n}.")
        x, y = self.draw(n, generator)
        return x.to(dtype), y.to(dtype)

    def log_ratio(
        self, x: Float[Tensor, "n dx"], y: Float[Tensor, "n dy"]
    ) -> Float[Tensor, " n"]:
        """Log p(x,y)/p(x)p(y), row by row, in float64; its mean is ``nats``."""
        return self.ratio(x.double(), y.double())

    def __str__(self) -> str:
        return self.name


def rho_of(nats: float | int, dim: int) -> float:
    """The correlation of ``dim`` column pairs that together share ``nats``."""
    if nats < 0 or dim < 1:
        raise SettingError(f"Expected nats >= 0 and dim >= 1, got {nats} and {dim}.")
    return math.sqrt(-math.expm1(-2 * nats / dim))


def correlated_gaussian(
    dim: int, *, nats: float | int | None = None, rho: float | int | None = None
) -> Pairs:
    """``dim`` columns each, the k-th of x correlated with the k-th of y only.

    The yardstick of every paper on estimators; at I nats, rho = sqrt(1 - exp(-2I/dim)).

    >>> round(correlated_gaussian(20, rho=0.5).nats, 4)
    2.8768
    """
    if (nats is None) == (rho is None):
        raise SettingError("Give either nats or rho, and not both.")
    if nats is not None:
        rho = rho_of(nats, dim)
    assert rho is not None
    return canonical_gaussian([rho] * dim, x_width=dim, y_width=dim)


def canonical_gaussian(
    rhos: Sequence[float | int], *, x_width: int, y_width: int
) -> Pairs:
    """Correlations ``rhos`` between the first columns; the other columns are noise."""
    if len(rhos) > min(x_width, y_width) or not all(-1 < r < 1 for r in rhos):
        raise SettingError(
            f"Expected at most min({x_width}, {y_width}) correlations between -1 and 1,"
            f" got {list(rhos)}."
        )
    cross = torch.zeros(x_width, y_width, dtype=torch.float64)
    for k, r in enumerate(rhos):
        cross[k, k] = r
    eye = torch.eye(x_width, dtype=torch.float64), torch.eye(y_width).double()
    whole = torch.cat([torch.cat([eye[0], cross], 1), torch.cat([cross.T, eye[1]], 1)])
    alike = len(set(rhos)) == 1 and len(rhos) == x_width == y_width
    about = f"rho={rhos[0]:.3f}" if alike else f"{len(rhos)} correlated"
    return gaussian(
        whole, x_width=x_width, name=f"gaussian {x_width}x{y_width}, {about}"
    )


def gaussian(
    covariance: Float[Tensor, "d d"], *, x_width: int, name: str = ""
) -> Pairs:
    r"""Any covariance of [x, y], of which the first ``x_width`` columns are x.

    $$I(X;Y) = \tfrac12\log\frac{|\Sigma_x|\,|\Sigma_y|}{|\Sigma|}
    = -\tfrac12\sum_k\log(1-\rho_k^2)$$

    with the canonical correlations rho_k.
    """
    whole = covariance.double()
    y_width = len(whole) - x_width
    if not 0 < x_width < len(whole):
        raise SettingError(
            f"x_width must leave columns to both, got {x_width} of {len(whole)}."
        )
    factor, info = torch.linalg.cholesky_ex(whole)
    if info.item() or not torch.equal(whole, whole.T):
        raise SettingError("The covariance must be symmetric and positive definite.")

    def draw(n: int, generator: Generator) -> tuple[Tensor, Tensor]:
        rows = torch.randn(n, len(whole), generator=generator, dtype=torch.float64)
        rows = rows @ factor.T
        return rows[:, :x_width], rows[:, x_width:]

    parts = whole[:x_width, :x_width], whole[x_width:, x_width:]
    logdet = [torch.logdet(m).item() for m in (*parts, whole)]
    inverse = [torch.linalg.inv(m) for m in (*parts, whole)]
    nats = (logdet[0] + logdet[1] - logdet[2]) / 2

    def ratio(x: Tensor, y: Tensor) -> Tensor:
        both = torch.cat([x, y], 1)
        forms = [
            torch.einsum("ni,ij,nj->n", z, a, z)
            for z, a in zip((x, y, both), inverse, strict=True)
        ]
        return nats + (forms[0] + forms[1] - forms[2]) / 2

    name = name or f"gaussian {x_width}x{y_width}"
    return Pairs(name, nats, x_width, y_width, draw, ratio)


def student(dim: int, *, dof: float | int, rho: float | int = 0.0) -> Pairs:
    r"""``dim`` columns each, with ``dof`` degrees of freedom: heavy tails.

    $$I = -\tfrac12\sum_k\log(1-\rho_k^2) + f(\nu) + f(\nu+m+n) - f(\nu+m) - f(\nu+n),
    \qquad f(t) = \log\Gamma(\tfrac t2) - \tfrac t2\,\psi(\tfrac t2)$$

    for m and n columns and nu degrees of freedom: the scale of a row is shared by all
    its columns, so that even rho = 0 leaves the second part.

    >>> round(student(1, dof=3).nats, 5)
    0.04241
    """
    if dof <= 0:
        raise SettingError(f"dof must be above 0, got {dof}.")
    base, nu = correlated_gaussian(dim, rho=rho), float(dof)
    extra = _f(nu) + _f(nu + 2 * dim) - 2 * _f(nu + dim)

    def draw(n: int, generator: Generator) -> tuple[Tensor, Tensor]:
        x, y = base.draw(n, generator)
        scale = (_chi_square(n, nu, generator) / nu).rsqrt()[:, None]
        return x * scale, y * scale

    def ratio(x: Tensor, y: Tensor) -> Tensor:
        xx, yy, xy = (x * x).sum(1), (y * y).sum(1), (x * y).sum(1)
        joint = (xx + yy - 2 * rho * xy) / (1 - rho**2)
        c = [
            torch.lgamma(torch.tensor(t / 2, dtype=torch.float64))
            for t in (nu, nu + 2 * dim, nu + dim)
        ]
        tails = -(nu + 2 * dim) / 2 * torch.log1p(joint / nu) + (nu + dim) / 2 * (
            torch.log1p(xx / nu) + torch.log1p(yy / nu)
        )
        return base.nats + c[0] + c[1] - 2 * c[2] + tails

    return Pairs(
        f"student {dim}x{dim}, {dof} dof, rho={rho:.3f}",
        base.nats + extra,
        dim,
        dim,
        draw,
        ratio,
    )


def _f(t: float) -> float:
    half = torch.tensor(t / 2, dtype=torch.float64)
    return (torch.lgamma(half) - half * torch.digamma(half)).item()


def _chi_square(n: int, dof: float, generator: Generator) -> Tensor:
    """Chi-square draws; torch's own gamma takes no generator."""
    shape = dof / 2
    boost = shape < 1
    d = (shape + 1 if boost else shape) - 1 / 3
    c, out = (9 * d) ** -0.5, torch.full((n,), float("nan"), dtype=torch.float64)
    while (todo := out.isnan()).any():  # Marsaglia and Tsang's rejection
        m = int(todo.sum())
        z = torch.randn(m, generator=generator, dtype=torch.float64)
        u = torch.rand(m, generator=generator, dtype=torch.float64)
        v = (1 + c * z) ** 3
        fits = (v > 0) & (
            u.log() < z * z / 2 + d - d * v + d * v.clamp_min(1e-300).log()
        )
        out[todo] = torch.where(fits, d * v, float("nan"))
    if boost:
        out = out * torch.rand(n, generator=generator, dtype=torch.float64) ** (
            1 / shape
        )
    return 2 * out


def uniform_noise(dim: int = 1, *, noise: float | int) -> Pairs:
    r"""``dim`` uniform columns and what is left of them under noise of +-``noise``.

    $$X\sim U(0,1),\quad Y = X + U(-e, e):\qquad
    I = \begin{cases} e - \log 2e & e\le\tfrac12\\ 1/(4e) & e\ge\tfrac12\end{cases}$$

    in each column: sharp edges, no Gaussian in sight.

    >>> round(uniform_noise(noise=0.1).nats, 4)
    1.7094
    """
    if noise <= 0 or dim < 1:
        raise SettingError(f"Expected noise > 0 and dim >= 1, got {noise} and {dim}.")
    e = float(noise)
    nats = dim * (e - math.log(2 * e) if e <= 0.5 else 1 / (4 * e))

    def draw(n: int, generator: Generator) -> tuple[Tensor, Tensor]:
        shape = (2, n, dim)
        x, u = torch.rand(shape, generator=generator, dtype=torch.float64)
        return x, x + e * (2 * u - 1)

    def ratio(x: Tensor, y: Tensor) -> Tensor:
        # p(y) = |[y - e, y + e] and [0, 1]| / 2e, and p(y|x) = 1/2e inside the noise
        overlap = (y + e).clamp(max=1) - (y - e).clamp(min=0)
        edge = 1e-6  # what float32 rows may be off by
        inside = ((y - x).abs() <= e + edge) & (overlap > 0)
        return torch.where(inside, -overlap.clamp_min(1e-300).log(), -math.inf).sum(1)

    return Pairs(f"uniform {dim}x{dim}, noise {e:g}", nats, dim, dim, draw, ratio)


def table(probabilities: Sequence[Sequence[float | int]] | Tensor) -> Pairs:
    r"""X is the row and y the column of a cell drawn with its probability.

    $$I(X;Y) = \sum_{ab} p_{ab}\log\frac{p_{ab}}{p_a\,p_b}$$

    The entries need not sum to one.

    >>> round(table([[1, 0], [0, 1]]).nats, 4)
    0.6931
    """
    p = torch.as_tensor(probabilities, dtype=torch.float64)
    if p.ndim != 2 or not (p >= 0).all() or not 0 < p.sum() < torch.inf:
        raise SettingError(
            "A table holds rows of probabilities that are 0 or more and not all 0."
        )
    p = p / p.sum()
    log_ratio = p.log() - p.sum(1, keepdim=True).log() - p.sum(0, keepdim=True).log()
    nats = torch.where(p > 0, p * log_ratio, 0.0).sum().item()
    columns = p.shape[1]

    def draw(n: int, generator: Generator) -> tuple[Tensor, Tensor]:
        cells = torch.multinomial(p.flatten(), n, replacement=True, generator=generator)
        return (cells // columns)[:, None].double(), (cells % columns)[:, None].double()

    def ratio(x: Tensor, y: Tensor) -> Tensor:
        return log_ratio[x[:, 0].long(), y[:, 0].long()]

    return Pairs(f"table {p.shape[0]}x{columns} cells", nats, 1, 1, draw, ratio)


def noisy_copy(letters: int, *, keep: float | int) -> Pairs:
    """A uniform letter, kept with probability ``keep``, else drawn anew."""
    p = torch.full((letters, letters), (1 - keep) / letters, dtype=torch.float64)
    return table(p + keep * torch.eye(letters, dtype=torch.float64))


def blocks(parts: Sequence[Pairs]) -> Pairs:
    """The columns of all ``parts``, which are independent: their information adds up.

    >>> from invariance.estimators import correlated_gaussian, uniform_noise
    >>> whole = blocks([correlated_gaussian(2, nats=1), uniform_noise(noise=0.25)])
    >>> round(whole.nats, 4)
    1.9431
    """
    if not parts:
        raise SettingError("blocks needs at least one pair of variables.")
    x_widths, y_widths = [p.x_width for p in parts], [p.y_width for p in parts]

    def draw(n: int, generator: Generator) -> tuple[Tensor, Tensor]:
        xs, ys = zip(*(p.draw(n, generator) for p in parts), strict=True)
        return torch.cat(xs, 1), torch.cat(ys, 1)

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

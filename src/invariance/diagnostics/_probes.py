"""Readings that fit or differentiate something: gradient noise, and linear maps."""

from collections.abc import Callable, Sequence

import torch
from jaxtyping import Float, Integer
from torch import Tensor

from ..checked_rows import as_labels, as_rows
from ..errors import SettingError, ShapeError

Objective = Callable[..., Tensor]
RIDGE_STRENGTHS = (1e-4, 1e-3, 1e-2, 1e-1, 1.0, 10.0)


def gradient_signal_to_noise(
    u: Float[Tensor, "n d"],
    v: Float[Tensor, "n d"],
    objective: Objective,
    *,
    batch_size: int,
    max_batches: int = 200,
    labels: Integer[Tensor, " n"] | None = None,
) -> float:
    r"""Signal to noise of an objective's gradient, over disjoint batches of the rows.

    $$\mathrm{SNR} = \frac{\lVert\mathrm E\,g\rVert}
      {\sqrt{\mathrm E\lVert g-\mathrm E\,g\rVert^2}},\qquad
      g = \nabla_W\, L(Wu, Wv)\big|_{W=I}$$

    g is the gradient of a linear layer put on top of the projections, of one
    mini-batch; ‖E g‖² is corrected for the finite number of batches. Being a gradient
    of shared weights it shows what the optimizer sees, yet needs the embeddings only.
    At 1 signal and noise are equally long; B batches averaged have sqrt(B) times the
    value. Objectives are compared at the same rows and batch size.

    Args:
        u: One view.
        v: The other view.
        objective: The loss of two views' rows.
        batch_size: Rows per batch.
        max_batches: No more are looked at.
        labels: For an objective that takes those of its rows as a third argument.

    >>> import torch
    >>> u = torch.ones(8, 2)            # every batch pulls the same way: no noise
    >>> gradient_signal_to_noise(u, u, lambda u, v: (u * v).mean(), batch_size=2)
    inf
    """
    if batch_size < 2 or max_batches < 2:
        raise SettingError(
            "batch_size and max_batches need to be 2 or more: "
            f"got {batch_size} and {max_batches}."
        )
    u, v = as_rows(u, "u"), as_rows(v, "v")
    labels = None if labels is None else as_labels(labels, len(u)).to(u.device)
    if u.shape != v.shape or len(u) < 2 * batch_size:
        raise ShapeError(
            f"u and v need one row per sample and two batches of {batch_size}: got "
            f"{tuple(u.shape)} and {tuple(v.shape)}."
        )
    n = min(len(u) // batch_size, max_batches)
    total, square = u.new_zeros(u.shape[1], u.shape[1], dtype=torch.double), 0.0
    for k in range(n):
        rows = slice(k * batch_size, (k + 1) * batch_size)
        with torch.enable_grad():
            layer = torch.eye(u.shape[1]).to(u).requires_grad_()
            more = () if labels is None else (labels[rows],)
            loss = objective(u[rows] @ layer, v[rows] @ layer, *more)
            (g,) = torch.autograd.grad(loss, layer)
        total += g.double()
        square += g.double().square().sum().item()
    length = total.square().sum().item() / n**2  # of the mean gradient, squared
    noise = (square - n * length) / (n - 1)
    if noise <= 1e-12 * square / n:
        return float("inf") if length > 0 else 0.0
    return (max(length - noise / n, 0.0) / noise) ** 0.5


def linear_r2(
    x: Float[Tensor, "n d"],
    y: Float[Tensor, "n k"],
    *,
    grid: Sequence[float] = RIDGE_STRENGTHS,
    seed: int = 0,
) -> list[float]:
    r"""How much of each column of ``y`` can be read off the rows of ``x`` linearly.

    $$R^2 = 1 - \frac{\sum_i (y_i - \hat y_i)^2}{\sum_i (y_i - \bar y)^2},\qquad
      \hat y = w^\top x + b,\quad
      \min_{w,b}\ \tfrac1n\lVert y - \hat y\rVert^2 + \lambda\lVert w\rVert^2$$

    on standardized rows: fitted on three fifths of them, lambda chosen on one fifth, R²
    read on the last. 1 is all of it, 0 (or a little below) nothing; a column that is
    the same in all rows reads 0. Asked of the drawn parameters of the augmentations, it
    shows what an encoder keeps of its views: read from h and from z, what the head
    throws away.

    >>> import torch
    >>> x = torch.randn(200, 3, generator=torch.Generator().manual_seed(0))
    >>> [round(r, 3) for r in linear_r2(x, x[:, :1] * 2 + 1)]
    [1.0]
    """
    x, y = as_rows(x, "x", at_least=10).double(), as_rows(y, "y").double().to(x.device)
    if len(x) != len(y):
        raise ShapeError(
            f"x and y need one row per sample: got {tuple(x.shape)} and "
            f"{tuple(y.shape)}."
        )
    if not grid or min(grid) <= 0:
        raise SettingError(f"grid needs strengths above 0: got {tuple(grid)}.")
    generator = torch.Generator().manual_seed(seed)
    order = torch.randperm(len(x), generator=generator).to(x.device)
    fifth = len(x) // 5
    test, choose, fit = order[:fifth], order[fifth : 2 * fifth], order[2 * fifth :]
    deviation, mean = torch.std_mean(x[fit], 0, correction=0)
    x = (x - mean) / torch.where(deviation > 1e-7 * mean.abs(), deviation, 1.0)
    center = y[fit].mean(0)
    # one decomposition serves every strength
    values, basis = torch.linalg.eigh(x[fit].T @ x[fit] / len(fit))
    moment = basis.T @ (x[fit].T @ (y[fit] - center) / len(fit))
    scores = []
    for strength in grid:
        w = basis @ (moment / (values.clamp_min(0)[:, None] + strength))
        scores.append([_r2(x[part] @ w + center, y[part]) for part in (choose, test)])
    chosen = torch.stack([on_choose for on_choose, _ in scores]).argmax(0)
    on_test = torch.stack([on_test for _, on_test in scores])
    return on_test.gather(0, chosen[None])[0].tolist()


def _r2(guess: Float[Tensor, "n k"], y: Float[Tensor, "n k"]) -> Float[Tensor, " k"]:
    spread = (y - y.mean(0)).square().sum(0)
    left = (y - guess).square().sum(0)
    constant = spread <= 1e-20 * y.square().sum(0)
    return torch.where(constant, 0.0, 1 - left / spread.clamp_min(1e-300))

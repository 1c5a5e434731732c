r"""How much of a number can be read off embeddings linearly.

$$R^2 = 1 - \frac{\sum_i (y_i - \hat y_i)^2}{\sum_i (y_i - \bar y)^2},\qquad
  \hat y = w^\top x + b,\quad
  \min_{w,b}\ \tfrac1n\lVert y - \hat y\rVert^2 + \lambda\lVert w\rVert^2$$

on standardised rows: fitted on three fifths of them, lambda chosen on one fifth, R²
read on the last. 1 is all of it, 0 (or a little below) nothing. Asked of the drawn
parameters of the augmentations, it shows what an encoder keeps of its views: read from
h and from z, what the head throws away.
"""

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from ..errors import SettingError, ShapeError
from ._rows import as_rows

GRID = (1e-4, 1e-3, 1e-2, 1e-1, 1.0, 10.0)


def linear_r2(
    x: Float[Tensor, "n d"],
    y: Float[Tensor, "n k"],
    *,
    grid: Sequence[float] = GRID,
    seed: int = 0,
) -> list[float]:
    """Held-out R² of a ridge regression for each column of ``y``.

    A column that is the same in all rows has nothing to explain and reads 0.

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
    centre = y[fit].mean(0)
    # one decomposition serves every strength
    values, basis = torch.linalg.eigh(x[fit].T @ x[fit] / len(fit))
    moment = basis.T @ (x[fit].T @ (y[fit] - centre) / len(fit))
    tried = []
    for strength in grid:
        w = basis @ (moment / (values.clamp_min(0)[:, None] + strength))
        tried.append([_r2(x[part] @ w + centre, y[part]) for part in (choose, test)])
    chosen = torch.stack([on_choose for on_choose, _ in tried]).argmax(0)
    on_test = torch.stack([on_test for _, on_test in tried])
    return on_test.gather(0, chosen[None])[0].tolist()


def _r2(guess: Float[Tensor, "n k"], y: Float[Tensor, "n k"]) -> Float[Tensor, " k"]:
    spread = (y - y.mean(0)).square().sum(0)
    left = (y - guess).square().sum(0)
    constant = spread <= 1e-20 * y.square().sum(0)
    return torch.where(constant, 0.0, 1 - left / spread.clamp_min(1e-300))

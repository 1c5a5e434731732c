r"""Signal to noise of an objective's gradient, from batch to batch.

$$\mathrm{SNR} = \frac{\lVert\mathrm E\,g\rVert}
  {\sqrt{\mathrm E\lVert g-\mathrm E\,g\rVert^2}},\qquad
  g = \nabla_W\, L(Wu, Wv)\big|_{W=I}$$

g is the gradient of a linear layer put on top of the projections, of one mini-batch;
the expectations run over disjoint mini-batches, and ‖E g‖² is corrected for their
finite number. Being a gradient of shared weights it shows what the optimiser sees, yet
needs the embeddings only. At 1 signal and noise are equally long; B batches averaged
have sqrt(B) times the value. Objectives are compared at the same rows and batch size.
"""

from collections.abc import Callable

import torch
from jaxtyping import Float
from torch import Tensor

from ..errors import SettingError, ShapeError
from ._rows import as_rows

Objective = Callable[[Tensor, Tensor], Tensor]


def gradient_signal_to_noise(
    u: Float[Tensor, "n d"],
    v: Float[Tensor, "n d"],
    objective: Objective,
    *,
    batch_size: int,
    max_batches: int = 200,
) -> float:
    """SNR of the gradient of ``objective(u, v)`` over disjoint batches of the rows.

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
            loss = objective(u[rows] @ layer, v[rows] @ layer)
            (g,) = torch.autograd.grad(loss, layer)
        total += g.double()
        square += g.double().square().sum().item()
    length = total.square().sum().item() / n**2  # of the mean gradient, squared
    noise = (square - n * length) / (n - 1)
    if noise <= 1e-12 * square / n:
        return float("inf") if length > 0 else 0.0
    return (max(length - noise / n, 0.0) / noise) ** 0.5

r"""Reading a trained critic on rows it has never seen, with a standard error.

$$\widehat{\mathrm{var}} = \frac{b-1}{b}\sum_{k=1}^b\big(\hat I_{(k)} - \bar I\big)^2$$

the jackknife over b blocks of samples, each left out of rows and columns at once, which
is right for every bound although the entries of a critic matrix share samples.
"""

import math

import torch
from torch import Tensor

from ._models import CriticModel, DensityModel, Model

BLOCKS = 12


@torch.no_grad()
def held_out(model: Model, x: Tensor, y: Tensor) -> tuple[float, float]:
    """Nats on paired rows, and their standard error."""
    if isinstance(model, DensityModel):
        log_q = model.log_q(x, y).double()
        error = log_q.std() / math.sqrt(len(log_q))
        return model.value(x, y).item(), error.item()
    assert isinstance(model, CriticModel)
    scores, helper = model.parts(x, y)
    value = model.bound.value
    nats = value(scores, helper).item()
    n = len(x)
    blocks = min(BLOCKS, n)
    number = torch.arange(n, device=x.device) * blocks // n
    without = []
    for k in range(blocks):
        keep = (number != k).nonzero().squeeze(1)
        part = scores.index_select(-2, keep).index_select(-1, keep)
        without.append(value(part, helper[keep]).item())
        del part
    left = torch.tensor(without, dtype=torch.float64)
    spread = (left - left.mean()).square().sum() * (blocks - 1) / blocks
    return nats, spread.sqrt().item()

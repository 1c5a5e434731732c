r"""Columns made normal, one by one, by increasing maps learned from training rows.

$$z = \Phi^{-1}\big(\hat F(x)\big)$$

F is the distribution function of the training rows, joined by straight lines between
its quantiles and continued with its last slopes beyond them. Every column's map is
strictly increasing, so it can be undone and no information is lost or added, whatever
the rows it is later applied to. Cubes, logarithms and heavy tails disappear this way.
"""

from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float
from scipy.special import ndtri
from torch import Tensor

KNOTS = 2001


@dataclass(frozen=True)
class NormalScores:
    """The increasing maps of all columns; call it on rows."""

    knots: tuple[tuple[np.ndarray, np.ndarray], ...]

    def __call__(self, z: Float[Tensor, "n d"]) -> Float[Tensor, "n d"]:
        """The same rows with columns made normal."""
        out = np.empty(z.shape)
        for k, (at, to) in enumerate(self.knots):
            out[:, k] = _broken_line(z[:, k].double().cpu().numpy(), at, to)
        return torch.from_numpy(out).to(z.dtype)


def fit_normal_scores(z: Float[Tensor, "n d"]) -> NormalScores:
    """Learn the maps from rows; equal values share the middle of their ranks."""
    return NormalScores(tuple(_knots(c) for c in z.double().cpu().numpy().T))


def _knots(column: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    n = len(column)
    values, counts = np.unique(column, return_counts=True)
    middle = (np.cumsum(counts) - counts / 2) / n
    if len(values) > KNOTS:
        # evenly spread ranks, closer together towards the ends, where tails are
        spread = np.sin(np.linspace(-np.pi / 2, np.pi / 2, KNOTS)) / 2 + 0.5
        pick = np.unique(np.round(spread * (len(values) - 1)).astype(int))
        values, middle = values[pick], middle[pick]
    return values, ndtri(middle)


def _broken_line(z: np.ndarray, at: np.ndarray, to: np.ndarray) -> np.ndarray:
    """Interpolation that goes on with a positive slope outside."""
    if len(at) < 2:
        return z - at[0]
    out = np.interp(z, at, to)
    tail = min(len(at) - 1, max(1, len(at) // 50))  # one noisy gap is no slope
    low = (to[tail] - to[0]) / (at[tail] - at[0])
    high = (to[-1] - to[-1 - tail]) / (at[-1] - at[-1 - tail])
    out += np.minimum(z - at[0], 0) * low + np.maximum(z - at[-1], 0) * high
    return out

r"""Barber-Agakov: how much better x predicts y than nothing does.

$$I \ge H(Y) + E_p\big[\log q(y\mid x)\big]$$

A bound for any conditional density q, if the entropy of Y is known. For labels it is
their entropy less the cross-entropy of a classifier. For numbers H(Y) is not known and
is replaced by the cross-entropy of a Gaussian model of y, which makes the value a
difference of two models, and no bound.
"""

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from ..critics import mlp


def barber_agakov(
    log_q: Float[Tensor, " n"], entropy: float | int | Tensor
) -> Float[Tensor, ""]:
    """The bound from log q(y_i|x_i) and the entropy of Y, in nats."""
    return entropy + log_q.mean()


class Classifier(nn.Module):
    """q(y|x) of labels: a softmax over the classes."""

    def __init__(self, x_width: int, classes: int, *, width: int = 128) -> None:
        super().__init__()
        self.logits = mlp(x_width, classes, width=width, depth=2)

    def log_q(
        self, x: Float[Tensor, "n d"], label: Int[Tensor, " n"]
    ) -> Float[Tensor, " n"]:
        """Log q of each row's own label."""
        return -cross_entropy(self.logits(x), label, reduction="none")


class Regressor(nn.Module):
    """q(y|x) of numbers: normal around a network, with a network's spread.

    y is first whitened with the covariance of the training rows, so that the model of
    the margin is a standard normal and ``log_q`` is relative to it.
    """

    def __init__(self, x: Tensor, y: Tensor, *, width: int = 128) -> None:
        super().__init__()
        self.mean = nn.Buffer(y.mean(0))
        centred = (y - self.mean).double()
        values, vectors = torch.linalg.eigh(centred.T @ centred / len(y))
        keep = values > 1e-10 * values[-1]
        self.white = nn.Buffer((vectors[:, keep] / values[keep].sqrt()).to(y.dtype))
        d = self.white.shape[1]
        self.net = mlp(x.shape[1], 2 * d, width=width, depth=2)
        last = self.net[-1]
        assert isinstance(last, nn.Linear)
        nn.init.zeros_(last.weight)  # starts as the margin: no information yet
        nn.init.zeros_(last.bias)
        self.linear = nn.Linear(x.shape[1], d)
        nn.init.zeros_(self.linear.weight)
        nn.init.zeros_(self.linear.bias)

    def log_q(
        self, x: Float[Tensor, "n d"], y: Float[Tensor, "n e"]
    ) -> Float[Tensor, " n"]:
        """Log q(y|x) - log q(y): what the pair is worth in nats."""
        white = (y - self.mean) @ self.white
        bend, log_spread = self.net(x).chunk(2, 1)
        log_spread = 5 * torch.tanh(log_spread / 5)
        error = (white - self.linear(x) - bend) * (-log_spread).exp()
        conditional = -0.5 * error.square() - log_spread
        return (conditional + 0.5 * white.square()).sum(1)


def label_entropy(label: Int[Tensor, " n"]) -> float:
    """The entropy of labels with Miller and Madow's correction, in nats."""
    counts = label.bincount().double()
    counts = counts[counts > 0]
    p = counts / counts.sum()
    return (-(p * p.log()).sum() + (len(p) - 1) / (2 * len(label))).item()
